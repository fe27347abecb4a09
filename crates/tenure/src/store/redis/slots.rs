//! The map of a cluster: which master has which slots.

use redis::cluster_routing::Slot;
use redis::{FromRedisValue, Value};

use crate::error::Result;
use crate::store::redis::fault;
use crate::store::redis::link::Link;
use crate::store::redis::url::{Host, Servers};

/// A range of slots, and the servers that own it.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) master: Host,
    #[cfg_attr(not(feature = "doctor"), expect(dead_code, reason = "the doctor asks"))]
    pub(crate) replicas: Vec<Host>,
}

impl Range {
    /// Returns whether the range contains the slot of this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        // The client library does not expose the number.
        let slot = Some(Slot::for_key(key));
        (self.first..=self.last).any(|number| Slot::new(number) == slot)
    }

    /// Parses a range: the first slot, the last, the master, and its replicas.
    fn read(range: &Value, asked: &str) -> Option<Self> {
        let Value::Array(parts) = range else {
            return None;
        };
        let [first, last, master, replicas @ ..] = &parts[..] else {
            return None;
        };
        let replicas = replicas.iter().map(|node| host(node, asked));
        Some(Self {
            first: u16::from_redis_value(first.clone()).ok()?,
            last: u16::from_redis_value(last.clone()).ok()?,
            master: host(master, asked)?,
            replicas: replicas.collect::<Option<_>>()?,
        })
    }
}

/// Parses a node: its name or address, its port, and more.
///
/// A node that does not know its own name is at the host that was asked.
fn host(node: &Value, asked: &str) -> Option<Host> {
    let Value::Array(node) = node else {
        return None;
    };
    let name = <Option<String>>::from_redis_value(node.first()?.clone()).ok()?;
    let name = name.filter(|name| !matches!(name.as_str(), "" | "?"));
    Some(Host {
        name: name.unwrap_or_else(|| asked.to_owned()),
        port: u16::from_redis_value(node.get(1)?.clone()).ok()?,
    })
}

/// Parses a server's reply to `CLUSTER SLOTS`.
pub(crate) fn read(slots: &Value, asked: &str) -> Result<Vec<Range>> {
    let Value::Array(ranges) = slots else {
        return Err(fault::garbled());
    };
    let ranges = ranges.iter().map(|range| Range::read(range, asked));
    ranges.collect::<Option<_>>().ok_or_else(fault::garbled)
}

/// Asks the cluster for its map.
pub(crate) async fn ranges(cluster: &Link) -> Result<Vec<Range>> {
    let slots = cluster.send(redis::cmd("CLUSTER").arg("SLOTS")).await?;
    let asked = match &cluster.settings().servers {
        Servers::Cluster(nodes) => nodes.first().map_or("", |node| &node.name),
        _ => "",
    };
    read(&slots, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_name_is_where_the_map_was_asked_for() {
        let range = |name: Value| {
            let node = Value::Array(vec![name, Value::Int(7000)]);
            let range = Value::Array(vec![Value::Int(0), Value::Int(16383), node]);
            Range::read(&range, "here").unwrap().master.to_string()
        };
        assert_eq!(range(Value::BulkString(b"there".to_vec())), "there:7000");
        assert_eq!(range(Value::BulkString(Vec::new())), "here:7000");
        assert_eq!(range(Value::BulkString(b"?".to_vec())), "here:7000");
        assert_eq!(range(Value::Nil), "here:7000");
    }

    #[test]
    fn a_key_is_in_the_range_of_its_slot() {
        let range = |first, last| Range {
            first,
            last,
            master: Host {
                name: String::new(),
                port: 1,
            },
            replicas: Vec::new(),
        };
        // The slots follow from CRC16, as the cluster specification defines.
        assert!(range(12182, 12182).has("foo"));
        assert!(range(0, 16383).has("foo"));
        assert!(!range(0, 12181).has("foo") && !range(12183, 16383).has("foo"));
    }
}
