//! An unavailable store: `--wait` waits for it too, and says so.

mod common;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_testkit::RedisServer;

use crate::common::{Ended, Place, Running, bare, end, redlock, wait_for};

fn tenure(store: &str, arguments: &[&str]) -> Ended {
    end(&mut bare(&[&["--store", store], arguments].concat()))
}

/// Starts a command with stderr redirected to a file.
fn start(place: &Place, store: &str, arguments: &[&str]) -> Started {
    let log = fs::File::create(place.path("stderr")).unwrap();
    let mut command = bare(&[&["--store", store], arguments].concat());
    command.current_dir(place.path("")).stderr(log);
    Started(spawn(&mut command))
}

fn spawn(command: &mut Command) -> std::process::Child {
    let command = command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

/// A running command, killed when dropped.
struct Started(std::process::Child);

impl Started {
    fn code(mut self) -> Option<i32> {
        let mut status = None;
        wait_for("tenure to end", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_wait_outlasts_a_store_that_is_away() {
    let place = Place::new();
    let mut server = RedisServer::start().unwrap();
    for verb in [
        &["run", "a", "--wait", "5m", "--", "true"][..],
        &["acquire", "b", "--wait", "5m"],
    ] {
        server.kill().unwrap();
        let waiting = start(&place, &server.url(), verb);
        let said = place.content("stderr");
        assert!(said.contains("no connection to"), "{said}");
        assert!(said.contains("waiting for the store"), "{said}");
        server.start_again().unwrap();
        assert_eq!(waiting.code(), Some(0), "{}", place.content("stderr"));
        assert_eq!(place.content("stderr"), said, "said once");
    }
}

#[test]
fn a_wait_outlasts_a_lack_of_votes() {
    let place = Place::new();
    let mut servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let store = redlock(&servers, "?restart_delay=off");
    servers[0].kill().unwrap();
    servers[1].kill().unwrap();
    let waiting = start(&place, &store, &["run", "a", "--wait", "5m", "--", "true"]);
    let said = place.content("stderr");
    assert!(said.contains("1 of 3 nodes can vote"), "{said}");
    servers[0].start_again().unwrap();
    assert_eq!(waiting.code(), Some(0), "{}", place.content("stderr"));
}

#[test]
fn a_wait_outlasts_a_server_that_refuses_for_a_while() {
    let place = Place::new();
    let server = RedisServer::builder().max_memory("0", "noeviction");
    let server = server.start().unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let waiting = start(
        &place,
        &server.url(),
        &["run", "a", "--wait", "5m", "--", "true"],
    );
    let said = place.content("stderr");
    assert!(said.contains("out of memory"), "{said}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(waiting.code(), Some(0), "{}", place.content("stderr"));
}

#[test]
fn a_wait_that_a_store_outlasts_gives_69_and_the_reason() {
    let mut server = RedisServer::start().unwrap();
    let frozen = RedisServer::start().unwrap();
    server.kill().unwrap();
    frozen.freeze().unwrap();
    for store in [server.url(), frozen.url() + "?connect_timeout=200ms"] {
        for verb in [
            &["run", "a", "--wait", "1s", "--", "true"][..],
            &["acquire", "a", "--wait", "1s", "--json"],
        ] {
            let begun = Instant::now();
            let ended = tenure(&store, verb);
            assert!(begun.elapsed().as_millis() >= 1000, "{verb:?}");
            assert_eq!((ended.code, ended.out.as_str()), (69, ""), "{}", ended.err);
            let last = ended.err.lines().last().unwrap();
            assert!(last.contains("no connection to"), "{}", ended.err);
            assert!(!last.contains("waiting for"), "{}", ended.err);
        }
    }
    frozen.thaw().unwrap();
}

#[test]
fn a_store_that_falls_silent_in_the_middle_of_a_wait_gives_69() {
    let server = RedisServer::start().unwrap();
    let store = server.url() + "?timeout=300ms&connect_timeout=300ms";
    for verb in [
        &["run", "a", "--wait", "8s", "--", "true"][..],
        &["acquire", "a", "--wait", "8s"],
    ] {
        let held = tenure(&store, &["acquire", "a", "--owner", "ann", "--ttl", "5s"]);
        assert_eq!(held.code, 0, "{}", held.err);
        let waiting = Running::start(&mut bare(&[&["--store", &store], verb].concat()));
        wait_for("the waiter", || {
            server.cli(&["LLEN", "tenure:{a}:line"]).trim() == "1"
        });
        // It asks again when the lease before it ends, and gets no reply.
        server.freeze().unwrap();
        let ended = waiting.ended();
        server.thaw().unwrap();
        assert_eq!(ended.code, 69, "{verb:?}: {}", ended.err);
        server.cli(&["FLUSHALL"]);
    }
}

/// The bounds leave room for a busy machine: without the limit, each of these takes at least a
/// second longer.
#[test]
fn a_wait_is_not_overrun_by_a_store_that_does_not_answer() {
    let server = RedisServer::start().unwrap();
    server.freeze().unwrap();
    for (time, bound_ms) in [("100ms", 2500), ("3s", 5000)] {
        for verb in [
            &["run", "a", "--wait", time, "--", "true"][..],
            &["acquire", "a", "--wait", time, "--json"],
        ] {
            let begun = Instant::now();
            let ended = tenure(&server.url(), verb);
            let took = begun.elapsed();
            assert_eq!(ended.code, 69, "{verb:?}: {}", ended.err);
            assert!(took < Duration::from_millis(bound_ms), "{verb:?}: {took:?}");
            let last = ended.err.lines().last().unwrap();
            let reasons = ["did not answer within", "no connection to"];
            assert!(
                reasons.iter().any(|reason| last.contains(reason)),
                "{}",
                ended.err
            );
        }
    }
    server.thaw().unwrap();
}

#[test]
fn a_wait_is_not_overrun_by_a_store_that_falls_silent_in_it() {
    let server = RedisServer::start().unwrap();
    let store = server.url() + "?timeout=300ms&connect_timeout=300ms";
    let held = tenure(&store, &["acquire", "a", "--owner", "ann", "--ttl", "2s"]);
    assert_eq!(held.code, 0, "{}", held.err);
    let begun = Instant::now();
    let verb = ["--store", &store, "run", "a", "--wait", "4s", "--", "true"];
    let waiting = Running::start(&mut bare(&verb));
    wait_for("the waiter", || {
        server.cli(&["LLEN", "tenure:{a}:line"]).trim() == "1"
    });
    server.freeze().unwrap();
    let ended = waiting.ended();
    let took = begun.elapsed();
    server.thaw().unwrap();
    assert_eq!(ended.code, 69, "{}", ended.err);
    assert!(took < Duration::from_millis(6200), "{took:?}");
}

#[test]
fn a_wait_is_not_overrun_by_a_folder_that_another_process_has_locked() {
    let place = Place::new();
    assert_eq!(place.run(&["ls"]).code, 0);
    let lock = fs::File::options()
        .write(true)
        .open(place.path("store/lock"))
        .unwrap();
    lock.lock().unwrap();
    for verb in [
        &["run", "a", "--wait", "1s", "--", "true"][..],
        &["acquire", "a", "--wait", "1s", "--json"],
    ] {
        // It ends although the directory stays locked.
        let ended = Running::start(&mut place.tenure(verb)).ended();
        assert_eq!(ended.code, 69, "{verb:?}: {}", ended.err);
        assert!(
            ended.err.contains("did not answer within 1s"),
            "{}",
            ended.err
        );
    }
    let waiting = Running::start(&mut place.tenure(&["run", "a", "--wait", "5m", "--", "true"]));
    lock.unlock().unwrap();
    assert_eq!(waiting.ended().code, 0);
}

#[test]
fn a_lock_that_is_taken_for_the_whole_wait_gives_75() {
    let server = RedisServer::start().unwrap();
    assert_eq!(tenure(&server.url(), &["acquire", "a"]).code, 0);
    let late = tenure(&server.url(), &["run", "a", "--wait", "1s", "--", "true"]);
    assert_eq!(late.code, 75, "{}", late.err);
    assert!(late.err.contains("not free within 1s"), "{}", late.err);
}

#[test]
fn a_signal_ends_the_wait_for_a_store() {
    let mut server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let place = Place::new();
    let waiting = start(
        &place,
        &server.url(),
        &["run", "a", "--wait", "5m", "--", "true"],
    );
    place.content("stderr");
    let pid = common::pid(waiting.0.id());
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(waiting.code(), None, "died by the signal");
}

#[test]
fn without_a_limit_a_store_that_is_away_is_told_at_once() {
    let mut server = RedisServer::start().unwrap();
    server.kill().unwrap();
    for verb in [
        &["run", "a", "--", "true"][..],
        &["run", "a", "--no-wait", "--", "true"],
    ] {
        let ended = tenure(&server.url(), verb);
        assert_eq!(ended.code, 69, "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn what_no_wait_can_mend_fails_at_once() {
    let place = Place::new();
    let server = RedisServer::builder()
        .user("ann on >hunter2 ~* &* +@all")
        .user("bob on >hunter2 ~* &* +@all -evalsha -eval")
        .password("hunter1")
        .start()
        .unwrap();
    let other = RedisServer::builder().password("hunter1").start().unwrap();
    fs::write(place.path("file"), "").unwrap();
    let one = format!("ann:hunter3@127.0.0.1:{}", server.port());
    let two = format!("ann:hunter3@127.0.0.1:{}", other.port());
    let stores = [
        server.url_as("ann", "hunter3"),
        server.url_as("bob", "hunter2"),
        server.url_as("ann", "hunter2") + "99",
        format!("redis://127.0.0.1:{}", server.port()),
        format!("redlock://{one},{two},127.0.0.1:1?restart_delay=off"),
        format!("local:{}/store", place.path("file").display()),
        "gopher://x".to_owned(),
    ];
    for store in stores {
        let mut command = bare(&["--store", &store, "run", "a", "--wait", "1h", "--", "true"]);
        // It ends at once instead of waiting for an hour.
        let ended = Running::start(&mut command).ended();
        let code = if store.starts_with("gopher") { 2 } else { 78 };
        assert_eq!(ended.code, code, "{store}: {}", ended.err);
        assert!(!ended.err.contains("try again"), "{store}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{store}: {}", ended.err);
    }
}

#[test]
fn a_ttl_that_one_lost_answer_would_end_is_warned_of() {
    let server = RedisServer::start().unwrap();
    let run = |ttl| tenure(&server.url(), &["run", "a", "--ttl", ttl, "--", "true"]);
    let short = run("5s");
    assert_eq!(short.code, 0);
    assert!(short.err.contains("use --ttl 6s"), "{}", short.err);
    assert_eq!(run("6s").err, "");
    let quiet = ["run", "a", "--ttl", "5s", "--quiet", "--", "true"];
    assert_eq!(tenure(&server.url(), &quiet).err, "");
}
