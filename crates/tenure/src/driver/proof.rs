//! Where others than the store can see that a lease is held, and where a lock in a database is taken.

use crate::driver::Mode;
use crate::name::{ClaimId, Fence, Name};
use crate::transaction::Dialect;

/// Where a lease can be seen by a statement of somebody else's transaction.
///
/// A store whose requests can be combined with a check of a lease (a row of a database) says here what to check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// A row of a lock table: see [`RowProof`].
    Row(RowProof),
}

/// A row of a table of locks, in the format of the stores `postgres://` and `mysql://`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowProof {
    /// Which statements the database understands.
    pub dialect: Dialect,
    /// The table, as a statement names it.
    pub table: String,
    /// The name that is locked.
    pub name: Name,
    /// The claim that must hold it.
    pub claim: ClaimId,
    /// The number of its grant in the store.
    pub fence: Fence,
    /// How it holds the name: with others or alone.
    pub mode: Mode,
}

/// Where a lock is taken that belongs to a transaction of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowKey {
    /// An advisory lock of PostgreSQL, on the hash of a text.
    Advisory {
        /// The text.
        text: String,
    },
    /// A row of a table in MySQL or MariaDB, which is there.
    Row {
        /// The table, as a statement names it.
        table: String,
        /// Whether the server understands `FOR UPDATE WAIT n`.
        waits: bool,
    },
}
