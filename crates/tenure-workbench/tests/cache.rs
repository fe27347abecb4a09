//! `tenure demo cache`: one rebuild instead of many, with real processes.

mod common;

use serde_json::Value;
use tenure_testkit::RedisServer;

use common::{Ended, bare, end};

const SMALL: [&str; 11] = [
    "demo",
    "cache",
    "--copies=3",
    "--callers=10",
    "--expiries",
    "3",
    "--fresh",
    "200ms",
    "--rebuild",
    "100ms",
    "--json",
];

fn demo(more: &[&str]) -> Ended {
    let arguments: Vec<_> = SMALL.iter().chain(more).copied().collect();
    end(bare(&arguments).env_remove("TENURE_STORE"))
}

fn reports(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.code, 0, "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

fn number(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap()
}

#[test]
fn one_caller_of_all_copies_rebuilds_what_expired() {
    let reports = reports(&demo(&[]));
    let locks: Vec<_> = reports
        .iter()
        .map(|one| one["lock"].as_str().unwrap())
        .collect();
    assert_eq!(locks, ["none", "process", "tenure", "stale"]);
    let rebuilds = |lock: usize| number(&reports[lock], "rebuilds");
    assert!(
        rebuilds(0) > rebuilds(1),
        "a lock in each copy keeps some off"
    );
    assert!(rebuilds(1) > 3, "three copies rebuild more than once");
    for tenure in &reports[2..] {
        assert_eq!(number(tenure, "rebuilds"), 3, "{tenure}");
        assert_eq!(number(tenure, "most"), 1, "{tenure}");
    }
    assert!(
        number(&reports[3], "stale") > 0,
        "some went on with the old one"
    );
    assert_eq!(number(&reports[2], "stale"), 0);
}

#[test]
fn the_table_ends_with_what_to_try_next() {
    let small = ["demo", "cache", "--copies=2", "--callers=2", "--expiries=1"];
    let lock = ["--rebuild", "50ms", "--lock", "tenure"];
    let ended = end(bare(&[&small[..], &lock].concat()).env_remove("TENURE_STORE"));
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("│ tenure"), "{}", ended.out);
    let last = ended.out.lines().last().unwrap_or_default();
    assert!(last.starts_with("try next: tenure demo cache"), "{last}");
}

#[test]
fn the_lock_may_live_in_redis() {
    let server = RedisServer::start().unwrap();
    let url = server.url();
    let reports = reports(&demo(&["--lock", "tenure", "--store", &url]));
    assert_eq!(number(&reports[0], "rebuilds"), 3);
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let cases = [
        (&["--copies=0"][..], 2, "--copies"),
        (
            &["--lock", "strong"],
            2,
            "possible values: none, process, tenure, stale",
        ),
        (&["--store", "redis://127.0.0.1:1/"], 69, "check --store"),
        (&["--fresh", "soon"], 2, "--fresh"),
    ];
    for (flags, code, says) in cases {
        let arguments: Vec<_> = ["demo", "cache"].iter().chain(flags).copied().collect();
        let ended = end(bare(&arguments).env_remove("TENURE_STORE"));
        assert_eq!(ended.code, code, "{flags:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{flags:?}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}
