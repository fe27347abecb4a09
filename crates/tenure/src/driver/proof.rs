//! Where code outside the store can check that a lease is held, and where a database takes a lock.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::driver::{Loss, Mode};
use crate::error::Result;
use crate::guarded::NodeWrite;
use crate::name::{ClaimId, Fence, Name};
use crate::transaction::Dialect;

/// Where a statement of the caller's own transaction can check a lease.
///
/// A store whose leases can be checked together with other requests (as rows of a database) describes here what
/// to check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// A node of ZooKeeper; see [`NodeProof`].
    Node(NodeProof),
    /// A row of a lock table; see [`RowProof`].
    Row(RowProof),
}

/// A row of a lock table, in the format of the stores `postgres://` and `mysql://`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowProof {
    /// The SQL dialect of the database.
    pub dialect: Dialect,
    /// The table, as statements name it.
    pub table: String,
    /// The name that is locked.
    pub name: Name,
    /// The claim that must hold it.
    pub claim: ClaimId,
    /// The number of its grant in the store.
    pub fence: Fence,
    /// How it holds the name: shared or exclusively.
    pub mode: Mode,
}

/// A node of ZooKeeper that exists for as long as a lease is held.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeProof {
    /// Its path.
    pub path: String,
    /// What writes to other nodes if this one is there.
    pub writer: Arc<dyn NodeWriter>,
}

impl NodeProof {
    /// Describes a node, and who can write.
    pub fn new(path: String, writer: Arc<dyn NodeWriter>) -> Self {
        Self { path, writer }
    }
}

impl PartialEq for NodeProof {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for NodeProof {}

/// Writes to nodes of ZooKeeper.
#[async_trait]
pub trait NodeWriter: Debug + Send + Sync {
    /// Makes all changes if the node at `path` is there, and none otherwise.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::Error::Conflict) if a change is not possible; faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may have changed all or none.
    async fn write_if_there(&self, path: &str, writes: &[NodeWrite]) -> Result<Result<(), Loss>>;
}

/// Where a lock that belongs to a database transaction is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowKey {
    /// An advisory lock of PostgreSQL, on the hash of a text.
    Advisory {
        /// The text.
        text: String,
    },
    /// An existing row of a table in MySQL or MariaDB.
    Row {
        /// The table, as statements name it.
        table: String,
        /// Whether the server supports `FOR UPDATE WAIT n`.
        waits: bool,
    },
}
