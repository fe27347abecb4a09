//! Finds all names of a store by scanning its keys.

use std::collections::BTreeSet;

use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{FromRedisValue, Value};

use crate::error::Result;
use crate::name::Name;
use crate::store::redis::connect::Connection;
use crate::store::redis::fault;
use crate::store::redis::keys::Keys;
use crate::store::redis::link::Link;
use crate::store::redis::slots;
use crate::store::redis::url::Host;

/// Returns the names that are held or waited for, sorted.
pub(crate) async fn names(link: &Link, keys: &Keys) -> Result<Vec<Name>> {
    // `None` stands for the one server of the link.
    let servers = match link.connection().await? {
        Connection::Server(_) => vec![None],
        Connection::Cluster(cluster) => {
            let ranges = slots::ranges(link).await?;
            let masters: BTreeSet<_> = ranges.into_iter().map(|range| range.master).collect();
            let node = |Host { name: host, port }| {
                let node = SingleNodeRoutingInfo::ByAddress { host, port };
                Some((cluster.clone(), RoutingInfo::SingleNode(node)))
            };
            masters.into_iter().map(node).collect()
        }
    };
    let mut names = BTreeSet::new();
    for mut server in servers {
        let mut cursor = 0;
        loop {
            let scan = scan(cursor, keys);
            let answer = match &mut server {
                None => link.send(&scan).await?,
                Some((cluster, node)) => {
                    let answer = cluster.route_command(scan, node.clone()).await;
                    answer.map_err(|error| fault::Fault::of(error).error)?
                }
            };
            cursor = take(answer, keys, &mut names)?;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(names.into_iter().collect())
}

fn scan(cursor: u64, keys: &Keys) -> redis::Cmd {
    let mut cmd = redis::cmd("SCAN");
    cmd.arg(cursor).arg("MATCH").arg(keys.pattern());
    cmd.arg("COUNT").arg(1000);
    cmd
}

/// Collects the names of one reply; returns the next cursor.
fn take(answer: Value, keys: &Keys, names: &mut BTreeSet<Name>) -> Result<u64> {
    let answer = <(u64, Vec<Vec<u8>>)>::from_redis_value(answer);
    let (cursor, found) = answer.map_err(|_| fault::garbled())?;
    let found = found.iter().filter_map(|key| std::str::from_utf8(key).ok());
    names.extend(found.filter_map(|key| keys.name(key)));
    Ok(cursor)
}
