//! The map of a cluster: which master has which slots.

use redis::cluster_routing::Slot;
use redis::{FromRedisValue, Value};

use crate::error::Result;
use crate::store::redis::fault;
use crate::store::redis::link::Link;
use crate::store::redis::url::{Host, Servers};

/// Slots that follow each other, and the master that has them.
#[derive(Debug)]
pub(crate) struct Range {
    first: u16,
    last: u16,
    pub(crate) master: Host,
}

impl Range {
    /// Whether the slot of this key is among them.
    pub(crate) fn has(&self, key: &str) -> bool {
        // The number itself is not to be had.
        let slot = Some(Slot::for_key(key));
        (self.first..=self.last).any(|number| Slot::new(number) == slot)
    }

    /// Reads a range; a node without a name is at the host where the map was asked for.
    fn read(range: &Value, host: &str) -> Option<Self> {
        // First slot, last slot, and the nodes that have them: the master first.
        let Value::Array(parts) = range else {
            return None;
        };
        let number = |index: usize| u16::from_redis_value(parts.get(index)?.clone()).ok();
        let Value::Array(node) = parts.get(2)? else {
            return None;
        };
        let name = <Option<String>>::from_redis_value(node.first()?.clone()).ok()?;
        let name = name.filter(|name| !name.is_empty());
        let port = u16::from_redis_value(node.get(1)?.clone()).ok()?;
        Some(Self {
            first: number(0)?,
            last: number(1)?,
            master: Host {
                name: name.unwrap_or_else(|| host.to_owned()),
                port,
            },
        })
    }
}

/// Asks the cluster for its map.
pub(crate) async fn ranges(cluster: &Link) -> Result<Vec<Range>> {
    let mut cmd = redis::cmd("CLUSTER");
    cmd.arg("SLOTS");
    let Value::Array(ranges) = cluster.send(&cmd).await? else {
        return Err(fault::garbled());
    };
    let host = match &cluster.settings().servers {
        Servers::Cluster(nodes) => nodes.first().map_or("", |node| &node.name),
        _ => "",
    };
    let ranges = ranges.iter().map(|range| Range::read(range, host));
    ranges.collect::<Option<_>>().ok_or_else(fault::garbled)
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
        };
        // By CRC16, as the specification of clusters has it.
        assert!(range(12182, 12182).has("foo"));
        assert!(range(0, 16383).has("foo"));
        assert!(!range(0, 12181).has("foo") && !range(12183, 16383).has("foo"));
    }
}
