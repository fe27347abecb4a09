//! What stores have in common whose leases all hang on one session: ZooKeeper, and others of its kind.
//!
//! | file | content |
//! |---|---|
//! | `judge` | who holds a name and who waits, from its rows in the order that the store decided |
//! | `pulse` | for how long a session is certain to live |
//! | `timers` | what has to be done for a claim, and when |
//! | `segment` | names as one segment of a path |
//! | `fence` | fences from the store's count of changes |
//!
//! Such a store keeps a row per claim, which the servers delete with the session of its client. The order of the rows
//! decides who holds the name; each client judges for itself, and all come to the same result. A lease ends early if its
//! client does not renew it, because its own driver then deletes the row. It ends late if the client dies, with the
//! session. In between it is good for as long as the session has been *proved* to live.

pub(crate) mod fence;
pub(crate) mod judge;
#[cfg(test)]
mod judge_properties;
pub(crate) mod pulse;
pub(crate) mod segment;
pub(crate) mod timers;
