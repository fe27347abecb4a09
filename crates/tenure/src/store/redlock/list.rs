//! Holders and waiters, according to all nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::driver::{Entry, Holder, Waiter};
use crate::error::{Error, Result};
use crate::name::{ClaimId, Name};
use crate::store::redis::snapshot::count_owners;
use crate::store::redlock::fault;
use crate::store::redlock::node::Node;
use crate::store::redlock::nodes::{Nodes, succeeded};

/// Lists what a majority of the nodes reports.
pub(crate) async fn list(nodes: &Nodes, only: Option<&Name>) -> Result<Vec<Entry>> {
    let list = |node: Arc<dyn Node>| {
        let only = only.cloned();
        async move { node.list(only.as_ref()).await }
    };
    let mut by_name: BTreeMap<Name, Vec<Entry>> = BTreeMap::new();
    for entry in ask_each(nodes, list).await?.into_iter().flatten() {
        by_name.entry(entry.name.clone()).or_default().push(entry);
    }
    let entries = by_name.into_iter().filter_map(|(name, votes)| {
        let entry = together(name, &votes, nodes.majority);
        (!entry.is_empty()).then_some(entry)
    });
    Ok(entries.collect())
}

/// Evicts the holders at every node; returns those that a majority had.
pub(crate) async fn evict(nodes: &Nodes, name: &Name) -> Result<Vec<Holder>> {
    let evict = |node: Arc<dyn Node>| {
        let name = name.clone();
        async move { node.evict(&name).await }
    };
    let evicted = ask_each(nodes, evict).await.map_err(Error::in_doubt)?;
    let votes = evicted.into_iter().map(|holders| Entry {
        name: name.clone(),
        holders,
        waiters: Vec::new(),
    });
    let votes: Vec<_> = votes.collect();
    Ok(together(name.clone(), &votes, nodes.majority).holders)
}

/// Asks each node, and waits for all replies; fails if no majority replies.
async fn ask_each<T, F>(nodes: &Nodes, request: impl Fn(Arc<dyn Node>) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut round = nodes.ask(|_, node| request(node), |_| false).await;
    if succeeded(&round.answers) < nodes.majority {
        return Err(fault::unavailable(nodes.failure(&round.answers)));
    }
    let answers = std::mem::take(&mut round.answers);
    Ok(answers.into_iter().flatten().flatten().collect())
}

/// What is known about one claim, from all nodes.
#[derive(Default)]
struct Seen<'a> {
    holds: Vec<&'a Holder>,
    waits: Vec<&'a Waiter>,
    /// The sum of its places in the lines.
    place: usize,
}

/// Combines what each node reports about one name.
///
/// A claim that holds the name at a majority is a holder. A claim that a majority knows, but not as a
/// holder, is a waiter. A claim that only a minority knows is about to end.
fn together(name: Name, votes: &[Entry], majority: usize) -> Entry {
    // A name that stays taken no longer belongs to that claim.
    let mut seen: BTreeMap<(&ClaimId, bool), Seen<'_>> = BTreeMap::new();
    for vote in votes {
        for holder in &vote.holders {
            let seen = seen.entry((&holder.claim, holder.depth == 0)).or_default();
            seen.holds.push(holder);
        }
        for (place, waiter) in vote.waiters.iter().enumerate() {
            let seen = seen.entry((&waiter.claim, false)).or_default();
            seen.waits.push(waiter);
            seen.place += place + 1;
        }
    }
    let mut holders: Vec<Holder> = Vec::new();
    let mut waiters = Vec::new();
    for seen in seen.into_values() {
        if seen.holds.len() >= majority {
            holders.extend(holder(&seen.holds, majority));
        } else if seen.holds.len() + seen.waits.len() >= majority {
            // Waiters are sorted by their average place, because not every node may have the claim yet.
            let count = seen.holds.len() + seen.waits.len();
            waiters.extend(waiter(&seen).map(|waiter| (seen.place, count, waiter)));
        }
    }
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.held));
    count_owners(&mut holders);
    waiters.sort_by(|(place, count, _), (other, of, _)| (place * of).cmp(&(other * count)));
    Entry {
        name,
        holders,
        waiters: waiters.into_iter().map(|(.., waiter)| waiter).collect(),
    }
}

/// Combines the reports about one holder: what most nodes report, and until when a majority has it.
fn holder(votes: &[&Holder], majority: usize) -> Option<Holder> {
    // The index of the time that a majority has at least.
    let quorum = votes.len().checked_sub(majority)?;
    let mut ends: Vec<_> = votes.iter().map(|vote| vote.expires_in).collect();
    ends.sort_unstable();
    let same = |one: &&&Holder| {
        votes
            .iter()
            .filter(|other| other.fence == one.fence)
            .count()
    };
    let most = votes.iter().max_by_key(same)?;
    Some(Holder {
        expires_in: ends[quorum],
        held: votes.iter().map(|vote| vote.held).max()?,
        ..(**most).clone()
    })
}

/// Returns a waiter as a node lists it, or one to which a minority has granted the name already.
fn waiter(seen: &Seen<'_>) -> Option<Waiter> {
    if let Some(longest) = seen.waits.iter().max_by_key(|waiter| waiter.waited) {
        return Some((*longest).clone());
    }
    let holder = seen.holds.first()?;
    Some(Waiter {
        claim: holder.claim.clone(),
        owner: holder.owner.clone(),
        mode: holder.mode,
        about: holder.about.clone(),
        waited: holder.held,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::driver::{About, Life, Mode};
    use crate::name::{Fence, Owner};

    #[test]
    fn a_node_that_has_not_heard_of_all_does_not_change_the_order() {
        let claims: Vec<_> = (0..5).map(|_| ClaimId::unique()).collect();
        let name: Name = "a".parse().unwrap();
        let line = |claims: &[ClaimId]| Entry {
            name: name.clone(),
            holders: Vec::new(),
            waiters: claims.iter().map(waits).collect(),
        };
        let waits_in_order = |votes: &[Entry]| {
            let entry = together(name.clone(), votes, 2);
            let order = entry.waiters.into_iter().map(|waiter| waiter.claim);
            assert_eq!(order.collect::<Vec<_>>(), claims);
        };
        for left_out in 0..claims.len() {
            let mut some = claims.clone();
            some.remove(left_out);
            waits_in_order(&[line(&claims), line(&claims), line(&some)]);
            waits_in_order(&[line(&claims), line(&claims), line(&claims[..left_out])]);
        }
    }

    #[test]
    fn an_owner_has_as_many_claims_as_a_majority_knows() {
        let name: Name = "a".parse().unwrap();
        let (ann, bob) = (Owner::named("ann").unwrap(), Owner::named("bob").unwrap());
        let claims: Vec<_> = (0..4).map(|_| ClaimId::unique()).collect();
        let holds = |claim: usize, owner: &Owner| holds(&claims[claim], owner);
        let node = |holders: Vec<Holder>| Entry {
            name: name.clone(),
            holders,
            waiters: Vec::new(),
        };
        let votes = [
            node(vec![holds(0, &ann), holds(1, &ann), holds(3, &bob)]),
            node(vec![holds(0, &ann), holds(1, &ann), holds(2, &ann)]),
            node(vec![holds(1, &ann), holds(3, &bob)]),
        ];
        let entry = together(name.clone(), &votes, 2);
        let mut found: Vec<_> = entry.holders.iter().map(|h| (&h.claim, h.depth)).collect();
        found.sort_by_key(|(claim, _)| claims.iter().position(|known| known == *claim));
        assert_eq!(found, [(&claims[0], 2), (&claims[1], 2), (&claims[3], 1)]);
    }

    fn holds(claim: &ClaimId, owner: &Owner) -> Holder {
        Holder {
            claim: claim.clone(),
            owner: owner.clone(),
            mode: Mode::Shared,
            fence: Fence::new(7).unwrap(),
            depth: 1,
            life: Life::Client,
            about: About::this_process(None),
            held: Duration::ZERO,
            expires_in: Duration::from_secs(1),
        }
    }

    fn waits(claim: &ClaimId) -> Waiter {
        Waiter {
            claim: claim.clone(),
            owner: Owner::shown(claim.as_str()),
            mode: Mode::Exclusive,
            about: About::this_process(None),
            waited: Duration::ZERO,
        }
    }
}
