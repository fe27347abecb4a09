//! The protocol of the store on several Redis servers, checked in every reachable state.
//!
//! # What is modelled
//!
//! Three nodes, of which two are a majority, and up to three attempts to get one lock. An attempt
//! is a client's claim, with its own id. Attempts overlap arbitrarily, which includes clients that
//! make one attempt after another.
//!
//! 1. The client sends `Ask` to all nodes. A node without a lease grants one, with a new fence:
//!    larger than the last fence of this node, at least the client's proposal, and at least its
//!    clock. A node with a lease of the same claim gives that lease a new fence in the same way, or
//!    replies with the fence that it has. Real nodes do the former if the lease belongs to a
//!    client, and the latter if not; here they do either, each time. A node with another lease
//!    refuses.
//! 2. The first two grants decide. If their fences are equal, the grant is reported to the caller.
//! 3. Otherwise the client sends `Seal` with the larger fence to all nodes. A node raises the fence
//!    of the claim's lease, and its last fence, to that fence; it refuses if the lease has a larger
//!    fence. A node without a lease gives one with this fence back to the claim, which lost or
//!    never had it there; it refuses if it has already granted this fence or a larger one. After
//!    two nodes have sealed, the grant is reported.
//! 4. A client that gives up or is done sends `Withdraw` to all nodes, which drop the claim's
//!    lease.
//!
//! Messages are lost, repeated, late and out of order: each message that was ever sent may reach
//! its node at any later step, any number of times. A reply is read at once or never. Reading it
//! later would only delay what follows: the report, which makes the rules easier to keep, and
//! `Seal`, which may be late anyway. If the lease has another number by then, this can also happen
//! here, by a repeat whose reply is lost. A crash that preserves a node's memory only loses
//! messages, so it adds nothing.
//!
//! [`split`] is a separate model, of which claim stays and which gives way after a split vote.
//!
//! # What is shown
//!
//! The rules are in [`rules`]: fences are unique; they grow from each reported grant to every
//! attempt that starts after it; at most one client believes that it holds the lock. A client
//! believes from the report until it withdraws.
//!
//! | Variant | Faults | Bounds | Shown |
//! |---|---|---|---|
//! | a, [`faults`] | messages; leases end at any time | 3 attempts, fences to 3; 2 attempts, fences to 4; any proposals | fences are unique and grow |
//! | a, [`faults`] | messages | 3 attempts, fences to 3; any proposals | the same, and one client believes |
//! | b, [`amnesia`] | messages; one node comes back empty | as above | every rule is broken |
//! | c, [`amnesia`] | messages; leases end at any time; one node comes back empty | 2 attempts, 3 ticks | fences are unique and grow |
//! | c, [`amnesia`] | messages; any nodes come back empty, again and again | 2 attempts, 3 ticks, ttl 1 | the same, and one client believes |
//! | d, [`mistakes`] | as in a and c | | every mistake breaks a rule |
//! | split votes, [`split`] | latency; clients with different orders of the nodes, that reach different ones | 3 nodes and 3 clients; 5 nodes and 2 or 3 clients | everybody can still be served; not so if the order of the nodes decides |
//!
//! Where leases end at any time, repeats and leases that are given back add little: a lease may end
//! and be asked for again. They matter for exclusion, and for nodes that forget.
//!
//! # Time, in variant c
//!
//! All clocks run equally fast, and one is a tick ahead. A fence is at least the node's clock, and
//! no fence is ahead of the fastest clock by more than the lead that nodes allow for proposals:
//! real clocks count microseconds, and no node grants fences that fast. A node that restarted
//! without its memory is young for `restart_delay` ticks. Leases that it grants in this time do not
//! count, not even later, unless `Ask` gives them a new fence. A lease that `Seal` gave back counts
//! only if the node was not young at any time since the attempt started: it may have granted this
//! very fence before it forgot. The clock prevents this for `Ask`, but not for `Seal`. It is not
//! enough to wait until the node is no longer young, because the fence may be as old as the
//! attempt. Then
//!
//! - fences grow if `restart_delay` is longer than skew and lead together (2 against 1 here),
//!   whenever leases end. This includes leases of clients that were paused, or whose node has a
//!   clock that jumps;
//! - one client believes if `restart_delay` is longer than the ttl (2 against 1 here), leases end
//!   on time, and clients count the ttl from before they ask.
//!
//! Memory is lost only in the first tick: a node that loses it later is young until the last tick,
//! which is equivalent to a silent node.
//!
//! # What is not shown
//!
//! - That anybody gets the lock under the faults of a to c.
//! - Claims that share an owner.
//! - Renewal, and the value of leases that were given back for it.
//! - Nodes that return with a part of their memory and do not know it.
//! - Clocks that jump back by more than the skew.
//! - That the code implements this model.

mod amnesia;
mod client;
mod faults;
mod mistakes;
mod node;
mod rules;
mod split;
mod state;
mod steps;
mod tidy;
mod variant;

use stateright::{Checker, Model};

use crate::variant::Redlock;

/// Checks every state of the variant. Fails if one breaks a rule, or if something that should
/// happen in some state happens in none.
fn holds(variant: Redlock) {
    let checker = variant.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// Fails unless the checker finds how the variant breaks each of its rules; prints the steps.
///
/// The numbers of attempts and nodes are their positions in the state before each step; see
/// [`tidy`](mod@tidy).
fn breaks(variant: Redlock) {
    let (mistake, rules) = (variant.mistake, variant.rules);
    let checker = variant.checker().spawn_bfs().join();
    let found = checker.discoveries();
    let states = checker.unique_state_count();
    assert_eq!(found.len(), rules.len(), "{mistake:?} {rules:?}: {found:?}");
    for (rule, path) in found {
        println!("{mistake:?}, not so that {rule}, {states} states: {path}");
    }
}
