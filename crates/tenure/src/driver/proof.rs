//! Where code outside the store can check that a lease is held, and where a database takes a lock.

use crate::driver::Mode;
use crate::name::{ClaimId, Fence, Name};
use crate::transaction::Dialect;

/// Where a statement of the caller's own transaction can check a lease.
///
/// A store whose leases can be checked together with other requests (as rows of a database) describes here what
/// to check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
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
