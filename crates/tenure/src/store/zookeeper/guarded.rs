//! Writes that are accepted only while a lock is held.

use async_trait::async_trait;

use crate::driver::{Loss, NodeWriter};
use crate::error::{Error, Result};
use crate::guarded::NodeWrite;
use crate::store::zookeeper::core::{Core, data, delete, sync};
use crate::store::zookeeper::wire::{Code, NodeKind, Operation, Watch};
use crate::store::zookeeper::{KIND, fault};

#[async_trait]
impl NodeWriter for Core {
    async fn write_if_there(&self, path: &str, writes: &[NodeWrite]) -> Result<Result<(), Loss>> {
        let check = Operation::Check {
            path: path.to_owned(),
        };
        let operations = [check].into_iter().chain(writes.iter().map(operation));
        let written = self.one(Operation::Multi(operations.collect())).await?;
        let Err(why) = written else {
            return Ok(Ok(()));
        };
        let changed = match why {
            Code::NO_NODE => "a node is not there (-101)",
            Code::BAD_VERSION => "a node has another version (-103)",
            Code::NODE_EXISTS => "a node is there already (-110)",
            Code::NOT_EMPTY => "a node has children (-111)",
            code => return Err(fault::refused(code, "the nodes to be written")),
        };
        // Nothing was written; whether because of the lock is what its own node shows.
        let look = vec![sync(path), data(path, Watch::No)];
        match self.fly(look).await.map(|flown| flown.answers) {
            Ok(answers) if matches!(answers.last(), Some(Err(Code::NO_NODE))) => {
                Ok(Err(Loss::Gone))
            }
            _ => Err(Error::Conflict {
                driver: KIND,
                source: changed.into(),
            }),
        }
    }
}

fn operation(write: &NodeWrite) -> Operation {
    match write {
        NodeWrite::Create { path, data } => Operation::Create {
            path: path.clone(),
            data: data.clone(),
            kind: NodeKind::Persistent,
        },
        NodeWrite::Delete { path, version } => delete(path, *version),
        NodeWrite::Set {
            path,
            data,
            version,
        } => Operation::SetData {
            path: path.clone(),
            data: data.clone(),
            version: *version,
        },
    }
}
