//! What happens to the command when the lock is lost, or `tenure` itself is killed.

mod common;

use std::fs::{self, File};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_testkit::RedisServer;

use crate::common::{Place, Running, is_alive, wait_for};

/// Starts a child process in the background and waits for it.
const FAMILY: &str = "sleep 1000 & echo $! >grandchild; echo $$ >child; wait";

/// The same, but ignores TERM.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $! >grandchild; echo $$ >child; wait";

/// Logs that it was asked to end, and ends.
const POLITE: &str =
    "trap 'echo asked >log; exit 0' TERM; echo >ready; while :; do sleep 0.02; done";

#[test]
fn an_eviction_ends_the_whole_group() {
    let place = Place::new();
    let running = place.start(&["a"], FAMILY);
    let family = [place.content("grandchild"), place.content("child")];
    assert_eq!(place.run(&["evict", "a"]).code, 0);
    let ended = running.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
    assert!(
        ended.err.contains("evicted by an operator"),
        "{}",
        ended.err
    );
    for process in family {
        assert!(!is_alive(&process));
    }
}

#[test]
fn a_command_that_ignores_term_is_killed_after_the_grace() {
    let place = Place::new();
    let running = place.start(&["a", "--grace", "200ms"], STUBBORN);
    let family = [place.content("grandchild"), place.content("child")];
    place.run(&["evict", "a"]);
    assert_eq!(running.ended().code, 76);
    for process in family {
        wait_for("the group to be gone", || !is_alive(&process));
    }
}

#[test]
fn what_a_command_leaves_behind_is_killed_after_the_grace() {
    let place = Place::new();
    let script =
        "sh -c \"trap '' TERM; exec sleep 1000\" >/dev/null 2>&1 & echo $! >grandchild; wait";
    let running = place.start(&["a", "--grace", "300ms"], script);
    let grandchild = place.content("grandchild");
    wait_for("the grandchild to be deaf", || {
        let name = fs::read_to_string(format!("/proc/{grandchild}/comm"));
        name.is_ok_and(|name| name.trim() == "sleep")
    });
    place.run(&["evict", "a"]);
    assert_eq!(running.ended().code, 76);
    wait_for("the grandchild to be gone", || !is_alive(&grandchild));
}

#[test]
fn an_evicted_command_is_asked_to_end_and_has_its_grace() {
    let place = Place::new();
    let running = place.start(&["a", "--grace", "1h"], POLITE);
    place.content("ready");
    assert_eq!(place.run(&["evict", "a"]).code, 0);
    assert_eq!(running.ended().code, 76);
    assert_eq!(place.content("log"), "asked");
}

#[test]
fn max_hold_asks_the_command_to_end_and_then_kills_it() {
    let place = Place::new();
    // It is asked to end when a third of the time is left, which is enough to react even on a busy
    // machine.
    let asked = ["a", "--max-hold", "9s", "--grace", "1h"];
    let killed = ["a", "--max-hold", "1s", "--grace", "100ms"];
    for (flags, script, log) in [(asked, POLITE, true), (killed, STUBBORN, false)] {
        let ended = place.start(&flags, script).ended();
        assert_eq!(ended.code, 76, "{}", ended.err);
        assert!(ended.err.contains("max_hold"), "{}", ended.err);
        assert_eq!(fs::remove_file(place.path("log")).is_ok(), log);
    }
    assert!(place.is_free("a"));
}

#[test]
fn a_long_grace_leaves_the_command_most_of_its_time() {
    let place = Place::new();
    let flags = ["a", "--max-hold", "20s", "--grace", "1h"];
    let ended = place.start(&flags, "echo done").ended();
    assert_eq!((ended.code, ended.out.as_str()), (0, "done\n"));
}

#[test]
fn a_store_that_does_not_answer_ends_the_command_with_the_lease() {
    let place = Place::new();
    let running = place.start(&["a", "--ttl", "2s", "--grace", "500ms"], STUBBORN);
    let family = [place.content("grandchild"), place.content("child")];
    // Nobody can access the store while its lock file is locked.
    let gate = File::open(place.path("store/lock")).unwrap();
    gate.lock().unwrap();
    let ended = running.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
    for process in family {
        wait_for("the group to be gone", || !is_alive(&process));
    }
}

#[test]
fn a_loss_says_its_cause_and_since_when() {
    let place = Place::new();
    let mut server = RedisServer::start().unwrap();
    let flags = [
        "run", "a", "--ttl", "2s", "--grace", "500ms", "--quiet", "--",
    ];
    let mut command = place.tenure(&[&flags[..], &["sh", "-c", FAMILY]].concat());
    let store = server.url() + "?timeout=200ms&connect_timeout=200ms";
    let running = Running::start(command.env("TENURE_STORE", store));
    place.content("child");
    server.kill().unwrap();
    let ended = running.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
    let cause = format!(
        "no connection to 127.0.0.1:{}: Connection refused",
        server.port()
    );
    assert!(ended.err.contains(": no renewal for "), "{}", ended.err);
    assert!(ended.err.contains(&cause), "{}", ended.err);
}

/// The bound leaves room for a busy machine: with a farewell to the store it takes four seconds.
#[test]
fn tenure_ends_with_a_command_that_was_ended_because_the_store_is_away() {
    for script in [FAMILY, STUBBORN] {
        let place = Place::new();
        let server = RedisServer::start().unwrap();
        let flags = [
            "run", "a", "--ttl", "2s", "--grace", "500ms", "--quiet", "--",
        ];
        let mut command = place.tenure(&[&flags[..], &["sh", "-c", script]].concat());
        let running = Running::start(command.env("TENURE_STORE", server.url() + "?timeout=20s"));
        let child = place.content("child");
        server.freeze().unwrap();
        wait_for("the command to be gone", || !is_alive(&child));
        let begun = Instant::now();
        let ended = running.ended();
        let took = begun.elapsed();
        server.thaw().unwrap();
        assert_eq!(ended.code, 76, "{}", ended.err);
        let cause = "the store has not answered";
        assert!(ended.err.contains(cause), "{}", ended.err);
        assert!(
            took < Duration::from_millis(2500),
            "{took:?}: {}",
            ended.err
        );
    }
}

#[test]
fn killing_tenure_kills_the_command_and_frees_the_lock() {
    let place = Place::new();
    let running = place.start(&["a", "--ttl", "10m"], STUBBORN);
    let family = [place.content("grandchild"), place.content("child")];
    running.signal(Signal::KILL);
    drop(running);
    for process in family {
        wait_for("the group to be gone", || !is_alive(&process));
    }
    wait_for("the lock to be free", || place.is_free("a"));
}

#[test]
fn stopping_tenure_ends_the_command_with_the_lease() {
    let place = Place::new();
    let running = place.start(&["a", "--ttl", "2s"], STUBBORN);
    let family = [place.content("grandchild"), place.content("child")];
    running.signal(Signal::STOP);
    for process in family {
        wait_for("the group to be gone", || !is_alive(&process));
    }
    wait_for("the lock to be free", || place.is_free("a"));
    running.signal(Signal::CONT);
    let ended = running.ended();
    assert_eq!(ended.code, 76, "{}", ended.err);
}

#[test]
fn tenure_may_be_stopped_as_soon_as_the_command_runs() {
    let place = Place::new();
    let running = place.start(
        &["a", "--ttl", "2s"],
        "kill -STOP $PPID; echo $$ >child; sleep 1000",
    );
    let child = place.content("child");
    wait_for("the command to be gone", || !is_alive(&child));
    running.signal(Signal::CONT);
    assert_eq!(running.ended().code, 76);
}

#[test]
fn the_guardian_goes_with_the_command() {
    let place = Place::new();
    let running = place.start(&["a"], "echo >ready; until [ -e end ]; do sleep 0.02; done");
    place.content("ready");
    let mut guardian = None;
    // The guardian changes its name a moment after it starts.
    wait_for("the guardian", || {
        guardian = child_called("lock-guardian", running.id());
        guardian.is_some()
    });
    place.end_holders();
    assert_eq!(running.ended().code, 0);
    assert!(!is_alive(&guardian.unwrap()));
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_command_runs() {
    let place = Place::new();
    let script = "until [ -e end ]; do sleep 0.02; done";
    let running = place.start(&["a", "--ttl", "12s", "--grace", "10s"], script);
    // By the store's clock, the lease now ends later than it would have without a renewal.
    wait_for("the lease to be renewed", || {
        let holder = &place.ls()[0]["holders"][0];
        let time = |field: &str| holder[field].as_u64();
        let lasts = time("held_ms").zip(time("expires_in_ms"));
        lasts.is_some_and(|(held, left)| held + left > 12_000 + 1000)
    });
    place.end_holders();
    let ended = running.ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
}

/// Returns the child of a process that has this name.
fn child_called(name: &str, parent: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let is_called = |child: &&str| {
        let called = fs::read_to_string(format!("/proc/{child}/comm"));
        called.is_ok_and(|called| called.trim() == name)
    };
    children
        .split_whitespace()
        .find(is_called)
        .map(str::to_owned)
}
