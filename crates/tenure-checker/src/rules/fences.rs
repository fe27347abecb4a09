//! Fences grow strictly with every grant.

use std::collections::HashMap;

use super::Breaches;
use crate::claims::{Grant, Name, View};
use crate::history::Mode;

/// Looks for fences that repeat, that do not grow, or that are missing in some grants of a name.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        let numbered: Vec<Numbered> = numbered(view, name);
        mixture(view, name, &mut breaches);
        let judged = repeats(view, &numbered, &mut breaches);
        growth(view, &numbered, &judged, &mut breaches);
    }
    breaches
}

/// A grant with a fence.
struct Numbered {
    claim: usize,
    event: usize,
    fence: u64,
}

fn numbered(view: &View<'_>, name: &Name<'_>) -> Vec<Numbered> {
    let grants = name.grants.iter().filter_map(|claim| {
        let Grant { event, fence } = view.claims[*claim].granted?;
        Some(Numbered {
            claim: *claim,
            event,
            fence: fence?,
        })
    });
    grants.collect()
}

fn mixture(view: &View<'_>, name: &Name<'_>, breaches: &mut Breaches) {
    let has = |claim: usize| {
        view.claims[claim]
            .granted
            .is_some_and(|it| it.fence.is_some())
    };
    let Some((first, others)) = name.grants.split_first() else {
        return;
    };
    let other = others.iter().find(|claim| has(**claim) != has(*first));
    let (Some(other), Some(one)) = (other, view.grant_of(*first)) else {
        return;
    };
    let event = view.grant_of(*other).unwrap_or(one);
    breaches.note(event, || {
        let name = name.text;
        let sentence = format!("some grants of \"{name}\" carry a fence and some carry none");
        (sentence, vec![one, event])
    });
}

/// Looks for fences that were granted twice; returns for each grant whether it needs no further
/// check.
///
/// An owner that already holds a name may be granted the same fence, in any process, until one of
/// its releases reports that the name is free: the store may keep a claim for longer than its
/// client believes in it.
fn repeats(view: &View<'_>, grants: &[Numbered], breaches: &mut Breaches) -> Vec<bool> {
    // The first grant of each fence.
    let mut seen: HashMap<u64, usize> = HashMap::new();
    // For each fence of an owner, the grant whose release first reported the name as free.
    let mut owned: HashMap<(u64, usize), usize> = HashMap::new();
    let mut judged = Vec::with_capacity(grants.len());
    let gone = |claim: usize| view.claims[claim].gone().unwrap_or(usize::MAX);
    for grant in grants {
        let claim = &view.claims[grant.claim];
        let first = *seen.entry(grant.fence).or_insert(grant.claim);
        let own = *owned
            .entry((grant.fence, claim.owner))
            .or_insert(grant.claim);
        let (repeats, owns) = (first != grant.claim, own != grant.claim);
        // Nobody else can have been granted a larger fence while the owner held the name
        // exclusively. In the other modes it may share with a claim that has no events, such as a
        // call that was dropped.
        let alone = claim.mode == Mode::Exclusive;
        judged.push(repeats && !(owns && alone) || claim.shares_owner && !alone);
        // Where servers vote, a claim that was still being voted on may join a claim that was
        // reported as free.
        let joins = view.expect.owners_have_several_fences;
        let again = match owns {
            true => (!joins && gone(own) < claim.asked && !is_excused(view, grant)).then_some(own),
            false => (repeats && !read_together(view, first, grant.claim)).then_some(first),
        };
        if let Some(before) = again {
            breaches.note(grant.event, || twice(view, before, grant));
        }
        if gone(grant.claim) < gone(own) {
            owned.insert((grant.fence, claim.owner), grant.claim);
        }
    }
    judged
}

/// Returns whether both are readers and the second asked before the first was granted, if such
/// readers may share a fence.
fn read_together(view: &View<'_>, first: usize, second: usize) -> bool {
    let (one, two) = (&view.claims[first], &view.claims[second]);
    let both_read = one.mode == Mode::Shared && two.mode == Mode::Shared;
    let under_way = view
        .grant_of(first)
        .is_some_and(|granted| two.asked < granted);
    view.expect.readers_share_fences && both_read && under_way
}

fn twice(view: &View<'_>, first: usize, grant: &Numbered) -> (String, Vec<usize>) {
    let (one, two) = (view.called(first), view.called(grant.claim));
    let (fence, name) = (grant.fence, view.name_of(first));
    let sentence = format!("{two} was granted \"{name}\" with fence {fence}, as {one} was before");
    let mut events: Vec<_> = view.grant_of(first).into_iter().collect();
    events.extend([view.claims[grant.claim].asked, grant.event]);
    (sentence, events)
}

/// Looks for grants that were asked for after a larger fence was reported.
fn growth(view: &View<'_>, grants: &[Numbered], judged: &[bool], breaches: &mut Breaches) {
    let asked = |grant: &Numbered| view.at(view.claims[grant.claim].asked);
    let mut by_ask: Vec<usize> = (0..grants.len()).collect();
    by_ask.sort_by_key(|number| asked(&grants[*number]));
    let mut reported = grants.iter().peekable();
    let mut largest = Largest::default();
    for number in by_ask {
        let grant = &grants[number];
        while let Some(before) = reported.next_if(|it| view.at(it.event) < asked(grant)) {
            largest.add(view, before);
        }
        let largest = match view.expect.owners_have_several_fences {
            true => largest.but(view, view.claims[grant.claim].owner),
            false => largest.first,
        };
        let larger = largest.filter(|largest| largest.fence > grant.fence);
        let larger = larger.filter(|_| !judged[number] && !is_excused(view, grant));
        if let Some(largest) = larger {
            breaches.note(grant.event, || shrinks(view, largest, grant));
        }
    }
}

/// Returns whether the store had ended the lease early, because of an operator or a jump of its
/// clock.
///
/// Until its process learns of it, it passes the lease on and its owner shares it.
fn is_excused(view: &View<'_>, grant: &Numbered) -> bool {
    let granted_us = view.at(grant.event);
    let mut excused = view.claims[grant.claim].excused.iter();
    excused.any(|(from_us, until_us)| (*from_us..*until_us).contains(&granted_us))
}

/// The largest fences of two different owners, so that there is always the largest one of another
/// owner.
#[derive(Default)]
struct Largest<'a> {
    first: Option<&'a Numbered>,
    second: Option<&'a Numbered>,
}

impl<'a> Largest<'a> {
    fn add(&mut self, view: &View<'_>, grant: &'a Numbered) {
        let larger = |it: Option<&Numbered>| it.is_none_or(|it| it.fence < grant.fence);
        let owner = |it: &Numbered| view.claims[it.claim].owner;
        let is_own = self.first.is_some_and(|it| owner(it) == owner(grant));
        if larger(self.first) {
            if !is_own {
                self.second = self.first;
            }
            self.first = Some(grant);
        } else if !is_own && larger(self.second) {
            self.second = Some(grant);
        }
    }

    fn but(&self, view: &View<'_>, owner: usize) -> Option<&'a Numbered> {
        let first = self.first.filter(|it| view.claims[it.claim].owner != owner);
        first.or(self.second)
    }
}

fn shrinks(view: &View<'_>, largest: &Numbered, grant: &Numbered) -> (String, Vec<usize>) {
    let (one, two) = (view.called(largest.claim), view.called(grant.claim));
    let (more, less, name) = (largest.fence, grant.fence, view.name_of(grant.claim));
    let sentence = format!(
        "{two} was granted \"{name}\" with fence {less}, although {one} had been granted {more} before it asked"
    );
    let asked = view.claims[grant.claim].asked;
    (sentence, vec![largest.event, asked, grant.event])
}
