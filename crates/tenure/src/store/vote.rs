//! What a client and one of several servers that vote say to each other.

use tokio::time::Instant;

use crate::driver::Answer;
use crate::name::Fence;

/// Which number a grant must have.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// The server's own, but at least this.
    AtLeast(u64),
    /// This one, which has won the vote.
    Exactly(Fence),
}

/// What one server answers to a claim.
#[derive(Debug, Clone, Copy)]
pub struct Vote {
    /// Whether it granted the claim.
    pub answer: Answer,
    /// Whether it granted the claim with the fence that its owner's other claims have there.
    pub joins: bool,
    /// The server's clock in microseconds, if it granted the claim.
    pub clock_us: Option<u64>,
    /// Since when the server is up, if it is known.
    pub started: Option<Instant>,
    /// Whether requests that were sent later may have been carried out earlier.
    pub delayed: bool,
}
