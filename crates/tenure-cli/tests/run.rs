//! `tenure run`: exclusion, order, exit codes, signals.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;

use crate::common::{Place, end, wait_for};

#[test]
fn the_exit_code_is_the_commands() {
    let place = Place::new();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255)] {
        let ended = place.run(&["run", "a", "--", "sh", "-c", script]);
        assert_eq!((ended.code, ended.err.as_str()), (code, ""), "{script}");
    }
}

#[test]
fn a_command_that_a_signal_ended_gives_128_plus_its_number() {
    let place = Place::new();
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("INT", 130)] {
        let script = format!("kill -{signal} $$");
        let ended = place.run(&["run", "a", "--", "sh", "-c", &script]);
        assert_eq!(ended.code, code, "{signal}");
    }
    assert!(place.is_free("a"));
}

#[test]
fn the_command_finds_name_owner_and_fence() {
    let place = Place::new();
    let script = "echo $TENURE_NAME; echo $TENURE_OWNER; echo $TENURE_FENCE";
    let first = place.run(&["run", "a b", "--owner", "job 7", "--", "sh", "-c", script]);
    let second = place.run(&["run", "a b", "--", "sh", "-c", script]);
    let first: Vec<_> = first.out.lines().collect();
    let second: Vec<_> = second.out.lines().collect();
    assert_eq!(first[..2], ["a b", "job 7"]);
    assert!(second[1].len() > 30, "an owner of its own: {second:?}");
    let fence = |lines: &[&str]| lines[2].parse::<u64>().unwrap();
    assert!(fence(&first) < fence(&second));
}

#[test]
fn input_and_output_are_the_commands() {
    let place = Place::new();
    let mut child = place
        .tenure(&["run", "a", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"hello");
}

#[test]
fn a_command_that_is_not_there_gives_127_and_the_lock_is_free() {
    let place = Place::new();
    let ended = place.run(&["run", "a", "--", "no-such-command"]);
    assert_eq!(ended.code, 127);
    assert!(
        ended.err.starts_with("tenure: 'no-such-command'"),
        "{}",
        ended.err
    );
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    assert!(place.is_free("a"));
}

#[test]
fn a_command_without_a_name_is_quoted() {
    let ended = Place::new().run(&["run", "a", "--", ""]);
    assert_eq!(ended.code, 127, "{}", ended.err);
    assert!(
        ended.err.starts_with("tenure: '' was not found"),
        "{}",
        ended.err
    );
}

#[test]
fn a_file_that_cannot_be_executed_gives_126_and_the_lock_is_free() {
    let place = Place::new();
    let file = place.path("file");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let ended = place.run(&["run", "a", "--", "./file"]);
    assert_eq!(ended.code, 126);
    assert!(ended.err.contains("./file"), "{}", ended.err);
    assert!(place.is_free("a"));
}

#[test]
fn one_command_at_a_time() {
    let place = Place::new();
    // A directory can be created only once, so a second command inside would fail.
    let script = "mkdir inside && read n <count && echo $((n + 1)) >count && rmdir inside";
    fs::write(place.path("count"), "0\n").unwrap();
    let running: Vec<_> = (0..10).map(|_| place.start(&["a"], script)).collect();
    for one in running {
        let ended = one.ended();
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
    assert_eq!(place.content("count"), "10");
}

#[test]
fn waiters_go_in_as_they_came() {
    let place = Place::new();
    let holder = place.hold("a", &[]);
    let mut waiters = Vec::new();
    for number in 1..=4 {
        waiters.push(place.start(&["a"], &format!("echo {number} >>log")));
        let pids: Vec<_> = waiters.iter().map(common::Running::id).collect();
        wait_for("the waiter to stand in line", || {
            place.pids("a", "waiters") == pids
        });
    }
    place.end_holders();
    assert_eq!(holder.ended().code, 0);
    for waiter in waiters {
        assert_eq!(waiter.ended().code, 0);
    }
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert_eq!(log, "1\n2\n3\n4\n");
}

#[test]
fn a_busy_lock_gives_75_or_the_code_of_your_choice() {
    let place = Place::new();
    let _holder = place.hold("a", &[]);
    let busy = place.run(&["run", "a", "--no-wait", "--", "true"]);
    let chosen = place.run(&["run", "a", "--no-wait", "--busy-code", "3", "--", "true"]);
    let zero = place.run(&["run", "a", "--wait", "0s", "--", "true"]);
    let late = place.run(&["run", "a", "--wait", "50ms", "--", "true"]);
    assert_eq!(
        (busy.code, chosen.code, zero.code, late.code),
        (75, 3, 75, 75)
    );
    assert!(busy.err.starts_with("tenure: 'a' is busy"), "{}", busy.err);
    for said in [&busy.err, &late.err] {
        assert!(said.contains("tenure show a;"), "{said}");
    }
    assert!(late.err.contains("not free within 50ms"), "{}", late.err);
    assert!(
        place.pids("a", "waiters").is_empty(),
        "nobody is left in line"
    );
}

#[test]
fn a_quiet_command_says_nothing_when_busy_but_reports_errors() {
    let place = Place::new();
    let _holder = place.hold("a", &[]);
    let cron = ["a", "--no-wait", "--busy-code", "0", "--quiet"];
    let late = ["a", "--wait", "50ms", "-q"];
    for (flags, code) in [(&cron[..], 0), (&late, 75)] {
        let ended = place.start(flags, "echo never").ended();
        let said = (ended.out.as_str(), ended.err.as_str());
        assert_eq!((ended.code, said), (code, ("", "")), "{flags:?}");
    }
    let taken = place.run(&["acquire", "a", "--no-wait", "--quiet", "--json"]);
    assert_eq!((taken.code, taken.err.as_str()), (75, ""));
    let wrong = place.run(&["run", "b", "--quiet", "--", "no-such-command"]);
    assert_eq!(wrong.code, 127);
    assert!(wrong.err.contains("was not found"), "{}", wrong.err);
}

#[test]
fn a_wait_can_succeed_in_time() {
    let place = Place::new();
    let holder = place.hold("a", &[]);
    let waiter = place.start(&["a", "--wait", "1m"], "true");
    wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
    place.end_holders();
    assert_eq!(waiter.ended().code, 0);
    assert_eq!(holder.ended().code, 0);
}

#[test]
fn a_signal_before_the_grant_ends_the_wait() {
    let place = Place::new();
    let _holder = place.hold("a", &[]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let waiter = place.start(&["a"], "touch never");
        wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
        waiter.signal(signal);
        assert_eq!(waiter.ended().code, code);
        assert!(place.pids("a", "waiters").is_empty());
    }
    assert!(!place.path("never").exists());
}

#[test]
fn signals_are_passed_on() {
    let place = Place::new();
    let script = "
        for s in INT HUP QUIT USR1 USR2; do trap \"echo $s >>log\" $s; done
        trap 'echo TERM >>log; exit 9' TERM
        echo >ready
        while :; do sleep 0.02; done";
    let running = place.start(&["a"], script);
    place.content("ready");
    let signals = [
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (signal, word) in signals {
        running.signal(signal);
        wait_for("the signal to arrive", || {
            place.content("log").ends_with(word)
        });
    }
    running.signal(Signal::TERM);
    assert_eq!(running.ended().code, 9, "the command's own answer to TERM");
    assert!(place.content("log").ends_with("TERM"));
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let place = Place::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let store = place.store();
    let script = format!(
        "trap '' HUP
         exec {tenure} --store {store} run a -- sh -c 'kill -HUP $PPID; kill -HUP $$; exit 5'"
    );
    let ended = end(std::process::Command::new("sh").args(["-c", &script]));
    assert_eq!(ended.code, 5, "{}", ended.err);
}

#[test]
fn shared_holders_go_in_together_and_a_lone_one_waits() {
    let place = Place::new();
    let _first = place.hold("a", &["--shared"]);
    let _second = place.hold("a", &["--shared"]);
    let alone = place.run(&["run", "a", "--no-wait", "--", "true"]);
    assert_eq!(alone.code, 75);
    assert_eq!(place.ls()[0]["mode"], "shared");
}

#[test]
fn an_owner_that_wants_more_than_it_holds_is_not_told_to_wait() {
    let place = Place::new();
    let _holder = place.hold("a", &["--shared", "--owner", "job-7"]);
    for wait in [&["--no-wait"][..], &["--wait", "1h"], &[]] {
        let flags = [&["a", "--owner", "job-7", "--busy-code", "9"], wait].concat();
        let ended = place.start(&flags, "true").ended();
        assert_eq!(ended.code, 2, "{wait:?}: {}", ended.err);
        assert!(ended.err.contains("release it first"), "{}", ended.err);
    }
}

#[test]
fn permits_are_counted() {
    let place = Place::new();
    let _holder = place.hold("a", &["--permits", "2/3"]);
    let one = place.run(&["run", "a", "--permits", "1/3", "--no-wait", "--", "true"]);
    let two = place.run(&["run", "a", "--permits", "2/3", "--no-wait", "--", "true"]);
    assert_eq!((one.code, two.code), (0, 75));
    let holder = &place.ls()[0]["holders"][0];
    assert_eq!((&holder["take"], &holder["of"]), (&2.into(), &3.into()));
}

#[test]
fn an_owner_shares_its_lock_with_its_own_job() {
    let place = Place::new();
    let holder = place.hold("a", &["--owner", "job-7"]);
    let same = place.run(&["run", "a", "--owner", "job-7", "--no-wait", "--", "true"]);
    let other = place.run(&["run", "a", "--owner", "job-8", "--no-wait", "--", "true"]);
    assert_eq!((same.code, other.code), (0, 75));
    assert_eq!(
        place.pids("a", "holders"),
        [holder.id()],
        "the first still holds it"
    );
}

#[test]
fn a_nested_command_enters_with_the_owner_that_it_finds() {
    let place = Place::new();
    let server = tenure_testkit::RedisServer::start().unwrap();
    for store in [place.store(), server.url()] {
        let program = env!("CARGO_BIN_EXE_tenure");
        let inner = |owner: &str| format!("{program} run a {owner} --no-wait -- true");
        let script = format!(
            "{} || exit 3; {} && exit 4; exit 5",
            inner("--owner \"$TENURE_OWNER\""),
            inner("")
        );
        let mut command = place.tenure(&["run", "a", "--", "sh", "-c", &script]);
        let ended = common::end(command.env("TENURE_STORE", &store));
        assert_eq!(ended.code, 5, "{}", ended.err);
    }
}

#[test]
fn a_nested_command_that_would_wait_for_ever_says_how_to_enter() {
    let place = Place::new();
    let server = tenure_testkit::RedisServer::start().unwrap();
    let no_reentry = server.url() + "?layout=string";
    let program = env!("CARGO_BIN_EXE_tenure");
    for (store, hint) in [
        (place.store(), "use --owner \"$TENURE_OWNER\""),
        (server.url(), "use --owner \"$TENURE_OWNER\""),
        (no_reentry, "no way to enter it again"),
    ] {
        for inner in [
            "run a -- touch never",
            "acquire a",
            "run a --owner me -- true",
        ] {
            if hint.starts_with("no way") && inner.contains("--owner") {
                continue;
            }
            let script = format!("{program} {inner}");
            let mut command = place.tenure(&["run", "a", "--", "sh", "-c", &script]);
            let command = command.env("TENURE_STORE", &store);
            let ended = common::Running::start(command).ended();
            assert_eq!(ended.code, 2, "{inner}: {}", ended.err);
            let told = "tenure: 'a' is already held by the command around this one";
            assert!(ended.err.starts_with(told), "{inner}: {}", ended.err);
            assert!(ended.err.contains(hint), "{inner}: {}", ended.err);
        }
    }
    assert!(!place.path("never").exists());
}

#[test]
fn a_nested_command_that_can_get_in_is_let_in() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_tenure");
    for (outer, inner) in [
        ("--shared", "run a --shared"),
        ("--permits=1/3", "run a --permits=2/3"),
        ("--owner=x", "run a --owner=x"),
        ("--owner=x", "run b"),
        ("--owner=x", "--store local:other run a"),
    ] {
        let script = format!("{program} {inner} -- echo in");
        let command = ["run", "a", outer, "--", "sh", "-c", &script];
        let ended = common::Running::start(&mut place.tenure(&command)).ended();
        assert_eq!(ended.out, "in\n", "{inner}: {}", ended.err);
    }
}

/// The lease ends by its ttl, so the wait goes on.
#[test]
fn a_script_that_waits_for_its_own_lease_by_hand_is_told_at_once() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_tenure");
    let script = format!("eval \"$({program} acquire a --ttl 2s)\"; {program} run a -- true");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]);
    let ended = end(command.env("TENURE_STORE", place.store()));
    assert_eq!(ended.code, 0, "{}", ended.err);
    let told = "tenure: 'a' is already held by this script; to enter it again, use --owner";
    assert!(ended.err.starts_with(told), "{}", ended.err);
}

#[test]
fn at_least_keeps_the_name_taken_after_the_end() {
    let place = Place::new();
    let first = place.run(&["run", "a", "--at-least", "10m", "--", "true"]);
    let second = place.run(&["run", "a", "--no-wait", "--", "true"]);
    assert_eq!((first.code, second.code), (0, 75));
}

#[test]
fn what_the_command_leaves_in_the_background_is_let_be() {
    let place = Place::new();
    let script = "sleep 1000 >/dev/null 2>&1 & echo $! >left";
    let ended = place.run(&["run", "a", "--", "sh", "-c", script]);
    let left = place.content("left");
    assert_eq!(ended.code, 0);
    assert!(common::is_alive(&left));
    assert!(place.is_free("a"));
    rustix::process::kill_process(common::pid(left.parse().unwrap()), Signal::KILL).unwrap();
}

#[test]
fn the_log_goes_to_stderr_and_has_no_owner() {
    let place = Place::new();
    let ended = place.run(&["-v", "run", "a", "--owner", "hidden-job", "--", "echo", "x"]);
    assert_eq!((ended.code, ended.out.as_str()), (0, "x\n"));
    assert!(ended.err.contains("granted"), "{}", ended.err);
    assert!(!ended.err.contains("hidden-job"), "{}", ended.err);
}
