//! The messages between a client and one of several voting servers.

use tokio::time::Instant;

use crate::driver::Answer;
use crate::name::Fence;

/// The number that a grant must have.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// The server's own number, but at least this one.
    AtLeast(u64),
    /// Exactly this number, which won the vote.
    Exactly(Fence),
}

/// One server's answer to a claim.
#[derive(Debug, Clone, Copy)]
pub struct Vote {
    /// The answer.
    pub answer: Answer,
    /// Whether it granted the claim with the fence that its owner's other claims have there.
    pub joins: bool,
    /// The server's clock in microseconds, if it granted the claim.
    pub clock_us: Option<u64>,
    /// When the server started, if known.
    pub started: Option<Instant>,
    /// Whether requests that were sent later may have been carried out earlier.
    pub delayed: bool,
}
