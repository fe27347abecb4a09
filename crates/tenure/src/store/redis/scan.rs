//! All names of a store, found by looking through its keys.

use std::collections::BTreeSet;

use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{FromRedisValue, Value};

use crate::error::Result;
use crate::name::Name;
use crate::store::redis::connect::Connection;
use crate::store::redis::fault;
use crate::store::redis::keys::Keys;
use crate::store::redis::link::Link;

/// Returns the names that are held or waited for, sorted.
pub(crate) async fn names(link: &Link, keys: &Keys) -> Result<Vec<Name>> {
    let mut names = BTreeSet::new();
    match link.connection().await? {
        Connection::Server(_) => {
            let mut cursor = 0;
            loop {
                let answer = link.send(&scan(cursor, keys)).await?;
                cursor = take(answer, keys, &mut names)?;
                if cursor == 0 {
                    break;
                }
            }
        }
        Connection::Cluster(mut cluster) => {
            for master in masters(&mut cluster).await? {
                let mut cursor = 0;
                loop {
                    let (host, port) = master.clone();
                    let node = SingleNodeRoutingInfo::ByAddress { host, port };
                    let scan = scan(cursor, keys);
                    let answer = cluster
                        .route_command(scan, RoutingInfo::SingleNode(node))
                        .await;
                    let answer = answer.map_err(|error| fault::Fault::of(error).error)?;
                    cursor = take(answer, keys, &mut names)?;
                    if cursor == 0 {
                        break;
                    }
                }
            }
        }
    }
    Ok(names.into_iter().collect())
}

/// The masters of a cluster, by what its own map says.
async fn masters(
    cluster: &mut redis::cluster_async::ClusterConnection,
) -> Result<BTreeSet<(String, u16)>> {
    let slots: Value = redis::cmd("CLUSTER")
        .arg("SLOTS")
        .query_async(cluster)
        .await
        .map_err(|error| fault::Fault::of(error).error)?;
    let Value::Array(ranges) = slots else {
        return Err(fault::garbled());
    };
    let master = |range: &Value| {
        // First slot, last slot, and the nodes that have them: the master first.
        let Value::Array(parts) = range else {
            return None;
        };
        let Value::Array(node) = parts.get(2)? else {
            return None;
        };
        let host = String::from_redis_value(node.first()?.clone()).ok()?;
        let port = u16::from_redis_value(node.get(1)?.clone()).ok()?;
        Some((host, port))
    };
    let masters = ranges.iter().map(master);
    masters.collect::<Option<_>>().ok_or_else(fault::garbled)
}

fn scan(cursor: u64, keys: &Keys) -> redis::Cmd {
    let mut cmd = redis::cmd("SCAN");
    cmd.arg(cursor).arg("MATCH").arg(keys.pattern());
    cmd.arg("COUNT").arg(1000);
    cmd
}

/// Takes the names out of one answer; returns where to go on.
fn take(answer: Value, keys: &Keys, names: &mut BTreeSet<Name>) -> Result<u64> {
    let answer = <(u64, Vec<Vec<u8>>)>::from_redis_value(answer);
    let (cursor, found) = answer.map_err(|_| fault::garbled())?;
    let found = found.iter().filter_map(|key| std::str::from_utf8(key).ok());
    names.extend(found.filter_map(|key| keys.name(key)));
    Ok(cursor)
}
