//! `doctor`: exit codes, JSON, and no passwords in the output.

mod common;

use serde_json::Value;
use tenure_testkit::{Persistence, RedisServer};

use crate::common::{Ended, Place};

fn doctor(store: &str, more: &[&str]) -> Ended {
    let arguments = [&["--store", store, "doctor"], more].concat();
    Place::new().run(&arguments)
}

#[test]
fn a_sound_store_gives_0_and_a_line_for_each_check() {
    let place = Place::new();
    let sound = place.run(&["doctor"]);
    assert_eq!((sound.code, sound.err.as_str()), (0, ""));
    let checks: Vec<_> = sound.out.lines().collect();
    assert!(
        checks[0].starts_with("ok       directory: "),
        "{}",
        sound.out
    );
    assert!(
        sound
            .out
            .contains("\n0 problems, 0 warnings, 5 ok in local:/"),
        "{}",
        sound.out
    );
    assert!(!sound.out.contains('\u{1b}'), "{}", sound.out);
}

#[test]
fn a_problem_gives_1_and_says_what_to_do() {
    let server = RedisServer::builder().max_memory("64mb", "allkeys-lru");
    let server = server.persistence(Persistence::AofAlways).start().unwrap();
    let found = doctor(&server.url(), &[]);
    assert_eq!((found.code, found.err.as_str()), (1, ""));
    let line = "problem  eviction: the server evicts locks when full";
    assert!(found.out.contains(line), "{}", found.out);
    assert!(
        found.out.contains("\n         → set maxmemory-policy"),
        "{}",
        found.out
    );
    assert!(found.out.contains("\n1 problem, "), "{}", found.out);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(
        doctor(&server.url(), &[]).code,
        0,
        "warnings are no problem"
    );
}

#[test]
fn json_is_of_a_fixed_shape() {
    let server = RedisServer::start().unwrap();
    let found = doctor(&server.url(), &["--json"]);
    assert_eq!(found.code, 1);
    let report: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(
        keys(&report),
        ["findings", "problems", "store", "unknown", "warnings"]
    );
    assert_eq!(report["problems"], 1);
    let findings = report["findings"].as_array().unwrap();
    for finding in findings {
        assert_eq!(keys(finding), ["advice", "check", "found", "verdict"]);
    }
    let rights = findings
        .iter()
        .find(|found| found["check"] == "rights")
        .unwrap();
    assert_eq!(rights["verdict"], "ok");
    let advice = rights["advice"].as_str().unwrap();
    assert!(
        advice.contains("ACL SETUSER tenure on >PASSWORD"),
        "{advice}"
    );
}

#[test]
fn a_store_that_is_not_there_gives_69_and_a_wrong_url_2() {
    let mut server = RedisServer::builder().password("hunter2").start().unwrap();
    server.kill().unwrap();
    let gone = doctor(&server.url(), &[]);
    assert_eq!((gone.code, gone.out.as_str()), (69, ""));
    assert!(!gone.err.contains("hunter2"), "{}", gone.err);
    for url in [
        "nonsense",
        "gopher://x",
        "redis://x?hunter2=hunter2",
        "redis:x",
    ] {
        assert_eq!(doctor(url, &[]).code, 2, "{url}");
    }
    assert_eq!(doctor("local:", &["--no-such-flag"]).code, 2);
}

#[test]
fn servers_that_vote_are_looked_at_together() {
    let start = || RedisServer::builder().persistence(Persistence::AofAlways);
    let servers: Vec<_> = (0..3).map(|_| start().start().unwrap()).collect();
    let nodes: Vec<_> = servers
        .iter()
        .map(|server| format!("ann:hunter2@127.0.0.1:{}", server.port()))
        .collect();
    for server in &servers {
        server.cli(&[
            "ACL", "SETUSER", "ann", "on", ">hunter2", "~*", "&*", "+@all",
        ]);
    }
    let url = |options: &str| format!("redlock://{}?timeout=2s&{options}", nodes.join(","));
    let sound = doctor(&url("restart_delay=off"), &[]);
    assert_eq!((sound.code, sound.err.as_str()), (0, ""), "{}", sound.out);
    assert!(
        sound.out.starts_with("ok       nodes: 3 nodes: 2 have to"),
        "{}",
        sound.out
    );
    servers[1].cli(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let forgets = doctor(&url("restart_delay=off"), &[]);
    assert_eq!((forgets.code, forgets.err.as_str()), (1, ""));
    let line = format!(
        "\nproblem  persistence: 127.0.0.1:{}: a power cut",
        servers[1].port()
    );
    assert!(forgets.out.contains(&line), "{}", forgets.out);
    assert!(
        forgets.out.contains("\n         → leave restart_delay=off"),
        "{}",
        forgets.out
    );
    assert!(forgets.out.contains("\n1 problem, "), "{}", forgets.out);
    assert!(!forgets.out.contains("hunter2"), "{}", forgets.out);
    // A user who may not read the settings gets a finding as well.
    servers[1].cli(&["CONFIG", "SET", "appendonly", "no"]);
    servers[1].cli(&["ACL", "SETUSER", "ann", "-config"]);
    let forgets = doctor(&url("restart_delay=off"), &[]);
    assert_eq!((forgets.code, forgets.err.as_str()), (1, ""));
    assert!(
        forgets.out.contains("(appendonly is no)"),
        "{}",
        forgets.out
    );
    drop(servers);
    let gone = doctor(&url(""), &[]);
    assert_eq!((gone.code, gone.out.as_str()), (69, ""));
    assert!(gone.err.contains("0 of 3 nodes can vote"), "{}", gone.err);
    assert!(!gone.err.contains("hunter2"), "{}", gone.err);
    assert_eq!(doctor("redlock://a,a", &[]).code, 2);
}

#[test]
fn a_password_is_never_shown() {
    let server = RedisServer::builder().user("ann on >hunter2 ~* &* +@all -set");
    let server = server.start().unwrap();
    let url = server.url_as("ann", "hunter2");
    for more in [&[][..], &["--json"], &["--verbose"]] {
        let found = doctor(&url, more);
        assert_eq!(found.code, 1);
        let said = found.out + &found.err;
        assert!(!said.contains("hunter2"), "{said}");
        assert!(said.contains("ACL SETUSER ann on >PASSWORD"), "{said}");
    }
    let wrong = doctor(&server.url_as("ann", "hunter3"), &[]);
    assert_eq!(wrong.code, 78);
    assert!(!wrong.err.contains("hunter3"), "{}", wrong.err);
}

/// Returns the finding about the trial lock, and the exit code of the doctor.
fn lock_tried(store: &str) -> (String, i32) {
    let found = doctor(store, &[]);
    let line = found.out.lines().find(|line| line.contains("  lock: "));
    let line = line.unwrap_or_else(|| panic!("no lock was tried: {}{}", found.out, found.err));
    (line.to_owned(), found.code)
}

#[test]
fn a_store_that_grants_passes() {
    let place = Place::new();
    let server = RedisServer::builder().persistence(Persistence::AofAlways);
    let server = server.start().unwrap();
    let string = format!("{}?layout=string&prefix=lock:", server.url());
    for store in [place.store(), server.url(), string] {
        let (line, code) = lock_tried(&store);
        assert!(line.starts_with("ok  "), "{store}: {line}");
        assert_eq!(code, 0, "{store}");
    }
    let left = server.cli(&["KEYS", "*"]);
    for key in left.lines() {
        assert!(key.ends_with("fence"), "{key}");
        assert!(server.cli(&["PTTL", key]).parse::<i64>().unwrap() > 0);
    }
}

#[test]
fn a_server_without_memory_does_not_pass() {
    let server = RedisServer::builder().max_memory("0", "noeviction");
    let server = server.persistence(Persistence::AofAlways).start().unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let (line, code) = lock_tried(&server.url());
    assert!(line.starts_with("problem"), "{line}");
    assert!(line.contains("out of memory"), "{line}");
    assert_eq!(code, 1);
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

#[test]
fn a_server_that_is_busy_with_a_script_does_not_pass() {
    let server = RedisServer::builder().config("busy-reply-threshold 50");
    let server = server.start().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.command(&["EVAL", "while true do end", "0"]));
        common::wait_for("the server to be busy", || {
            let answer = server.command(&["PING"]);
            answer.is_err_and(|error| format!("{error:?}").contains("BUSY"))
        });
        let (line, code) = lock_tried(&server.url());
        server.cli(&["SCRIPT", "KILL"]);
        assert!(line.starts_with("problem"), "{line}");
        assert!(line.contains("SCRIPT KILL"), "{line}");
        assert_eq!(code, 1);
    });
}

#[test]
fn a_server_that_loads_its_data_does_not_pass() {
    let server = RedisServer::builder()
        .debug_command()
        .config("loading-process-events-interval-bytes 1024")
        .start()
        .unwrap();
    server.cli(&["DEBUG", "POPULATE", "5000"]);
    server.cli(&["SAVE"]);
    server.cli(&["CONFIG", "SET", "key-load-delay", "2000"]);
    std::thread::scope(|scope| {
        scope.spawn(|| server.command(&["DEBUG", "RELOAD", "NOSAVE"]));
        common::wait_for("the server to load", || {
            server.info("loading").unwrap() == "1"
        });
        let (line, code) = lock_tried(&server.url());
        server.cli(&["CONFIG", "SET", "key-load-delay", "0"]);
        assert!(line.starts_with("problem"), "{line}");
        assert!(line.contains("loading"), "{line}");
        assert_eq!(code, 1);
    });
}

#[test]
fn the_least_rights_are_enough_to_try_a_lock_and_fewer_are_told() {
    let server = RedisServer::builder().persistence(Persistence::AofAlways);
    let server = server.start().unwrap();
    let rights = doctor(&server.url(), &["--json"]).out;
    let report: Value = serde_json::from_str(&rights).unwrap();
    let all = report["findings"].as_array().unwrap().iter();
    let rights = all.clone().find(|found| found["check"] == "rights");
    let advice = rights.unwrap()["advice"].as_str().unwrap();
    let (_, rule) = advice.split_once("ACL SETUSER tenure ").unwrap();
    let rule = rule.replace(">PASSWORD", ">hunter2");
    let rule: Vec<_> = rule.split(' ').collect();
    server.cli(&[&["ACL", "SETUSER", "ann"], &rule[..]].concat());
    let url = server.url_as("ann", "hunter2");
    let (line, _) = lock_tried(&url);
    assert!(line.starts_with("ok  "), "{line}");
    server.cli(&["ACL", "SETUSER", "ann", "-evalsha", "-eval"]);
    let lacks = doctor(&url, &[]);
    assert_eq!(lacks.code, 1);
    let said = "problem  rights: the user lacks the right to eval, evalsha";
    assert!(lacks.out.contains(said), "{}", lacks.out);
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}
