//! Random requests, for a store and the model alike.

use proptest::prelude::*;
use tenure::driver::{Life, Mode, Wait};

use crate::model::{Ask, Which};

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Acquire(Ask),
    Advance(u64),
    End {
        client: usize,
    },
    Evict {
        client: usize,
        name: usize,
    },
    Release {
        which: Which,
        pick: Pick,
        depth: u32,
        keep: u64,
    },
    Renew {
        renewals: Vec<(Which, Pick, u64)>,
    },
    /// The same request as so many steps ago, as if its answer had been lost.
    Repeat {
        back: usize,
    },
    Withdraw(Ask),
}

/// Which fence a request names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    Any,
    /// So many grants of the name ago.
    Ago(usize),
}

/// How time passes in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Only when a step says so: every time and every message must be the model's. A tick is a
    /// millisecond.
    Paused,
    /// As it does, while the model's stands still: steps leave out time, and times are compared
    /// roughly. A tick is an hour.
    Real,
    /// As it does, and in a step by as much as the step says: [`Subject::pass`] moves what the
    /// store knows into the past. A tick is an hour.
    Moved,
}
pub(crate) const NAMES: usize = 2;
pub(crate) const OWNERS: usize = 3;
pub(crate) const CLIENTS: usize = 3;

pub(crate) fn steps(clock: Clock) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => ask().prop_map(Step::Acquire),
        3 => ask().prop_map(Step::Withdraw),
        3 => renewals(),
        6 => release(),
        1 => (0..CLIENTS, 0..NAMES).prop_map(|(client, name)| Step::Evict { client, name }),
        1 => (0..CLIENTS).prop_map(|client| Step::End { client }),
        3 => (1..4_usize).prop_map(|back| Step::Repeat { back }),
        4 => prop_oneof![Just(1), Just(39), Just(40), Just(60), Just(500)].prop_map(Step::Advance),
    ];
    let wanted = move |step: &Step| clock != Clock::Real || !matches!(step, Step::Advance(_));
    let step = step.prop_filter("time passes by itself", wanted);
    prop::collection::vec(step, 1..50)
}

fn ask() -> impl Strategy<Value = Ask> {
    let depth = prop_oneof![6 => Just(1), 2 => Just(2), 1 => Just(3)];
    let wait = prop_oneof![1 => Just(Wait::No), 3 => Just(Wait::InLine)];
    let fences = prop_oneof![Just(1), Just(64)];
    let how = (mode(), ticks(), depth, wait, life(), fences, any::<bool>());
    (who(), how).prop_map(
        |((client, name, owner), (mode, ttl, depth, wait, life, fences, tells))| Ask {
            client,
            name,
            owner,
            mode,
            ttl,
            depth,
            wait,
            life,
            fences,
            tells,
            pid: 0,
        },
    )
}

/// Owners mostly keep to a client and a name, so that requests meet the leases of earlier ones.
fn who() -> impl Strategy<Value = (usize, usize, usize)> {
    let name = prop_oneof![3 => Just(0), 1 => 0..NAMES];
    let client = prop_oneof![3 => Just(None), 1 => (0..CLIENTS).prop_map(Some)];
    (client, name, 0..OWNERS)
        .prop_map(|(client, name, owner)| (client.unwrap_or(owner % CLIENTS), name, owner))
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        3 => Just(Mode::Exclusive),
        2 => Just(Mode::Shared),
        2 => (1..3_u32, 2..4_u32).prop_map(|(take, of)| Mode::Permits { take, of }),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![3 => Just(Life::Client), 1 => Just(Life::Ttl)]
}

fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![Just(40), Just(100), Just(1_000)]
}

fn which() -> impl Strategy<Value = (Which, Pick)> {
    let pick = prop_oneof![
        2 => Just(Pick::Any),
        2 => Just(Pick::Ago(0)),
        1 => (1..4_usize).prop_map(Pick::Ago),
    ];
    (0..CLIENTS, 0..NAMES, 0..OWNERS, life(), pick).prop_map(|(client, name, owner, life, pick)| {
        let which = Which {
            client,
            name,
            owner,
            life,
            fence: None,
        };
        (which, pick)
    })
}

fn renewals() -> impl Strategy<Value = Step> {
    let one = (which(), ticks()).prop_map(|((which, pick), ttl)| (which, pick, ttl));
    prop::collection::vec(one, 1..4).prop_map(|mut renewals| {
        let client = renewals[0].0.client;
        for (which, ..) in &mut renewals {
            which.client = client;
        }
        Step::Renew { renewals }
    })
}

fn release() -> impl Strategy<Value = Step> {
    let depth = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(2)];
    let keep = prop_oneof![4 => Just(0), 1 => Just(20)];
    (which(), depth, keep).prop_map(|((which, pick), depth, keep)| Step::Release {
        which,
        pick,
        depth,
        keep,
    })
}
