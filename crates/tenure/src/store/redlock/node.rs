//! What redlock needs from one voting server.

use std::sync::Arc;

use async_trait::async_trait;

use crate::driver::{Claim, Driver};
use crate::error::{Error, Result};
use crate::store::redis::hash::Hash;
use crate::store::vote::{Number, Vote};

/// One of several voting servers: a separate store that also votes on claims.
///
/// Nothing waits for a single server: without a connection, each request fails at once. Requests are
/// executed in the order in which they were sent, unless the [vote](Vote::delayed) says otherwise.
#[async_trait]
pub trait Node: Driver {
    /// Asks for a vote on a claim.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Driver::acquire).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may leave a lease or a place in line behind.
    async fn vote(&self, claim: &Claim, number: Number) -> Result<Vote>;

    /// Returns whether there is a connection.
    fn is_connected(&self) -> bool;

    /// Waits until there is a connection.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](Error::Unavailable) once an attempt to connect has failed; attempts continue.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: waiting changes nothing.
    async fn connected(&self) -> Result<()>;

    /// Returns why there is no connection.
    fn no_connection(&self) -> Error;

    /// Returns the current time of the server's clock in microseconds, extrapolated from when the
    /// connection was made.
    fn clock_us(&self) -> Option<u64>;

    /// Returns where the server is, for people.
    fn place(&self) -> String;

    /// Connects again on behalf of the same client, on the caller's runtime.
    fn again(&self) -> Arc<dyn Node>;
}

#[async_trait]
impl Node for Hash {
    async fn vote(&self, claim: &Claim, number: Number) -> Result<Vote> {
        self.vote(claim, number).await
    }

    fn is_connected(&self) -> bool {
        self.link.is_up()
    }

    async fn connected(&self) -> Result<()> {
        self.link.next_try().await
    }

    fn no_connection(&self) -> Error {
        self.link.no_connection()
    }

    fn clock_us(&self) -> Option<u64> {
        self.link.clock_us()
    }

    fn place(&self) -> String {
        self.settings().place()
    }

    fn again(&self) -> Arc<dyn Node> {
        Arc::new(self.again())
    }
}
