//! `acquire`, `renew` and `release`.

mod common;

use std::process::Command;

use serde_json::Value;

use crate::common::{Ended, Place, end};

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

fn acquire(place: &Place, flags: &[&str]) -> Value {
    let ended = end(place.tenure(&["acquire", "--json"]).args(flags));
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
