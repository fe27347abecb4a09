//! What people see while a command waits for a lock.

mod common;

use std::fs::File;
use std::process::Stdio;

use tenure_testkit::RedisServer;

use crate::common::{Place, Running, Terminal, bare, wait_for};

#[test]
fn a_wait_says_once_who_holds_the_lock_and_why() {
    let place = Place::new();
    let holder = place.hold("a", &["--reason", "nightly"]);
    let waiting = [
        &["run", "a", "--", "true"][..],
        &["run", "a", "--wait", "1h", "--", "true"],
        &["acquire", "a"],
    ];
    let mut waiters = Vec::new();
    for (before, verb) in waiting.iter().enumerate() {
        let waiter = Waiter::start(&place, verb);
        let said = waiter.said();
        let held = format!("/{} for ", holder.id());
        assert!(
            said.starts_with("tenure: waiting for 'a', held by "),
            "{said}"
        );
        assert!(
            said.contains(&held) && said.contains(" (nightly), "),
            "{said}"
        );
        let line = match before {
            0 => "you are next".to_owned(),
            _ => format!("{before} before you"),
        };
        assert!(said.ends_with(&line), "{said}");
        waiters.push((waiter, said));
    }
    place.end_holders();
    for (waiter, said) in waiters {
        assert_eq!(waiter.command.ended().code, 0);
        assert_eq!(place.content(&waiter.file), said, "said once");
    }
}

#[test]
fn a_quiet_wait_says_nothing() {
    let place = Place::new();
    let _holder = place.hold("a", &[]);
    let quiet = place.start(&["a", "--quiet"], "true");
    wait_for("the quiet one", || {
        place.pids("a", "waiters") == [quiet.id()]
    });
    // It came later, so the quiet one would have said something by then.
    let loud = Waiter::start(&place, &["run", "a", "--", "true"]);
    assert!(loud.said().ends_with("1 before you"));
    place.end_holders();
    let ended = quiet.ended();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}

/// On a terminal the line is updated and erased. `script` shows all that was written.
#[test]
fn a_wait_on_a_terminal_is_updated_in_place() {
    let place = Place::new();
    let _holder = place.hold("a", &["--reason", &"long ".repeat(30)]);
    let program = "stty cols 60; tenure run a -- true; echo done >log";
    let mut terminal = Terminal::start(&place, program, "");
    let mut shown = String::new();
    while shown.matches("waiting for 'a'").count() < 2 {
        shown += &terminal.read();
    }
    place.end_holders();
    assert_eq!(place.content("log"), "done");
    shown += &terminal.ended().out;
    assert!(!shown.contains('\n'), "in place: {shown:?}");
    assert!(shown.ends_with("\r\x1b[K"), "erased: {shown:?}");
    for line in shown.split('\r') {
        let line = line.trim_end_matches("\x1b[K");
        assert!(line.chars().count() < 60, "{line:?}");
        assert!(line.is_empty() || line.ends_with('…'), "{line:?}");
    }
}

#[test]
fn a_wait_on_a_terminal_says_that_the_store_does_not_answer() {
    let place = Place::new();
    let server = RedisServer::start().unwrap();
    let store = server.url() + "?timeout=300ms&connect_timeout=300ms";
    let held = common::end(&mut bare(&[
        "--store", &store, "acquire", "a", "--ttl", "1h",
    ]));
    assert_eq!(held.code, 0, "{}", held.err);
    let program = format!("exec tenure run a --ttl 1h --store '{store}' -- true");
    let mut terminal = Terminal::start(&place, &program, "");
    let mut shown = String::new();
    while !shown.contains("you are next") {
        shown += &terminal.read();
    }
    server.freeze().unwrap();
    while !shown.contains("waiting for 'a', the redis store is unavailable") {
        shown += &terminal.read();
    }
    server.thaw().unwrap();
    while !shown.ends_with("you are next\x1b[K") {
        shown += &terminal.read();
    }
}

#[test]
fn the_log_says_that_a_claim_waits_and_when_it_is_granted() {
    let place = Place::new();
    let _holder = place.hold("a", &[]);
    let waiter = Running::start(&mut place.tenure(&["-v", "run", "a", "--", "true"]));
    wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
    place.end_holders();
    let ended = waiter.ended();
    let (waits, granted) = ended.err.split_once("waiting in line").unwrap();
    assert!(!waits.contains("granted"), "{}", ended.err);
    assert!(granted.contains("granted"), "{}", ended.err);
}

/// A waiting command whose stderr is a file.
struct Waiter<'a> {
    place: &'a Place,
    file: String,
    command: Running,
}

impl<'a> Waiter<'a> {
    fn start(place: &'a Place, arguments: &[&str]) -> Self {
        let file = format!("stderr-{}", arguments.concat());
        let stderr = File::create(place.path(&file)).unwrap();
        let mut command = place.tenure(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let command = Running::from(command.stderr(stderr).spawn().unwrap());
        Self {
            place,
            file,
            command,
        }
    }

    /// Waits until it has said something.
    fn said(&self) -> String {
        self.place.content(&self.file)
    }
}
