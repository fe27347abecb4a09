//! `acquire`, `renew` and `release`.

mod common;

use std::process::Command;

use serde_json::Value;
use tenure_testkit::{Proxy, RedisServer};

use crate::common::{Ended, Place, bare, end};

#[test]
fn a_script_acquires_renews_and_releases() {
    let place = Place::new();
    let script = r#"
        set -e
        eval "$(tenure acquire "it's mine" --ttl 10m)"
        [ "$TENURE_NAME" = "it's mine" ]
        tenure renew "$TENURE_NAME" --owner "$TENURE_OWNER" --fence "$TENURE_FENCE" --ttl 20m
        tenure show "$TENURE_NAME"
        tenure release "$TENURE_NAME" --owner "$TENURE_OWNER"
        tenure show "$TENURE_NAME" || echo free"#;
    let ended = shell(&place, script);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("TENURE_TTL_MS=1200000"), "{}", ended.out);
    assert!(ended.out.ends_with("free\n"), "{}", ended.out);
}

#[test]
fn a_lease_by_hand_outlives_its_process() {
    let place = Place::new();
    assert_eq!(place.run(&["acquire", "a"]).code, 0);
    assert!(!place.is_free("a"));
    let busy = place.run(&["acquire", "a", "--no-wait"]);
    assert_eq!((busy.code, busy.out.as_str()), (75, ""));
}

#[test]
fn strangers_and_old_fences_are_refused() {
    let place = Place::new();
    let lease = acquire(&place, &["a", "--owner", "ann"]);
    let fence = lease["fence"].as_u64().unwrap();
    let (older, right) = ((fence + 1000).to_string(), fence.to_string());
    let cases: &[&[&str]] = &[
        &["release", "a", "--owner", "eve"],
        &["renew", "a", "--owner", "eve"],
        &["release", "a", "--owner", "ann", "--fence", &older],
        &["renew", "a", "--owner", "ann", "--fence", &older],
        &["release", "b", "--owner", "ann"],
    ];
    for case in cases {
        let ended = place.run(case);
        assert_eq!(ended.code, 76, "{case:?}");
        assert!(
            ended.err.contains("does not hold it"),
            "{case:?}: {}",
            ended.err
        );
    }
    assert!(!place.is_free("a"));
    let released = place.run(&["release", "a", "--owner", "ann", "--fence", &right]);
    assert_eq!((released.code, released.out.as_str()), (0, "released a\n"));
    assert!(place.is_free("a"));
    assert_eq!(place.run(&["release", "a", "--owner", "ann"]).code, 76);
}

#[test]
fn json_has_name_owner_fence_and_ttl() {
    let place = Place::new();
    let lease = acquire(&place, &["a", "--ttl", "45s"]);
    let owner = lease["owner"].as_str().unwrap();
    assert_eq!(
        (&lease["name"], &lease["ttl_ms"]),
        (&"a".into(), &45_000.into())
    );
    let renewed = end(place
        .tenure(&["renew", "a", "--json", "--ttl", "1m"])
        .env("TENURE_OWNER", owner));
    let renewed: Value = serde_json::from_str(&renewed.out).unwrap();
    assert_eq!(renewed["fence"], lease["fence"]);
    let released = place.run(&["release", "a", "--owner", owner, "--json"]);
    let released: Value = serde_json::from_str(&released.out).unwrap();
    assert_eq!(released["released"], true);
}

#[test]
fn the_next_in_line_gets_what_is_released_by_hand() {
    let place = Place::new();
    let lease = acquire(&place, &["a"]);
    let waiter = place.start(&["a"], "exit 4");
    common::wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
    let owner = lease["owner"].as_str().unwrap();
    assert_eq!(place.run(&["release", "a", "--owner", owner]).code, 0);
    assert_eq!(waiter.ended().code, 4);
}

#[test]
fn three_acquires_take_three_releases() {
    let place = Place::new();
    assert_counted_down(&place.store(), |depth| {
        let held = place.run(&["show", "deploy", "--json"]);
        let lock: Value = serde_json::from_str(&held.out).unwrap();
        let holders = lock["holders"].as_array().unwrap();
        match depth {
            0 => assert!(holders.is_empty(), "{lock:#}"),
            _ => assert_eq!((holders.len(), &holders[0]["depth"]), (1, &depth.into())),
        }
    });
}

#[test]
fn three_acquires_take_three_releases_in_redis() {
    let server = RedisServer::start().unwrap();
    assert_counted_down(&server.url(), |depth| {
        let found = server.cli(&["HGET", "tenure:{deploy}", "job-7"]);
        let expected = match depth {
            0 => String::new(),
            _ => depth.to_string(),
        };
        assert_eq!(found.trim(), expected);
    });
}

/// Acquires three times and releases three times; `look` is told the depth that there must be.
fn assert_counted_down(store: &str, look: impl Fn(u32)) {
    let fences = [1, 2, 3].map(|depth| {
        let lease = acquire_in(store, &["deploy", "--owner", "job-7"]);
        look(depth);
        lease["fence"].as_u64().unwrap()
    });
    assert_eq!(fences, [fences[0]; 3], "claims of one owner have one fence");
    let left = [
        "released deploy, still held twice by this owner\n",
        "released deploy, still held once by this owner\n",
        "released deploy\n",
    ];
    for (depth, said) in [2, 1, 0].into_iter().zip(left) {
        let other = tenure(store, &["acquire", "deploy", "--owner", "eve", "--no-wait"]);
        assert_eq!(other.code, 75);
        let stranger = tenure(store, &["release", "deploy", "--owner", "eve"]);
        assert_eq!(stranger.code, 76);
        let released = tenure(store, &["release", "deploy", "--owner", "job-7"]);
        assert_eq!((released.code, released.out.as_str()), (0, said));
        look(depth);
    }
    let over = tenure(store, &["release", "deploy", "--owner", "job-7"]);
    assert_eq!((over.code, over.out.as_str()), (76, ""));
    assert!(over.err.contains("does not hold it"), "{}", over.err);
}

#[test]
fn a_repeated_release_of_a_claim_releases_nothing_more() {
    let place = Place::new();
    assert_repeat_is_harmless(&place.store());
}

#[test]
fn a_repeated_release_of_a_claim_releases_nothing_more_in_redis() {
    let server = RedisServer::start().unwrap();
    assert_repeat_is_harmless(&server.url());
}

fn assert_repeat_is_harmless(store: &str) {
    let leases = [1, 2, 3].map(|_| acquire_in(store, &["a", "--owner", "ann"]));
    let claim = leases[1]["claim"].as_str().unwrap();
    let release = ["release", "a", "--owner", "ann", "--claim", claim, "--json"];
    let first = tenure(store, &release);
    let told: Value = serde_json::from_str(&first.out).unwrap();
    assert_eq!((first.code, &told["left"]), (0, &2.into()));
    for _ in 0..3 {
        let repeat = tenure(store, &release);
        assert_eq!((repeat.code, repeat.out.as_str()), (76, ""));
    }
    let last = tenure(store, &["release", "a", "--owner", "ann", "--json"]);
    let told: Value = serde_json::from_str(&last.out).unwrap();
    assert_eq!((last.code, &told["left"]), (0, &1.into()));
}

#[test]
fn a_release_whose_answer_was_lost_frees_one_claim() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let by_proxy = format!("redis://127.0.0.1:{}/?timeout=500ms", proxy.port());
    let leases = [1, 2, 3].map(|_| acquire_in(&server.url(), &["a", "--owner", "ann"]));
    // The release alone names the claim; the server frees it, and nobody hears of that.
    proxy.lose_reply_then_cut(leases[2]["claim"].as_str().unwrap().as_bytes());
    let released = tenure(&by_proxy, &["release", "a", "--owner", "ann"]);
    assert_eq!(released.code, 0, "{}", released.err);
    assert_eq!(released.out, "released a, still held twice by this owner\n");
    assert_eq!(proxy.replies_swallowed(), 1);
    assert_eq!(server.cli(&["HGET", "tenure:{a}", "ann"]).trim(), "2");
}

#[test]
fn releases_at_the_same_time_free_a_claim_each() {
    let place = Place::new();
    for _ in 0..4 {
        acquire(&place, &["a", "--owner", "ann"]);
    }
    let start = || common::Running::start(&mut place.tenure(&["release", "a", "--owner", "ann"]));
    let releases = [(); 4].map(|()| start());
    for release in releases {
        let ended = release.ended();
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
    assert!(place.is_free("a"));
}

#[test]
fn renew_restarts_all_leases_of_an_owner() {
    let place = Place::new();
    let leases = [1, 2, 3].map(|_| acquire(&place, &["a", "--owner", "ann", "--ttl", "20s"]));
    let renewed = place.run(&["renew", "a", "--owner", "ann", "--ttl", "10m", "--json"]);
    let renewed: Value = serde_json::from_str(&renewed.out).unwrap();
    assert_eq!(renewed["renewed"], 3);
    assert_eq!(renewed["fence"], leases[0]["fence"]);
    for _ in 0..3 {
        let expires_in_ms = place.ls()[0]["holders"][0]["expires_in_ms"].as_u64();
        assert!(expires_in_ms.unwrap() > 500_000);
        place.run(&["release", "a", "--owner", "ann"]);
    }
    let claim = acquire(&place, &["a", "--owner", "ann"])["claim"].clone();
    acquire(&place, &["a", "--owner", "ann"]);
    let claim = claim.as_str().unwrap();
    let one = place.run(&["renew", "a", "--owner", "ann", "--claim", claim, "--json"]);
    let one: Value = serde_json::from_str(&one.out).unwrap();
    assert_eq!(one["renewed"], 1);
}

#[test]
fn the_owner_that_was_printed_shares_the_lock() {
    let place = Place::new();
    let lease = acquire(&place, &["a"]);
    let owner = lease["owner"].as_str().unwrap();
    let again = acquire(&place, &["a", "--no-wait", "--owner", owner]);
    assert_eq!(again["owner"], lease["owner"]);
    let released = place.run(&["release", "a", "--owner", owner]);
    assert!(released.out.contains("still held once"), "{}", released.out);
}

#[test]
fn a_lock_that_a_process_holds_is_not_released_by_hand() {
    let place = Place::new();
    let holder = place.hold("a", &["--owner", "ann"]);
    let refused = place.run(&["release", "a", "--owner", "ann"]);
    assert_eq!(refused.code, 76);
    assert!(refused.err.contains("by hand"), "{}", refused.err);
    acquire(&place, &["a", "--owner", "ann", "--no-wait"]);
    let released = place.run(&["release", "a", "--owner", "ann"]);
    assert!(released.out.contains("still held once"), "{}", released.out);
    assert_eq!(place.pids("a", "holders"), [holder.id()]);
}

#[test]
fn where_owners_cannot_be_shared_the_printed_owner_still_releases() {
    let server = RedisServer::start().unwrap();
    let store = format!("{}?layout=string", server.url());
    let refused = tenure(&store, &["acquire", "a", "--owner", "ann"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("owners"), "{}", refused.err);
    let lease = acquire_in(&store, &["a", "--ttl", "10m"]);
    let owner = lease["owner"].as_str().unwrap();
    let renewed = tenure(&store, &["renew", "a", "--owner", owner, "--ttl", "20m"]);
    assert_eq!(renewed.code, 0, "{}", renewed.err);
    let released = tenure(&store, &["release", "a", "--owner", owner]);
    assert_eq!((released.code, released.out.as_str()), (0, "released a\n"));
    let again = tenure(&store, &["release", "a", "--owner", owner]);
    assert_eq!(again.code, 76, "{}", again.err);
}

fn tenure(store: &str, arguments: &[&str]) -> Ended {
    end(&mut bare(&[&["--store", store], arguments].concat()))
}

fn acquire(place: &Place, flags: &[&str]) -> Value {
    acquire_in(&place.store(), flags)
}

fn acquire_in(store: &str, flags: &[&str]) -> Value {
    let ended = tenure(store, &[&["acquire", "--json"], flags].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

/// Runs a script that finds `tenure` as people do.
fn shell(place: &Place, script: &str) -> Ended {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_tenure"));
    let folder = program.parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PATH", path);
    end(command.env("TENURE_STORE", place.store()))
}
