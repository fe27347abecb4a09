//! Random claims, and random requests about them in any order, for a store and the model alike.

use proptest::prelude::*;
use tenure::driver::{Life, Mode, Wait};

use crate::model::Ask;

/// Claims, and what happens to them.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) claims: Vec<Ask>,
    pub(crate) steps: Vec<Step>,
}

/// One step. Claims are given by their number, modulo the number of claims.
///
/// Nothing determines when a claim is asked for or that it is still alive: every request also comes
/// early, twice, and long after its claim is over.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Acquire(usize),
    Advance(u64),
    End {
        client: usize,
    },
    Evict {
        client: usize,
        name: usize,
    },
    Release {
        target: Target,
        stays: u64,
    },
    Renew(Vec<(Target, u64)>),
    /// The same request as this many steps ago, as if its reply had been lost.
    Repeat {
        back: usize,
    },
    Withdraw {
        claim: usize,
        by: By,
    },
}

/// The lease that a request names, and its sender.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) claim: usize,
    pub(crate) by: By,
    pub(crate) life: Named,
    pub(crate) fence: Pick,
}

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    /// The client of the claim.
    Itself,
    Client(usize),
}

/// How a request names what ends the lease.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named {
    /// As the claim did.
    Right,
    Wrong,
}

/// The fence that a request names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    Any,
    /// The last one that the claim was granted.
    Own,
    /// The fence of this many grants of the name ago.
    Ago(usize),
}

/// How time passes in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Only when a step says so: every time and every message must be the model's. A tick is a
    /// millisecond.
    Paused,
    /// In real time, while the model's time stands still: steps leave out time, and times are
    /// compared roughly. A tick is an hour.
    Real,
    /// In real time, and additionally by as much as a step says: [`Subject::pass`] moves the times
    /// of the store into the past. A tick is an hour.
    Moved,
}

pub(crate) const NAMES: usize = 2;
pub(crate) const OWNERS: usize = 3;
pub(crate) const CLIENTS: usize = 3;
const CLAIMS: usize = 14;

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let step = prop_oneof![
        14 => (0..CLAIMS).prop_map(Step::Acquire),
        4 => (0..CLAIMS, by()).prop_map(|(claim, by)| Step::Withdraw { claim, by }),
        3 => prop::collection::vec((target(), ticks()), 1..4).prop_map(Step::Renew),
        6 => release(),
        1 => (0..CLIENTS, 0..NAMES).prop_map(|(client, name)| Step::Evict { client, name }),
        1 => (0..CLIENTS).prop_map(|client| Step::End { client }),
        2 => (1..4_usize).prop_map(|back| Step::Repeat { back }),
        1 => (4..30_usize).prop_map(|back| Step::Repeat { back }),
        4 => prop_oneof![Just(1), Just(39), Just(40), Just(60), Just(500)].prop_map(Step::Advance),
    ];
    // Interactions of two claims of one mode are rare if all modes are mixed.
    let claims = prop_oneof![
        3 => asks(prop_oneof![3 => exclusive(), 2 => shared(), 2 => permits()]),
        1 => asks(prop_oneof![exclusive(), shared()]),
        1 => asks(permits()),
        1 => asks(exclusive()),
    ];
    let steps = prop::collection::vec(step, 1..60);
    (claims, steps).prop_map(|(claims, steps)| Case { claims, steps })
}

fn asks(mode: impl Strategy<Value = Mode>) -> impl Strategy<Value = Vec<Ask>> {
    prop::collection::vec(ask(mode), 1..=CLAIMS)
}

fn ask(mode: impl Strategy<Value = Mode>) -> impl Strategy<Value = Ask> {
    let wait = prop_oneof![1 => Just(Wait::No), 3 => Just(Wait::InLine)];
    let fences = prop_oneof![Just(1), Just(64)];
    let how = (mode, ticks(), wait, life(), fences, any::<bool>());
    (who(), how).prop_map(
        |((client, name, owner), (mode, ttl, wait, life, fences, tells))| Ask {
            client,
            name,
            owner,
            mode,
            ttl,
            wait,
            life,
            fences,
            tells,
        },
    )
}

/// Returns a client, a name and an owner. Some owners stay in one client, others have claims in
/// several.
fn who() -> impl Strategy<Value = (usize, usize, Option<usize>)> {
    let name = prop_oneof![3 => Just(0), 1 => 0..NAMES];
    let owner = prop_oneof![2 => Just(None), 3 => (0..OWNERS).prop_map(Some)];
    let stays_home = prop_oneof![Just(true), Just(false)];
    (0..CLIENTS, name, owner, stays_home).prop_map(|(client, name, owner, stays_home)| {
        let home = owner.filter(|_| stays_home).map(|owner| owner % CLIENTS);
        (home.unwrap_or(client), name, owner)
    })
}

fn exclusive() -> impl Strategy<Value = Mode> {
    Just(Mode::Exclusive)
}

fn shared() -> impl Strategy<Value = Mode> {
    Just(Mode::Shared)
}

fn permits() -> impl Strategy<Value = Mode> {
    let all = (1..3_u32, 2..4_u32);
    let permits = prop_oneof![1 => Just((1, 3)), 1 => all];
    permits.prop_map(|(take, of)| Mode::Permits { take, of })
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![3 => Just(Life::Client), 1 => Just(Life::Ttl)]
}

fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![Just(40), Just(100), Just(1_000)]
}

fn by() -> impl Strategy<Value = By> {
    prop_oneof![
        5 => Just(By::Itself),
        1 => (0..CLIENTS).prop_map(By::Client),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    let life = prop_oneof![9 => Just(Named::Right), 1 => Just(Named::Wrong)];
    let fence = prop_oneof![
        3 => Just(Pick::Any),
        3 => Just(Pick::Own),
        2 => (0..4_usize).prop_map(Pick::Ago),
    ];
    (0..CLAIMS, by(), life, fence).prop_map(|(claim, by, life, fence)| Target {
        claim,
        by,
        life,
        fence,
    })
}

fn release() -> impl Strategy<Value = Step> {
    let stays = prop_oneof![4 => Just(0), 1 => Just(20)];
    (target(), stays).prop_map(|(target, stays)| Step::Release { target, stays })
}
