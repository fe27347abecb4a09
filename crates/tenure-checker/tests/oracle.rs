//! Compares the rules with a slow and simple reading of the same promises, on small random
//! histories.
//!
//! The rules sweep; this reading examines every microsecond and every pair. No lock is involved:
//! claims are granted and released at random, so that nearly every promise is broken in some
//! history and kept in another.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use tenure_checker::{Event, Expect, Freed, History, Mode, Promise, What, check};

#[test]
fn rules_say_what_a_slow_reading_says() {
    let mut broken: BTreeMap<Promise, usize> = BTreeMap::new();
    for seed in 0..RUNS {
        let mut rng = Rng::with_seed(seed);
        let history = any_history(&mut rng);
        let expect = Expect::new()
            .order_slack(Duration::from_micros(rng.u64(0..4)))
            .notice(Duration::from_micros(rng.u64(0..4)));
        let expect = match rng.bool() {
            true => expect.owners_have_several_fences(),
            false => expect,
        };
        let slow = Slow::new(&history, &expect);
        let readings: [(Promise, bool); 4] = [
            (Promise::Exclusion, slow.overlap()),
            (Promise::GrowingFences, slow.fences()),
            (Promise::OwnerOnly, slow.robbery()),
            (Promise::Order, slow.overtaking()),
        ];
        for (promise, wanted) in readings {
            let verdict = check(&history, &expect.clone().only([promise]));
            let found = verdict.broken().contains(&promise);
            assert_eq!(
                found, wanted,
                "seed {seed}, {promise}: {verdict}{history:#?}"
            );
            *broken.entry(promise).or_default() += usize::from(found);
        }
    }
    for (promise, count) in broken {
        let both = 50..RUNS - 50;
        assert!(
            both.contains(&(count as u64)),
            "{promise}: broken in {count} of {RUNS}"
        );
    }
}

/// How many histories to generate.
const RUNS: u64 = 4_000;
/// The length of a history, in microseconds.
const LENGTH: u64 = 60;

/// Returns a history that does not contradict itself and is otherwise random.
fn any_history(rng: &mut Rng) -> History {
    let mut history = Vec::new();
    let claims = rng.u64(2..7);
    let kind = rng.u8(0..3);
    for claim in 0..claims {
        any_claim(rng, claim, kind, &mut history);
    }
    for process in 1..=3 {
        if rng.u8(0..4) == 0 {
            let (from_us, target) = (rng.u64(0..LENGTH / 2), Some(process));
            let kind = "pause".to_owned();
            history.push(Event::new(from_us, 0, What::Fault { kind, target }));
            if rng.u8(0..4) > 0 {
                let over_us = from_us + rng.u64(1..20);
                let kind = "pause".to_owned();
                history.push(Event::new(over_us, 0, What::Over { kind, target }));
            }
        }
    }
    history.sort_by_key(|event| event.at_us);
    history
}

fn any_claim(rng: &mut Rng, claim: u64, kind: u8, history: &mut History) {
    let owner = rng.u32(1..=4);
    // Two owners live in the third process, and a fifth in all of them. Some have only one claim.
    let (owner, process) = match rng.u8(0..8) {
        0 => (5.to_string(), rng.u32(1..=3)),
        1..5 => (format!("claim {claim}"), rng.u32(1..=3)),
        _ => (owner.to_string(), owner.min(3)),
    };
    let mut at_us = rng.u64(0..LENGTH / 2);
    let mut note = |at_us: u64, what: What| history.push(Event::new(at_us, process, what));
    let mode = match (kind, rng.u8(0..3)) {
        (0, _) | (1 | 2, 0) => Mode::Exclusive,
        (1, _) => Mode::Shared,
        _ => Mode::Permits {
            take: rng.u32(1..=2),
            of: 3,
        },
    };
    let name = "a".to_owned();
    note(
        at_us,
        What::Asked {
            claim,
            name,
            mode,
            owner,
        },
    );
    if rng.bool() {
        at_us += rng.u64(1..4);
        note(at_us, What::Queued { claim });
    }
    if rng.u8(0..8) == 0 {
        at_us += rng.u64(1..20);
        let error = "no answer".to_owned();
        note(
            at_us,
            rng.choice([What::Refused { claim }, What::Unknown { claim, error }])
                .unwrap(),
        );
        return;
    }
    if rng.u8(0..8) == 0 {
        if rng.bool() {
            note(at_us + rng.u64(1..20), What::Releasing { claim });
        }
        return;
    }
    at_us += rng.u64(1..15);
    let fence = Some(rng.u64(0..3) + at_us / 4);
    note(at_us, What::Granted { claim, fence });
    if rng.u8(0..3) == 0 {
        at_us += rng.u64(1..8);
        note(at_us, What::Lost { claim });
    }
    if rng.u8(0..6) > 0 {
        at_us += rng.u64(1..8);
        note(at_us, What::Releasing { claim });
        at_us += rng.u64(1..8);
        let freed = rng.choice([Freed::Freed, Freed::NotHeld]).unwrap();
        note(at_us, What::Released { claim, freed });
    }
}

/// What is known about a claim: the positions and times of its events.
#[derive(Debug, Clone)]
struct Claim {
    process: u32,
    owner: String,
    mode: Mode,
    asked: (usize, u64),
    queued: Option<(usize, u64)>,
    granted: Option<(usize, u64)>,
    fence: u64,
    failed: Option<(usize, u64)>,
    releasing: Option<(usize, u64)>,
    freed: Option<(usize, u64)>,
    lost: Option<(usize, u64)>,
    told: Option<(usize, Freed)>,
    until: (usize, u64),
}

struct Slow<'a> {
    history: &'a History,
    expect: &'a Expect,
    claims: Vec<Claim>,
}

const NEVER: (usize, u64) = (usize::MAX, u64::MAX);

impl<'a> Slow<'a> {
    fn new(history: &'a History, expect: &'a Expect) -> Self {
        let mut claims: BTreeMap<u64, Claim> = BTreeMap::new();
        for (place, event) in history.iter().enumerate() {
            if let What::Asked { claim, .. } = event.what {
                claims.insert(claim, asked(place, event));
            }
            if let Some(claim) = number(event).and_then(|number| claims.get_mut(&number)) {
                claim.note((place, event.at_us), &event.what);
            }
        }
        Self {
            history,
            expect,
            claims: claims.into_values().collect(),
        }
    }

    /// Returns whether there are too many believers in any microsecond.
    fn overlap(&self) -> bool {
        (0..LENGTH * 2).any(|now_us| {
            let believe = |claim: &&Claim| self.believes(claim, now_us);
            too_many(&self.claims.iter().filter(believe).collect::<Vec<_>>())
        })
    }

    /// Returns whether a claim is believed in at a time that is not excused.
    fn believes(&self, claim: &Claim, now_us: u64) -> bool {
        let Some((_, granted_us)) = claim.granted else {
            return false;
        };
        let excused = self.pauses(claim.process).iter().any(|(from, over)| {
            let own = self.history.iter().enumerate().filter(|(place, event)| {
                *place > over.0
                    && event.process == claim.process
                    && self.owner(event) == Some(&claim.owner)
            });
            let back_us = own.map(|(_, event)| event.at_us).min();
            let until_us = back_us.map_or(u64::MAX, |back_us| back_us + self.expect.notice_us);
            from.1 <= now_us && now_us < until_us
        });
        granted_us <= now_us && now_us < claim.until.1 && !excused
    }

    fn owner(&self, event: &Event) -> Option<&str> {
        let wanted = number(event)?;
        self.history.iter().find_map(|event| match &event.what {
            What::Asked { claim, owner, .. } if *claim == wanted => Some(owner.as_str()),
            _ => None,
        })
    }

    fn pauses(&self, process: u32) -> Vec<((usize, u64), (usize, u64))> {
        let place = |wanted: &dyn Fn(&What) -> bool| {
            let place = self.history.iter().position(|event| wanted(&event.what))?;
            Some((place, self.history[place].at_us))
        };
        let from =
            place(&|what| matches!(what, What::Fault { target, .. } if *target == Some(process)));
        let over =
            place(&|what| matches!(what, What::Over { target, .. } if *target == Some(process)));
        from.map(|from| (from, over.unwrap_or(NEVER)))
            .into_iter()
            .collect()
    }

    /// Returns whether any two grants have wrong fences.
    fn fences(&self) -> bool {
        let granted = || {
            self.claims
                .iter()
                .filter_map(|claim| Some((claim.granted?, claim)))
        };
        granted().any(|(later, claim)| {
            let before =
                |(other, it): &((usize, u64), &Claim)| other.0 < later.0 && it.fence == claim.fence;
            let own = |(_, it): &((usize, u64), &Claim)| it.owner == claim.owner;
            let repeats = granted().any(|it| before(&it));
            let owns = granted().any(|it| before(&it) && own(&it));
            let freed = granted().filter(|it| before(it) && own(it));
            let freed = freed.filter_map(|(_, it)| it.freed).min();
            let twice = match owns {
                true => {
                    let told = freed.is_some_and(|told| told.0 < claim.asked.0);
                    told && !self.expect.owners_have_several_fences
                }
                false => repeats,
            };
            let shares = match claim.mode {
                Mode::Exclusive => repeats && !owns,
                _ => repeats || self.shares_owner(claim),
            };
            let shrinks = !shares
                && granted().any(|(other, it)| {
                    let differs = self.expect.owners_have_several_fences && it.owner == claim.owner;
                    other.1 < claim.asked.1 && it.fence > claim.fence && !differs
                });
            twice || shrinks
        })
    }

    /// Returns whether any release frees the lock of a later holder.
    fn robbery(&self) -> bool {
        self.claims.iter().any(|claim| {
            let (Some(granted), Some(began), Some(told)) =
                (claim.granted, claim.releasing, claim.freed)
            else {
                return false;
            };
            self.claims.iter().any(|other| {
                let Some(came) = other.granted else {
                    return false;
                };
                let excludes = claim.mode == Mode::Exclusive || other.mode == Mode::Exclusive;
                let between = granted.1 < came.1 && came.1 < began.1;
                let there = other.until.1 > began.1;
                let stays = other.releasing.is_none_or(|gone| gone.1 > told.1);
                let newer = other.fence >= claim.fence;
                other.owner != claim.owner && excludes && between && there && stays && newer
            })
        })
    }

    /// Returns since when a claim has its place: its process keeps the place of an earlier claim
    /// that gave up later.
    fn place_us(&self, claim: &Claim) -> u64 {
        let others = self.claims.iter().filter(|other| {
            let same = other.process == claim.process && other.mode == Mode::Exclusive;
            let slack = self.expect.order_slack_us;
            let gave_up = other
                .gave_up()
                .is_some_and(|it| it.1 + slack > claim.asked.1);
            same && gave_up && other.asked.0 < claim.asked.0
        });
        let places = others.map(|other| self.place_us(other));
        places.fold(claim.asked.1, u64::min)
    }

    /// Returns the claim that the store granted and that was passed on to this one inside its
    /// process, or this claim itself.
    fn origin<'c>(&'c self, claim: &'c Claim) -> &'c Claim {
        let Some(granted) = claim.granted else {
            return claim;
        };
        let before = self.claims.iter().find(|other| {
            let same = other.process == claim.process && other.mode == Mode::Exclusive;
            let is_before = other.granted.is_some() && other.fence + 1 == claim.fence;
            same && is_before && !self.is_nested(other) && !self.shares_owner(other)
        });
        let origin = before.map(|before| self.origin(before));
        let slack = self.expect.order_slack_us;
        let is_back = self
            .pauses(claim.process)
            .iter()
            .any(|(_, over)| over.0 < claim.asked.0 && claim.asked.1 <= over.1 + slack);
        let in_time =
            |origin: &&Claim| is_back || origin.granted.is_some_and(|it| granted.1 <= it.1 + slack);
        origin.filter(in_time).unwrap_or(claim)
    }

    fn is_nested(&self, claim: &Claim) -> bool {
        claim.granted.is_some_and(|granted| {
            self.claims.iter().any(|outer| {
                let holds = outer.granted.is_some_and(|it| it.0 < granted.0);
                holds && outer.until.0 > granted.0 && outer.owner == claim.owner
            })
        })
    }

    fn shares_owner(&self, claim: &Claim) -> bool {
        let own = self
            .claims
            .iter()
            .filter(|other| other.owner == claim.owner);
        own.count() > 1
    }

    /// Returns whether any claim that was asked later was granted before one in line.
    fn overtaking(&self) -> bool {
        let slack = self.expect.order_slack_us;
        let end_us = self.history.last().map_or(0, |event| event.at_us);
        self.claims.iter().any(|early| {
            let Some(queued) = early.queued.filter(|_| early.gave_up().is_none()) else {
                return false;
            };
            let until = early.granted.unwrap_or((usize::MAX, end_us));
            let paused = self
                .pauses(early.process)
                .iter()
                .any(|(from, over)| from.0 < until.0 && over.0 > early.asked.0);
            self.claims.iter().any(|late| {
                let Some(granted) = late.granted else {
                    return false;
                };
                let nested = self.is_nested(late) || self.shares_owner(late);
                let alone = early.mode == Mode::Exclusive && late.mode == Mode::Exclusive;
                let strangers = early.process != late.process;
                let place_us = self.place_us(late).min(self.place_us(self.origin(late)));
                let later = place_us > queued.1 + slack;
                let first = granted.1 + slack < until.1;
                !paused && !nested && alone && strangers && later && first
            })
        })
    }
}

impl Claim {
    fn note(&mut self, at: (usize, u64), what: &What) {
        match what {
            What::Queued { .. } => self.queued = Some(at),
            What::Granted { fence, .. } => {
                self.granted = Some(at);
                self.fence = fence.unwrap();
            }
            What::Refused { .. } | What::Unknown { .. } => self.failed = Some(at),
            What::Lost { .. } => {
                self.lost.get_or_insert(at);
                self.until = self.until.min(at);
            }
            What::Releasing { .. } => {
                self.releasing = Some(at);
                self.until = self.until.min(at);
            }
            What::Released { freed, .. } => {
                self.freed = (*freed == Freed::Freed).then_some(at);
                self.told = Some((at.0, *freed));
            }
            _ => {}
        }
    }

    /// Returns when it was refused, or dropped while it waited.
    fn gave_up(&self) -> Option<(usize, u64)> {
        let dropped = self.releasing.filter(|_| self.granted.is_none());
        self.failed.or(dropped)
    }
}

fn asked(place: usize, event: &Event) -> Claim {
    let What::Asked { mode, owner, .. } = &event.what else {
        panic!("{event:?} asks for nothing");
    };
    Claim {
        process: event.process,
        owner: owner.clone(),
        mode: *mode,
        asked: (place, event.at_us),
        queued: None,
        granted: None,
        fence: 0,
        failed: None,
        releasing: None,
        freed: None,
        lost: None,
        told: None,
        until: NEVER,
    }
}

/// Returns the claim that an event is about.
fn number(event: &Event) -> Option<u64> {
    match &event.what {
        What::Asked { claim, .. }
        | What::Queued { claim }
        | What::Granted { claim, .. }
        | What::Refused { claim }
        | What::Unknown { claim, .. }
        | What::Lost { claim }
        | What::Releasing { claim }
        | What::Released { claim, .. } => Some(*claim),
        _ => None,
    }
}

/// Returns whether these claims cannot hold together.
fn too_many(claims: &[&Claim]) -> bool {
    let strangers = claims.iter().any(|one| {
        claims
            .iter()
            .any(|other| one.owner != other.owner && one.mode == Mode::Exclusive)
    });
    let mut taken: BTreeMap<&str, u32> = BTreeMap::new();
    for claim in claims {
        if let Mode::Permits { take, .. } = claim.mode {
            let most = taken.entry(&claim.owner).or_default();
            *most = take.max(*most);
        }
    }
    strangers || taken.values().sum::<u32>() > 3
}
