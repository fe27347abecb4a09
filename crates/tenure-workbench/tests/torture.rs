//! `tenure torture`: tenure's stores pass, a broken lock does not, and an inconclusive run says so.

use std::collections::HashMap;
use std::fs;

use serde_json::{Value, json};
use tenure_testkit::{Certificate, ClientCertificate, RedisServer, shared};

mod common;

use common::{Ended, Place, assert_no_stopped_child_is_left, bare, end};

#[test]
fn a_local_store_keeps_its_promises() {
    let place = Place::new();
    let flags = ["torture", "--for", "8s", "--ttl", "500ms", "--json"];
    let mut command = place.tenure(&flags);
    command.args(["--history", &kept("local")]);
    let report = verdict(&end(&mut command), 0);
    assert_eq!(report["verdict"], "valid", "{report:#}");
    assert_eq!(report["of"], place.store());
    assert_faults(&report, &["kill", "pause"]);
    assert_everything_is_drawn(&kept("local"));
}

/// Checks that an owner held a name in two processes at once, and that a call was dropped while it
/// waited.
fn assert_everything_is_drawn(history: &str) {
    let mut asked = HashMap::new();
    let mut held: HashMap<(String, String), Vec<(u64, u64)>> = HashMap::new();
    let (mut shared, mut dropped) = (0, 0);
    for line in fs::read_to_string(history).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let claim = event["claim"].as_u64().unwrap_or_default();
        let process = event["process"].as_u64().unwrap_or_default();
        match text("event").as_str() {
            "asked" => {
                asked.insert(claim, (text("name"), text("owner")));
            }
            "granted" => {
                let holders = held.entry(asked[&claim].clone()).or_default();
                shared += usize::from(holders.iter().any(|(_, other)| *other != process));
                holders.push((claim, process));
            }
            "lost" | "releasing" => match held.get_mut(&asked[&claim]) {
                Some(holders) => holders.retain(|(other, _)| *other != claim),
                None => dropped += 1,
            },
            _ => {}
        }
    }
    assert!(
        shared > 0 && dropped > 0,
        "{shared} shared, {dropped} dropped"
    );
}

#[test]
fn a_redis_store_keeps_its_promises() {
    let report = of_own_servers("redis", "500ms", "3");
    assert_eq!(report["verdict"], "valid", "{report:#}");
    assert_faults(&report, &ALL);
}

#[test]
fn a_redlock_store_keeps_its_promises() {
    let report = of_own_servers("redlock", "500ms", "3");
    assert_eq!(report["verdict"], "valid", "{report:#}");
    assert_faults(&report, &ALL);
}

#[test]
fn a_store_in_mariadb_keeps_its_promises() {
    let report = of_own_servers("mariadb", "1s", "10");
    assert_eq!(report["verdict"], "valid", "{report:#}");
    assert_faults(&report, &ALL);
}

#[test]
fn a_store_in_postgres_keeps_its_promises() {
    let report = of_own_servers("postgres", "1s", "10");
    assert_eq!(report["verdict"], "valid", "{report:#}");
    assert_faults(&report, &ALL);
}

#[test]
fn a_store_in_zookeeper_keeps_its_promises() {
    let report = of_own_servers("zookeeper", "1s", "10");
    assert_eq!(report["verdict"], "valid", "{report:#}");
    assert_faults(&report, &ALL);
}

#[test]
fn a_database_that_is_there_is_tortured_through_a_proxy() {
    for url in [shared::mariadb().unwrap(), shared::postgres().unwrap()] {
        let flags = [
            "torture", "--store", &url, "--for", "6s", "--ttl", "1s", "--json",
        ];
        let mut command = bare(&flags);
        command.args(["--faults", "cut,reply-loss", "--processes", "4"]);
        let ended = end(&mut command);
        assert!(!ended.out.contains("secret") && !ended.err.contains("secret"));
        let report = verdict(&ended, 0);
        assert_eq!(report["verdict"], "valid", "{report:#}");
        assert_faults(&report, &["cut", "reply-loss"]);
    }
}

#[test]
fn a_server_with_tls_is_tortured_or_the_feature_is_named() {
    let server = RedisServer::builder().tls(Certificate::Valid, ClientCertificate::NotAsked);
    let server = server.start().unwrap();
    let ca = server.tls().unwrap().ca();
    let url = format!("{}?ca={}", server.url(), ca.display());
    let flags = [
        "torture", "--store", &url, "--for", "6s", "--ttl", "500ms", "--faults", "kill", "--json",
    ];
    let ended = end(&mut bare(&flags));
    // Cargo builds one library for all crates of a run, with the features of all of them. The
    // features of this crate therefore do not tell whether its command supports TLS.
    if ended.code == 0 {
        assert_eq!(verdict(&ended, 0)["verdict"], "valid");
    } else {
        assert_eq!(ended.code, 2, "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        assert!(ended.err.contains("--features tls"), "{}", ended.err);
    }
}

#[test]
fn a_server_that_is_there_is_tortured_through_a_proxy() {
    let server = RedisServer::builder().password("secret").start().unwrap();
    let place = Place::new();
    let history = place.path("history");
    let flags = [
        "torture",
        "--store",
        &server.url(),
        "--for",
        "6s",
        "--ttl",
        "500ms",
        "--json",
    ];
    let mut command = bare(&flags);
    command
        .args([
            "--faults",
            "kill,cut,reply-loss",
            "--names",
            "2",
            "--processes",
            "6",
            "--seed",
            "3",
        ])
        .arg("--history")
        .arg(&history);
    let ended = end(&mut command);
    assert!(!ended.out.contains("secret") && !ended.err.contains("secret"));
    let report = verdict(&ended, 0);
    assert_eq!(report["verdict"], "valid", "{report:#}");
    assert_faults(&report, &["kill", "cut", "reply-loss"]);
    assert_eq!(report["run"]["seed"], 3);
    // The same history gives the same verdict.
    let again = end(bare(&["torture", "--json", "--check"]).arg(&history));
    let again = verdict(&again, 0);
    for what in ["verdict", "statistics", "events"] {
        assert_eq!(again[what], report[what]);
    }
    // Nothing is left behind except the last fences.
    let keys = server.cli(&["KEYS", "*"]);
    assert!(keys.lines().all(|key| key.ends_with(":fence")), "{keys}");
}

#[test]
fn a_run_without_contention_says_nothing() {
    let place = Place::new();
    let report = verdict(
        &place.run(&[
            "torture",
            "--json",
            "--for",
            "2s",
            "--processes",
            "1",
            "--names",
            "300",
            "--ttl",
            "2s",
        ]),
        3,
    );
    assert_eq!(report["verdict"], "unknown", "{report:#}");
    let reasons = report["reasons"].as_array().unwrap();
    assert!(!reasons.is_empty());
}

#[test]
fn a_fault_that_did_not_happen_says_nothing() {
    let place = Place::new();
    let history = place.path("history");
    let mut command = place.tenure(&["torture", "--for", "3s", "--ttl", "300ms"]);
    command
        .args(["--faults", "kill", "--json", "--history"])
        .arg(&history);
    verdict(&end(&mut command), 0);
    let text = fs::read_to_string(&history).unwrap();
    // The same run, as if the fault had been requested and not injected.
    let without = text.replacen(r#""faults":["kill"]"#, r#""faults":["kill","freeze"]"#, 1);
    assert_ne!(without, text);
    fs::write(&history, without).unwrap();
    let report = verdict(
        &end(bare(&["torture", "--json", "--check"]).arg(&history)),
        3,
    );
    assert_eq!(report["verdict"], "unknown", "{report:#}");
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("freeze"), "{reasons}");
}

#[test]
fn a_history_in_which_two_hold_the_lock_is_broken() {
    let asked = |at_us: u64, claim: u64| {
        json!({"at_us": at_us, "process": claim, "event": "asked", "claim": claim, "name": "a", "mode": "exclusive",
            "owner": format!("owner {claim}")})
    };
    let granted = |at_us: u64, claim: u64| json!({"at_us": at_us, "process": claim, "event": "granted", "claim": claim, "fence": claim});
    let releasing = |at_us: u64, claim: u64| json!({"at_us": at_us, "process": claim, "event": "releasing", "claim": claim});
    let healed = json!({"at_us": 90, "process": 0, "event": "healed"});
    let one_after_the_other = [
        asked(10, 1),
        granted(20, 1),
        asked(30, 2),
        releasing(40, 1),
        granted(50, 2),
        releasing(60, 2),
        healed.clone(),
    ];
    let both = [
        asked(10, 1),
        granted(20, 1),
        asked(30, 2),
        granted(40, 2),
        releasing(50, 1),
        releasing(60, 2),
        healed,
    ];
    let good = verdict(&checked(&one_after_the_other), 0);
    assert_eq!(good["verdict"], "valid", "{good:#}");
    let bad = verdict(&checked(&both), 1);
    assert_eq!(bad["verdict"], "broken", "{bad:#}");
    assert_eq!(bad["findings"][0]["promise"], "exclusion");
}

#[test]
fn the_verdict_is_printed_for_people_too() {
    let place = Place::new();
    let file = place.path("history");
    fs::write(&file, "").unwrap();
    let ended = end(bare(&["torture", "--check"]).arg(&file));
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.out.contains("inconclusive, which is no pass"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("claims"), "{}", ended.out);
}

#[test]
fn what_cannot_be_is_told_in_one_sentence() {
    let place = Place::new();
    let nonsense = place.path("nonsense");
    fs::write(&nonsense, "not an event\n").unwrap();
    let nonsense = nonsense.to_str().unwrap();
    let missing = place.path("missing");
    let missing = missing.to_str().unwrap();
    let cases: [(&[&str], &str); 15] = [
        (
            &["--store", "memory:"],
            "memory: is a store of one process alone",
        ),
        (
            &["--store", "redis://127.0.0.1/?layout=string"],
            "layout=string has no line",
        ),
        (
            &["--store", "etcd://127.0.0.1/"],
            "no store has the scheme \"etcd\"",
        ),
        (
            &["--faults", "cut"],
            "cut cannot be injected into this store",
        ),
        (
            &["--faults", "restart"],
            "restart cannot be injected into this store",
        ),
        (
            &["--store", "redis://127.0.0.1:1/", "--faults", "restart"],
            "--server",
        ),
        (
            &["--store", "redis://10.0.0.1/", "--faults", "freeze"],
            "127.0.0.1",
        ),
        (
            &["--store", "rediss://127.0.0.1/", "--faults", "reply-loss"],
            "without TLS",
        ),
        (
            &[
                "--store",
                "mysql://127.0.0.1/test?socket=/run/mysqld.sock",
                "--faults",
                "cut",
            ],
            "without TLS",
        ),
        (&["--faults", "flood"], "flood"),
        (&["--for", "10ms"], "--for is between"),
        (&["--ttl", "1ms"], "--ttl is between"),
        (&["--server", "mongodb"], "mongodb"),
        (&["--check", nonsense], "line 1 is no event"),
        (&["--check", missing], "cannot be read"),
    ];
    for (flags, part) in cases {
        let ended = end(bare(&["torture"]).args(flags));
        assert_eq!(ended.code, 2, "{flags:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{flags:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{flags:?}: {}", ended.err);
    }
}

#[test]
fn a_store_that_is_not_there_is_told_in_one_sentence() {
    let server = RedisServer::start().unwrap();
    let url = format!("{}?connect_timeout=200ms", server.url());
    drop(server);
    let ended = end(&mut bare(&["torture", "--store", &url, "--for", "1s"]));
    assert_eq!(ended.code, 69, "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
}

#[test]
fn a_torture_that_is_killed_leaves_no_client_behind_that_stands_still() {
    let place = Place::new();
    let flags = [
        "torture", "--faults", "pause", "--ttl", "10s", "--for", "60s",
    ];
    assert_no_stopped_child_is_left(&mut place.tenure(&flags));
}

/// Tortures servers that the command starts itself, with all faults.
///
/// Databases take longer to restart and to log in to. They need longer leases, and more names, so
/// that some of them are free.
fn of_own_servers(servers: &str, ttl: &str, names: &str) -> Value {
    let flags = [
        "torture", "--server", servers, "--for", "10s", "--ttl", ttl, "--names", names, "--json",
    ];
    let mut command = bare(&flags);
    command.args(["--history", &kept(servers)]);
    verdict(&end(&mut command), 0)
}

/// Judges events by `--check`.
fn checked(events: &[Value]) -> Ended {
    let place = Place::new();
    let file = place.path("history");
    let lines: Vec<_> = events.iter().map(Value::to_string).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    end(bare(&["torture", "--json", "--check"]).arg(&file))
}

/// Returns where the history of a run is kept, to investigate failures.
fn kept(name: &str) -> String {
    format!("{}/torture-{name}.jsonl", env!("CARGO_TARGET_TMPDIR"))
}

/// Returns the report of a run that exited with this code.
fn verdict(ended: &Ended, code: i32) -> Value {
    assert_eq!(ended.code, code, "{}\n{}", ended.out, ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

/// Checks that each of the faults has happened.
fn assert_faults(report: &Value, faults: &[&str]) {
    let landed = &report["statistics"]["faults"];
    for fault in faults {
        assert!(landed[fault].as_u64().unwrap_or(0) > 0, "{fault}: {landed}");
    }
}

const ALL: [&str; 6] = ["kill", "pause", "reply-loss", "cut", "freeze", "restart"];
