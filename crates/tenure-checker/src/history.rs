//! What happened in a run, as recorded by those who took part.

use serde::{Deserialize, Serialize};

/// All events of a run, ordered by time; those of one process in the order in which it recorded
/// them.
pub type History = Vec<Event>;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened, in microseconds of the machine's boot-time clock, which all its processes
    /// share.
    pub at_us: u64,
    /// The process that recorded it, or that started or ended. Process 0 runs the others, injects
    /// the faults and keeps the resource.
    pub process: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

impl Event {
    /// Returns an event of a process at a time.
    #[must_use]
    pub fn new(at_us: u64, process: u32, what: What) -> Self {
        Self {
            at_us,
            process,
            what,
        }
    }
}

/// What happened.
///
/// A claim is one call that asks for a name; its number is unique in a history. It ends with
/// `granted`, `refused` or `unknown`, or with none of them if its process was killed or still
/// waits, or if the call was dropped, which is a `releasing` without a grant. A grant is a belief
/// of the client. It ends with the first of `lost`, `releasing` and the end of its process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// The process has started; after an end with the same number, a new process takes its place.
    Started,
    /// The process has ended, either regularly or by a crash that no fault explains. A process that
    /// ends regularly has no open claims.
    Ended {
        /// Whether it crashed.
        crashed: bool,
    },
    /// A claim was sent, or is about to be.
    Asked {
        /// The claim.
        claim: u64,
        /// The name to lock.
        name: String,
        /// The mode of the claim.
        mode: Mode,
        /// Who asks. Claims of one owner may hold one name together, which is re-entry.
        owner: String,
    },
    /// The claim was seen in the store's line.
    Queued {
        /// The claim.
        claim: u64,
    },
    /// The client learned that it holds the name.
    Granted {
        /// The claim.
        claim: u64,
        /// The fence of the grant, if the lock has fences.
        fence: Option<u64>,
    },
    /// The client learned that it does not hold the name.
    Refused {
        /// The claim.
        claim: u64,
    },
    /// The client learned that the outcome is unknown.
    Unknown {
        /// The claim.
        claim: u64,
        /// The error that it got.
        error: String,
    },
    /// The client has noticed that it no longer holds the name.
    Lost {
        /// The claim.
        claim: u64,
    },
    /// The client starts to release.
    Releasing {
        /// The claim.
        claim: u64,
    },
    /// The client learned the outcome of its release.
    Released {
        /// The claim.
        claim: u64,
        /// The outcome.
        freed: Freed,
    },
    /// A client that believes it holds the lock wrote to the resource. The resource records this,
    /// in its own order.
    Wrote {
        /// The claim on whose behalf it is written.
        claim: u64,
        /// The name of the resource.
        name: String,
        /// The fence that came with the write.
        fence: Option<u64>,
        /// The version that the writer had read; a write creates the next one.
        read: u64,
        /// The version that the write creates.
        version: u64,
        /// The answer of the resource.
        outcome: Written,
    },
    /// A fault was injected and has visibly happened. Its time is from just before it was injected,
    /// so that all its effects are later. A `kill` ends its target. What the target recorded later
    /// was in flight, and counts only if its `ended` is recorded as well.
    Fault {
        /// The kind of fault: `kill`, `pause`, `reply-loss` …
        kind: String,
        /// The process that it hit; `None` if it hit the store or the network.
        target: Option<u32>,
    },
    /// A fault with a duration is over, for example a paused process continues. The time is again
    /// from just before.
    Over {
        /// The kind of fault.
        kind: String,
        /// The process that it had hit.
        target: Option<u32>,
    },
    /// Something that the lock does not promise to survive has ended this claim's lease: an
    /// operator, or a store that lost its data or whose clock jumped. The belief does not count
    /// from here until `until_us`, when its holder must have noticed.
    Excused {
        /// The claim.
        claim: u64,
        /// Until when, in microseconds.
        until_us: u64,
    },
    /// There are no more faults from here on: everybody who waits must make progress.
    Healed,
    /// This was still found in the store after everybody had released and ended.
    Left {
        /// A description for people.
        found: String,
    },
}

/// The mode in which a name is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By one owner alone.
    Exclusive,
    /// Together with others that share it.
    Shared,
    /// A number of permits of a semaphore.
    Permits {
        /// How many permits the claim takes.
        take: u32,
        /// How many permits there are.
        of: u32,
    },
}

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freed {
    /// The lock is free, or was handed over to the next in line.
    Freed,
    /// The same owner still holds it.
    Lowered,
    /// It was no longer held; nothing was changed.
    NotHeld,
    /// The outcome is unknown.
    Unknown,
}

/// The answer of a resource to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// It was written.
    Accepted,
    /// A larger fence was seen before; nothing was written.
    Stale,
}
