//! Random histories: arbitrary events, runs of a correct lock, and the same runs with one error.

use std::time::Duration;

use fastrand::Rng;
use tenure_checker::{Event, Expect, Freed, History, Mode, Promise, What, Written, check};

mod model;
use model::run;

#[test]
fn any_events_get_a_verdict() {
    for seed in 0..5_000 {
        let mut rng = Rng::with_seed(seed);
        let length = rng.usize(0..40);
        let history: History = (0..length).map(|_| any_event(&mut rng)).collect();
        let expect = any_expectation(&mut rng);
        let verdict = check(&history, &expect);
        assert_eq!(verdict, check(&history, &expect), "seed {seed}");
        let shown = verdict.to_string();
        let firsts = ["valid: ", "broken: ", "unknown, "];
        assert!(firsts.iter().any(|first| shown.starts_with(first)));
        let short = verdict
            .findings()
            .iter()
            .all(|found| found.events.len() <= 6);
        assert!(short, "seed {seed}: {verdict}");
    }
}

#[test]
fn a_lock_that_is_right_is_valid() {
    let expect = expect().grants(20).contended(5).writes(20);
    for seed in 0..300 {
        let history = run(seed);
        let verdict = check(&history, &expect);
        assert!(verdict.is_valid(), "seed {seed}: {verdict}");
    }
}

#[test]
fn one_thing_wrong_in_a_run_is_found() {
    let kinds: [(Promise, Spoil); 6] = [
        (Promise::Exclusion, holds_on),
        (Promise::NoLostUpdate, reads_old),
        (Promise::GrowingFences, repeats_a_fence),
        (Promise::Liveness, forgets_an_answer),
        (Promise::HonestErrors, refuses_first),
        (Promise::OwnerOnly, frees_again),
    ];
    for (promise, spoil) in kinds {
        let mut spoiled = 0;
        for seed in 0..200 {
            let mut history = run(seed);
            if !spoil(&mut history, &mut Rng::with_seed(seed)) {
                continue;
            }
            spoiled += 1;
            let verdict = check(&history, &expect());
            let found = verdict.broken().contains(&promise);
            assert!(found, "seed {seed}: {promise} is broken, not: {verdict}");
        }
        assert!(
            spoiled > 50,
            "{promise}: only {spoiled} runs could be spoiled"
        );
    }
}

/// Introduces one error into a run; returns whether that was possible.
type Spoil = fn(&mut History, &mut Rng) -> bool;

fn expect() -> Expect {
    Expect::new().patience(Duration::from_secs(1))
}

/// A holder never records its release.
fn holds_on(history: &mut History, rng: &mut Rng) -> bool {
    let Some(place) = some(
        history,
        rng,
        |what| matches!(what, What::Releasing { claim } if claim % 2 == 0),
    ) else {
        return false;
    };
    let What::Releasing { claim } = history[place].what else {
        return false;
    };
    // Only breaks a promise if another claim is granted afterwards.
    let waits = place + 2 < history.len()
        && history[place..].iter().any(
            |event| matches!(event.what, What::Granted { claim: other, .. } if other != claim),
        );
    history.retain(|event| {
        !matches!(event.what, What::Releasing { claim: it } | What::Released { claim: it, .. } if it == claim)
    });
    waits
}

/// A write comes with the version before the one that it should have read.
fn reads_old(history: &mut History, rng: &mut Rng) -> bool {
    let written = |what: &What| matches!(what, What::Wrote { read, .. } if *read > 0);
    let Some(place) = some(history, rng, written) else {
        return false;
    };
    if let What::Wrote { read, version, .. } = &mut history[place].what {
        *read -= 1;
        *version -= 1;
    }
    true
}

/// A grant carries the fence of the first grant.
fn repeats_a_fence(history: &mut History, rng: &mut Rng) -> bool {
    let granted = |what: &What| matches!(what, What::Granted { fence, .. } if *fence > Some(1));
    let Some(place) = some(history, rng, granted) else {
        return false;
    };
    if let What::Granted { fence, .. } = &mut history[place].what {
        *fence = Some(1);
    }
    true
}

/// Removes the answer to a claim and everything that follows from it, and makes the run last long.
fn forgets_an_answer(history: &mut History, rng: &mut Rng) -> bool {
    let Some(place) = some(history, rng, |what| matches!(what, What::Granted { .. })) else {
        return false;
    };
    let What::Granted {
        claim: forgotten, ..
    } = history[place].what
    else {
        return false;
    };
    history.retain(|event| match &event.what {
        What::Granted { claim, .. }
        | What::Wrote { claim, .. }
        | What::Lost { claim }
        | What::Releasing { claim }
        | What::Released { claim, .. } => *claim != forgotten,
        _ => true,
    });
    let process = history.iter().find_map(|event| match event.what {
        What::Asked { claim, .. } if claim == forgotten => Some(event.process),
        _ => None,
    });
    let end = history.last().map_or(0, |event| event.at_us);
    history.push(Event::new(end + 1_000_001, 0, What::Healed));
    history.push(Event::new(end + 2_000_002, 0, What::Started));
    // A killed process need not be answered.
    !history.iter().any(|event| match &event.what {
        What::Fault { kind, target } => kind == "kill" && *target == process,
        _ => false,
    })
}

/// Refuses a claim before it is granted.
fn refuses_first(history: &mut History, rng: &mut Rng) -> bool {
    let Some(place) = some(history, rng, |what| matches!(what, What::Granted { .. })) else {
        return false;
    };
    let event = &history[place];
    let What::Granted { claim, .. } = event.what else {
        return false;
    };
    let refused = Event::new(event.at_us, event.process, What::Refused { claim });
    history.insert(place, refused);
    true
}

/// A former holder releases a second time while another believes that it holds the lock, and the
/// release reports *freed*.
fn frees_again(history: &mut History, rng: &mut Rng) -> bool {
    let released = |what: &What| {
        matches!(
            what,
            What::Released {
                freed: Freed::Freed,
                ..
            }
        )
    };
    let Some(place) = some(history, rng, released) else {
        return false;
    };
    let (process, What::Released { claim, .. }) = (history[place].process, &history[place].what)
    else {
        return false;
    };
    let claim = *claim;
    let next = history[place..]
        .iter()
        .position(|event| matches!(event.what, What::Granted { .. }) && event.process != process);
    let Some(next) = next.map(|next| place + next) else {
        return false;
    };
    let stays = history.get(next + 1).is_some_and(|event| {
        event.at_us > history[next].at_us + 2 && !matches!(event.what, What::Fault { .. })
    });
    let dies = history.iter().any(|event| match event.what {
        What::Fault { target, .. } => target == Some(process),
        _ => false,
    });
    let at_us = history[next].at_us + 1;
    let freed = Freed::Freed;
    history.insert(
        next + 1,
        Event::new(at_us, process, What::Releasing { claim }),
    );
    history.insert(
        next + 2,
        Event::new(at_us, process, What::Released { claim, freed }),
    );
    stays && !dies
}

/// Returns the position of a random event of this kind.
fn some(history: &History, rng: &mut Rng, kind: impl Fn(&What) -> bool) -> Option<usize> {
    let places = history
        .iter()
        .enumerate()
        .filter(|(_, event)| kind(&event.what));
    rng.choice(places.map(|(place, _)| place).collect::<Vec<_>>())
}

fn any_event(rng: &mut Rng) -> Event {
    let what = any_what(rng);
    let at_us = match rng.u8(0..50) {
        0 => u64::MAX - rng.u64(0..3),
        _ => rng.u64(0..30),
    };
    Event::new(at_us, rng.u32(0..4), what)
}

fn any_what(rng: &mut Rng) -> What {
    let claim = rng.u64(0..8);
    let fence = rng.bool().then(|| any_number(rng));
    let kind = rng
        .choice(["kill", "pause", "reply-loss"])
        .unwrap_or("kill")
        .to_owned();
    let target = rng.bool().then(|| rng.u32(0..4));
    let freed = rng.choice([Freed::Freed, Freed::Lowered, Freed::NotHeld, Freed::Unknown]);
    let (name, owner) = (any_name(rng), any_name(rng));
    match rng.u8(0..20) {
        0 => What::Started,
        1 => What::Ended {
            crashed: rng.bool(),
        },
        2..=6 => What::Asked {
            claim,
            name,
            mode: any_mode(rng),
            owner,
        },
        7 => What::Queued { claim },
        8..=10 => What::Granted { claim, fence },
        11 => What::Refused { claim },
        12 => What::Unknown { claim, error: name },
        13 => What::Lost { claim },
        14 => What::Releasing { claim },
        15 => What::Released {
            claim,
            freed: freed.unwrap_or(Freed::Freed),
        },
        16 => What::Wrote {
            claim,
            name,
            fence,
            read: any_number(rng),
            version: any_number(rng),
            outcome: rng
                .choice([Written::Accepted, Written::Stale])
                .unwrap_or(Written::Stale),
        },
        17 => What::Fault { kind, target },
        18 => What::Over { kind, target },
        _ => rng
            .choice([What::Healed, What::Left { found: name }])
            .unwrap_or(What::Healed),
    }
}

fn any_mode(rng: &mut Rng) -> Mode {
    let (take, of) = (rng.u32(0..4), rng.u32(0..4));
    let most = Mode::Permits {
        take: u32::MAX,
        of: u32::MAX,
    };
    let modes = [
        Mode::Exclusive,
        Mode::Shared,
        Mode::Permits { take, of },
        most,
    ];
    rng.choice(modes).unwrap_or(most)
}

fn any_number(rng: &mut Rng) -> u64 {
    match rng.u8(0..9) {
        0 => u64::MAX,
        _ => rng.u64(0..5),
    }
}

fn any_name(rng: &mut Rng) -> String {
    rng.choice(["", "a", "b"]).unwrap_or("a").to_owned()
}

fn any_expectation(rng: &mut Rng) -> Expect {
    let promises = Promise::ALL.into_iter().filter(|_| rng.u8(0..4) > 0);
    let expect = Expect::new().only(promises.collect::<Vec<_>>());
    let some = |rng: &mut Rng| match rng.u8(0..5) {
        0 => Duration::MAX,
        _ => Duration::from_micros(rng.u64(0..10)),
    };
    let (patience, slack, notice) = (some(rng), some(rng), some(rng));
    expect.patience(patience).order_slack(slack).notice(notice)
}
