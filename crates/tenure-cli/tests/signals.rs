//! Signals: `tenure` ends the way its command ended, so that shells around it notice.

mod common;

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::common::{Place, Terminal, wait_for};

#[test]
fn tenure_dies_by_the_signal_that_ended_its_command() {
    let place = Place::new();
    let signals = [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("PIPE", Signal::PIPE),
        ("TERM", Signal::TERM),
        ("USR1", Signal::USR1),
    ];
    for (word, signal) in signals {
        let ended = place.run(&["run", "a", "--", "sh", "-c", &format!("kill -{word} $$")]);
        assert_eq!(ended.signal, Some(signal.as_raw()), "{word}: {ended:?}");
        assert_eq!(ended.err, "", "{word}");
        assert!(place.is_free("a"), "{word}");
    }
}

#[test]
fn a_command_that_dumps_core_lets_tenure_die_without_a_core() {
    let place = Place::new();
    for (word, signal) in [("QUIT", Signal::QUIT), ("SEGV", Signal::SEGV)] {
        let script = format!(
            "ulimit -c unlimited; exec {} run a -- sh -c 'ulimit -c 0; kill -{word} $$'",
            env!("CARGO_BIN_EXE_tenure")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(place.path(""));
        let ended = common::end(command.env("TENURE_STORE", place.store()));
        assert_eq!(ended.signal, Some(signal.as_raw()), "{word}: {ended:?}");
        assert!(!ended.dumped_core, "{word}");
    }
}

/// A caller that sees `tenure` die by KILL must know that the lock was not released.
#[test]
fn a_command_that_was_killed_gives_137() {
    let place = Place::new();
    let ended = place.run(&["run", "a", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!((ended.code, ended.signal), (137, None));
    assert!(place.is_free("a"));
}

#[test]
fn an_exit_code_stays_an_exit_code() {
    let place = Place::new();
    let ended = place.run(&["run", "a", "--", "sh", "-c", "exit 130"]);
    assert_eq!((ended.code, ended.signal), (130, None));
}

#[test]
fn a_wait_dies_by_the_signal_that_ended_it() {
    let place = Place::new();
    let _holder = place.hold("a", &[]);
    for verb in [&["run", "a", "--", "touch", "never"][..], &["acquire", "a"]] {
        for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
            let waiter = common::Running::start(&mut place.tenure(verb));
            wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
            waiter.signal(signal);
            let ended = waiter.ended();
            assert_eq!(ended.signal, Some(signal.as_raw()), "{verb:?}: {ended:?}");
            assert!(place.pids("a", "waiters").is_empty(), "{verb:?}");
        }
    }
    assert!(!place.path("never").exists());
}

/// Runs `tenure run` in a loop; each round writes its number and waits to be ended.
const LOOP: &str = "
for i in 1 2 3; do tenure run a -- sh -c \"$COMMAND\"; echo $i >>rounds; done
echo after >>rounds";

/// Is ended by ctrl-c.
const MORTAL: &str = "echo >begun; exec sleep 1000";

/// Handles ctrl-c as a request to finish.
const ORDERLY: &str = "trap 'exit 0' INT; echo >begun; while :; do sleep 0.02; done";

#[test]
fn ctrl_c_ends_the_script_around_a_command() {
    for shell in ["dash", "bash"] {
        let place = Place::new();
        fs::write(place.path("script"), LOOP).unwrap();
        let mut terminal = Terminal::start(&place, &format!("exec {shell} script"), MORTAL);
        place.content("begun");
        terminal.press(CTRL_C);
        let ended = terminal.ended();
        assert_eq!(ended.code, 130, "{shell}: {ended:?}");
        assert!(!place.path("rounds").exists(), "{shell}");
        assert!(place.is_free("a"), "{shell}");
    }
}

#[test]
fn ctrl_c_that_a_command_takes_care_of_lets_the_script_go_on() {
    for shell in ["dash", "bash"] {
        let place = Place::new();
        fs::write(place.path("script"), LOOP).unwrap();
        let mut terminal = Terminal::start(&place, &format!("exec {shell} script"), ORDERLY);
        for round in ["1", "2", "3"] {
            place.content("begun");
            fs::remove_file(place.path("begun")).unwrap();
            terminal.press(CTRL_C);
            wait_for("the round to end", || {
                place.content("rounds").lines().any(|line| line == round)
            });
        }
        assert_eq!(terminal.ended().code, 0, "{shell}");
        assert_eq!(place.content("rounds"), "1\n2\n3\nafter", "{shell}");
    }
}

#[test]
fn ctrl_c_ends_a_loop_that_was_typed() {
    let place = Place::new();
    let shell = "exec bash --norc --noprofile -i";
    let mut terminal = Terminal::start(&place, shell, MORTAL);
    let typed = LOOP.trim().replace('\n', "; ") + "\n";
    terminal.press(typed.as_bytes());
    place.content("begun");
    terminal.press(CTRL_C);
    terminal.press(b"echo $? >status; exit 7\n");
    let ended = terminal.ended();
    assert_eq!(ended.code, 7, "the shell itself goes on: {ended:?}");
    assert_eq!(place.content("status"), "130");
    assert!(!place.path("rounds").exists());
}

#[test]
fn ctrl_c_ends_a_script_that_waits_for_the_lock() {
    for shell in ["dash", "bash"] {
        let place = Place::new();
        let _holder = place.hold("a", &[]);
        fs::write(place.path("script"), LOOP).unwrap();
        let mut terminal = Terminal::start(&place, &format!("exec {shell} script"), MORTAL);
        wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
        terminal.press(CTRL_C);
        assert_eq!(terminal.ended().code, 130, "{shell}");
        assert!(!place.path("rounds").exists(), "{shell}");
        assert!(place.pids("a", "waiters").is_empty(), "{shell}");
    }
}

const CTRL_C: &[u8] = &[3];
