//! Writes that a store accepts only while a lock is held, for data in the same store.
//!
//! A store that decides writes and locks together can refuse the writes of a holder whose lock is over: then even a
//! holder that was paused for a minute right before its write does no harm, and the data need no fence. ZooKeeper can: a
//! transaction that checks the node of the lock fails as soon as that node is gone.
//!
//! Only `zookeeper://` has it. For data in a database see [`transaction`](crate::transaction).

use crate::driver::{NodeProof, Proof};
use crate::error::{Error, Result};
use crate::guard::{Guard, Health};

/// One change of a ZooKeeper node, with an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeWrite {
    /// Makes a node that stays; fails if it is there, or its parent is not.
    Create {
        /// Its path.
        path: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// Deletes a node without children; fails if it is not there, or has another version.
    Delete {
        /// Its path.
        path: String,
        /// The version that it must have, or any.
        version: Option<i32>,
    },
    /// Replaces the data of a node; fails if it is not there, or has another version.
    Set {
        /// Its path.
        path: String,
        /// Its new data.
        data: Vec<u8>,
        /// The version that it must have, or any.
        version: Option<i32>,
    },
}

impl NodeWrite {
    /// Makes a node.
    pub fn create(path: &str, data: impl Into<Vec<u8>>) -> Self {
        let (path, data) = (path.to_owned(), data.into());
        Self::Create { path, data }
    }

    /// Deletes a node, whatever its version.
    pub fn delete(path: &str) -> Self {
        let path = path.to_owned();
        Self::Delete {
            path,
            version: None,
        }
    }

    /// Replaces the data of a node, whatever its version.
    pub fn set(path: &str, data: impl Into<Vec<u8>>) -> Self {
        let (path, data) = (path.to_owned(), data.into());
        Self::Set {
            path,
            data,
            version: None,
        }
    }

    /// The same for one version of the node alone; no change for a node that is made.
    pub fn at_version(mut self, wanted: i32) -> Self {
        match &mut self {
            Self::Create { .. } => {}
            Self::Delete { version, .. } | Self::Set { version, .. } => *version = Some(wanted),
        }
        self
    }
}

impl Guard {
    /// Returns the path of the ZooKeeper node that exists for as long as the lock is held.
    ///
    /// For a ZooKeeper client of your own: a `multi` with `check(path, -1)` in front writes only while the lock is held.
    /// `None` for other stores, and after the end of the lock.
    pub fn node(&self) -> Option<String> {
        self.node_proof().map(|proof| proof.path)
    }

    /// Changes ZooKeeper nodes if the lock is still held: all of them or none, in one transaction with a check of the lock.
    ///
    /// The servers decide both together. So a holder that was paused, or whose request was held up in the network, changes
    /// nothing once its lock is over, and the nodes need no fence. Nodes are made with the rights that locks have: open to all,
    /// or for the user of the URL alone.
    ///
    /// # Errors
    ///
    /// [`Lost`](Error::Lost) if the lock is over; [`Conflict`](Error::Conflict) if a change is not possible, because a node is there
    /// or not, has children or another version; [`Unsupported`](Error::Unsupported) for stores other than ZooKeeper;
    /// [`Indeterminate`](Error::Indeterminate) if the answer was lost: all or none may have been changed. After any other error
    /// nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may have changed all or none.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tenure::guarded::NodeWrite;
    ///
    /// # async fn promote(locks: &tenure::Client) -> tenure::Result<()> {
    /// let guard = locks.mutex("primary").lock().await?;
    /// guard.write_nodes(&[NodeWrite::set("/app/primary", "db-2.internal")]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_nodes(&self, writes: &[NodeWrite]) -> Result<()> {
        let hold = self.hold();
        let (engine, lease) = (&hold.engine, &hold.lease);
        engine.check_origin()?;
        let lost = |source| Error::Lost {
            name: lease.claim.name.clone(),
            source,
        };
        if let Health::Lost(loss) = self.health() {
            return Err(lost(loss));
        }
        let Some(proof) = self.node_proof() else {
            return Err(Error::Unsupported {
                driver: engine.driver.kind(),
                what: "guarded writes, check the fence instead",
            });
        };
        let written = proof.writer.write_if_there(&proof.path, writes).await?;
        written.map_err(lost)
    }

    fn node_proof(&self) -> Option<NodeProof> {
        let hold = self.hold();
        let proof = hold
            .engine
            .driver
            .proof(&hold.lease.claim, hold.lease.fence);
        match proof? {
            Proof::Node(proof) => Some(proof),
            Proof::Row(_) => None,
        }
    }
}
