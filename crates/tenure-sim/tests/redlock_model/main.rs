//! The protocol of the store on several Redis servers, checked in every state that it can reach.
//!
//! # What is modelled
//!
//! Three nodes, of which two are a majority, and up to three attempts to get one lock. An attempt is
//! a client's claim, with an id of its own. Attempts overlap as they like, which includes clients
//! that make one attempt after another.
//!
//! 1. The client sends `Ask` to all nodes. A node that has no lease gives one, with a new fence:
//!    larger than the last one that the node gave out, at least the client's proposal, and at least
//!    its clock. A node with a lease of the same claim gives that one a new fence in the same way, or
//!    answers with the one that it has: nodes do the first if the lease belongs to a client, else the
//!    second, and here either, each time. A node with another lease answers no.
//! 2. The first two grants decide. If their fences are equal, the grant is reported to the caller.
//! 3. Otherwise the client sends `Seal` with the larger fence to all nodes. A node raises the fence
//!    of the claim's lease, and the last fence, to that; it refuses if the lease has a larger fence.
//!    A node that has no lease gives one under this fence back to the claim, which lost or never had
//!    it there; it refuses if it has given out this fence or a larger one. After two nodes have
//!    sealed, the grant is reported.
//! 4. Who gives up or is done sends `Withdraw` to all nodes, which drop the claim's lease.
//!
//! Messages are lost, repeated, late and out of order: each one that was ever sent may reach its node
//! at any later step, any number of times. An answer is read at once or never. To read it later only
//! puts off what follows: the report, which makes the rules easier to keep, and `Seal`, which may be
//! late anyway. If the lease has another number by then, so it may here, by a repeat whose answer is
//! lost. A crash that leaves a node its memory loses messages, so it adds nothing to that.
//!
//! [`split`] is a model of its own, of who stays and who gives way after a split vote.
//!
//! # What is shown
//!
//! The rules are in [`rules`]: fences are unique; they grow from each reported grant to every attempt that
//! begins after it; one client believes that it holds the lock. A client believes from the report on,
//! until it withdraws.
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
//! Where leases end at any time, repeats and leases given back add little: a lease may end and be
//! asked for anew. They matter to exclusion, and to nodes that forget.
//!
//! # Time, in variant c
//!
//! All clocks run equally fast, and one is a tick ahead. A fence is at least the node's clock, and no
//! fence is ahead of the fastest clock by more than the lead that nodes allow to proposals: real
//! clocks count microseconds, and no node gives out fences that fast. A node that came back empty is
//! young for `restart_delay` ticks, and the leases that it gives in this time do not count, not even
//! later, unless `Ask` gives them a new fence. A lease that `Seal` gave back counts only if the node
//! was not young at any time since the attempt began: it may have given out this very fence before it
//! forgot, and what `Ask` is kept from by the clock, `Seal` is not. To wait until the node has grown up is
//! not enough, because the fence may be as old as the attempt. Then
//!
//! - fences grow if `restart_delay` is longer than skew and lead together (2 against 1 here), whenever
//!   leases end: also those of clients that were paused, or whose node has a clock that jumps;
//! - one client believes if `restart_delay` is longer than the ttl (2 against 1 here), leases end on
//!   time, and clients count the ttl from before they ask.
//!
//! Memory is lost only in the first tick: a node that loses it later is young until the last tick, and as
//! good as silent.
//!
//! # What is not shown
//!
//! That anyone gets the lock under the faults of a to c, claims that share an owner, renewal and what leases that were given back are worth
//! for it, nodes that come back with a part of their memory and do not know it, clocks that jump back
//! by more than the skew, and that the code is this model.

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

/// Looks at every state of the variant, and fails if one breaks a rule, or if what should happen
/// in some state happens in none.
fn holds(variant: Redlock) {
    let checker = variant.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// Fails unless the checker finds how the variant breaks each of its rules; prints the steps.
///
/// The numbers of attempts and nodes are their places in the state before each step; see
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
