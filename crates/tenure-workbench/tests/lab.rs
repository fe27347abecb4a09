//! The lab: every broken lock is flagged for the right reason, and tenure never is in the same
//! experiment.

mod common;

use serde_json::Value;

use crate::common::{assert_no_stopped_child_is_left, bare, end};

/// Runs one case; the broken lock must break this promise and no other, and tenure none.
fn flags(name: &str, promise: &str) {
    let ended = end(&mut bare(&["lab", name, "--json"]));
    let told: Value = serde_json::from_str(&ended.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ended.out, ended.err));
    let cases = told["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1, "{cases:#?}");
    let case = &cases[0];
    assert_eq!(case["name"], name);
    assert_eq!(case["breaks"], promise);
    assert_eq!(case["broken"]["verdict"], "broken", "{:#}", case["broken"]);
    let findings = case["broken"]["findings"].as_array().unwrap();
    let broken: Vec<_> = findings.iter().map(|found| &found["promise"]).collect();
    assert_eq!(broken, [promise], "{findings:#?}");
    assert!(findings[0]["events"].as_array().unwrap().len() >= 2);
    assert_eq!(case["tenure"]["verdict"], "valid", "{:#}", case["tenure"]);
    assert_eq!(told["as_expected"], true);
    assert_eq!(ended.code, 0);
}

macro_rules! cases {
    ($($test:ident: $name:literal breaks $promise:literal,)+) => {
        $(
            #[test]
            fn $test() {
                flags($name, $promise);
            }
        )+

        #[test]
        fn every_case_of_the_list_has_its_test() {
            let tested = [$(($name, $promise)),+];
            let listed = end(&mut bare(&["lab", "--list", "--json"]));
            let listed: Value = serde_json::from_str(&listed.out).unwrap();
            let listed = listed.as_array().unwrap().iter();
            let listed: Vec<_> = listed
                .map(|case| (case["name"].as_str().unwrap(), case["breaks"].as_str().unwrap()))
                .collect();
            assert_eq!(listed, tested);
        }
    };
}

cases! {
    a_lock_inside_one_process_does_not_exclude_another: "process" breaks "exclusion",
    setnx_without_expiry_outlives_its_holder: "setnx" breaks "liveness",
    retry_by_recursion_crashes: "recursion" breaks "liveness",
    setnx_then_expire_outlives_a_client_killed_in_between: "setnx-expire" breaks "liveness",
    del_frees_the_lock_of_another: "del" breaks "owner-only",
    get_then_del_lets_in_a_third: "get-del" breaks "exclusion",
    a_job_outlives_its_lease: "lease" breaks "exclusion",
    a_nested_call_waits_for_itself: "no-reentry" breaks "liveness",
    renewal_of_any_owner_hides_the_loss: "renew-any-owner" breaks "no-lost-update",
    renewal_that_creates_again_takes_the_lock_from_another: "renew-recreate" breaks "owner-only",
    a_paused_holder_writes_without_a_fence: "no-fence" breaks "no-lost-update",
    a_counter_that_is_lost_repeats_its_fences: "incr-fence" breaks "growing-fences",
    failover_forgets_the_lock: "failover" breaks "exclusion",
    redlock_without_validity_believes_old_votes: "redlock-no-validity" breaks "exclusion",
    check_then_subscribe_misses_the_release: "check-then-subscribe" breaks "liveness",
    blind_retry_waits_for_itself: "blind-retry" breaks "liveness",
}

#[test]
fn a_case_is_told_with_its_story_and_its_proof() {
    let ended = end(&mut bare(&["lab", "10"]));
    assert_eq!(ended.code, 0, "{}", ended.err);
    let told = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Everything right, but no fence (no-fence)",
        "A process can be stopped between any two instructions",
        "fault: pause",
        "claim 1 writes version 1 of \"stock\" over 0: accepted",
        "broken: no-lost-update",
        "refused as stale",
        "tenure in the same experiment: valid",
        "1 of 1 broken locks flagged for the right reason",
        "next: 'tenure lab incr-fence'",
    ] {
        assert!(told.contains(part), "{part}: {}", ended.out);
    }
}

#[test]
fn an_unknown_case_is_one_sentence() {
    for case in ["99", "no-such-case", "", "\u{1b}[31m"] {
        let ended = end(&mut bare(&["lab", case]));
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{case:?}");
        assert!(ended.err.starts_with("tenure: "), "{}", ended.err);
        assert!(ended.err.contains("tenure lab --list"), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        assert!(!ended.err.contains('\u{1b}'), "{:?}", ended.err);
    }
}

#[test]
fn without_redis_the_lab_says_what_to_install() {
    let empty = tempfile::tempdir().unwrap();
    let ended = end(bare(&["lab", "5"]).env("PATH", empty.path()));
    assert_eq!((ended.code, ended.out.as_str()), (69, ""), "{}", ended.err);
    assert!(
        ended.err.contains("redis-server is not installed"),
        "{}",
        ended.err
    );
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
}

#[test]
fn a_lab_that_is_killed_leaves_no_client_behind_that_stands_still() {
    assert_no_stopped_child_is_left(&mut bare(&["lab", "no-fence"]));
}
