//! What happened in a run, in the words of those who took part.

use serde::{Deserialize, Serialize};

/// All events of a run, in the order of their times; those of one process in the order in which it noted them.
pub type History = Vec<Event>;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in microseconds of the machine's boot-time clock, which all its processes share.
    pub at_us: u64,
    /// The process that noted it, or that began or ended; 0 is the one that runs the others, makes the faults and keeps the
    /// resource.
    pub process: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

impl Event {
    /// Notes what happened when to which process.
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
/// A claim is one call that asks for a name, and its number is used once in a history. It ends in `granted`, `refused` or
/// `unknown`, or in none of them: its process was killed, or still waits; or the call was dropped, which is a `releasing`
/// without a grant. Granted is a belief of the client that ends with the
/// first of `lost`, `releasing` and the end of its process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// The process has begun; after an end with the same number, another one in its place.
    Started,
    /// The process has ended: as it should, or by a crash of its own that no fault explains. Who ends as it should has no claim
    /// that is still open.
    Ended {
        /// Whether nobody asked for it.
        crashed: bool,
    },
    /// A claim was sent, or is about to be.
    Asked {
        /// The claim.
        claim: u64,
        /// What is to be locked.
        name: String,
        /// How.
        mode: Mode,
        /// Who asks: claims of one owner may hold one name together, which is re-entry.
        owner: String,
    },
    /// Somebody saw the claim in the store's line.
    Queued {
        /// The claim.
        claim: u64,
    },
    /// The client was told that it holds the name.
    Granted {
        /// The claim.
        claim: u64,
        /// The number of the grant, where the lock has numbers.
        fence: Option<u64>,
    },
    /// The client was told that it holds nothing.
    Refused {
        /// The claim.
        claim: u64,
    },
    /// The client was told that nobody knows.
    Unknown {
        /// The claim.
        claim: u64,
        /// What it was told.
        error: String,
    },
    /// The client has noticed that it holds the name no longer.
    Lost {
        /// The claim.
        claim: u64,
    },
    /// The client begins to let go.
    Releasing {
        /// The claim.
        claim: u64,
    },
    /// The client was told what came of letting go.
    Released {
        /// The claim.
        claim: u64,
        /// What came of it.
        freed: Freed,
    },
    /// The resource was asked to write by one who believes to hold the lock; noted by the resource, in its order.
    Wrote {
        /// The claim in whose name it is written.
        claim: u64,
        /// What is written to.
        name: String,
        /// The number that came with the write.
        fence: Option<u64>,
        /// The version that the writer had read; a write makes the next one.
        read: u64,
        /// The version that it makes.
        version: u64,
        /// What the resource said.
        outcome: Written,
    },
    /// A fault was made, and seen to have landed; its time is that from just before it was made, so that what follows from
    /// it is later. A `kill` ends its target: what that one notes later was on its way, and is believed if its `ended` is
    /// noted as well.
    Fault {
        /// Which kind: `kill`, `pause`, `reply-loss` …
        kind: String,
        /// The process that it hit; `None` if it hit the store or the wire.
        target: Option<u32>,
    },
    /// A fault with a duration is over: a paused process goes on. Again with the time from just before.
    Over {
        /// Which kind.
        kind: String,
        /// The process that it had hit.
        target: Option<u32>,
    },
    /// Something that the lock does not promise to survive has ended this claim's lease: an operator, or a store that lost its
    /// data or whose clock jumped. The belief does not count from here until then, when its holder must have noticed.
    Excused {
        /// The claim.
        claim: u64,
        /// Until when, in microseconds.
        until_us: u64,
    },
    /// From here on there are no more faults: everybody who waits has to get on.
    Healed,
    /// Everybody has let go and gone, and this was still found in the store.
    Left {
        /// What was found, for people.
        found: String,
    },
}

/// How a name is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By one alone.
    Exclusive,
    /// Together with others who share it.
    Shared,
    /// So many of so many permits.
    Permits {
        /// How many are taken.
        take: u32,
        /// How many there are.
        of: u32,
    },
}

/// What came of letting go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freed {
    /// The lock is free, or the next one's.
    Freed,
    /// The same owner holds it still.
    Lowered,
    /// It was not held any more; nothing was changed.
    NotHeld,
    /// Nobody knows.
    Unknown,
}

/// What a resource said to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// It was written.
    Accepted,
    /// A larger fence was seen before; nothing was written.
    Stale,
}
