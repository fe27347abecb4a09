//! `acquire`, `renew` and `release`.

mod common;

use std::fs::{self, File};
use std::process::Command;

use serde_json::Value;
use tenure_testkit::{Proxy, RedisServer};

use crate::common::{Ended, Place, bare, end, path_with_tenure};

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
    assert_eq!(busy.code, 75);
    assert!(!busy.out.contains("TENURE_"), "{}", busy.out);
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

/// Acquires three times and releases three times; calls `look` with the expected depth after each
/// step.
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
    // Only the release contains the claim. The server carries it out, but its reply is lost.
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
    assert_eq!(refused.code, 2);
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

/// Runs a script that finds `tenure` in its `PATH`, as for users.
fn shell(place: &Place, script: &str) -> Ended {
    shell_in("sh", &place.store(), script)
}

fn shell_in(shell: &str, store: &str, script: &str) -> Ended {
    let mut command = Command::new(shell);
    command.args(["-c", script]).env("PATH", path_with_tenure());
    end(command.env("TENURE_STORE", store))
}

#[test]
fn a_store_that_was_named_by_flag_is_passed_on() {
    let (place, other) = (Place::new(), Place::new());
    let folder = place.path("it's here").display().to_string();
    let script = r#"
        set -e
        eval "$(tenure --store "local:$FOLDER" acquire a --ttl 10m)"
        [ "$TENURE_STORE" = "local:$FOLDER" ]
        sh -c 'tenure renew a >renewed'
        tenure release a
        tenure --store "local:$FOLDER" run b -- sh -c 'tenure show b >shown'
        tenure --store local:here run c -- sh -c 'mkdir d && cd d && tenure show c' >shown"#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PATH", path_with_tenure());
    command.current_dir(place.path("")).env("FOLDER", folder);
    let ended = end(command.env("TENURE_STORE", other.store()));
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(!other.path("store").exists(), "nothing went to the other");
    // Somebody who has the variable in the environment passes it on anyway.
    let inherited = place.run(&["acquire", "a"]);
    assert!(!inherited.out.contains("STORE"), "{}", inherited.out);
}

#[test]
fn the_owner_of_another_lock_is_not_taken_for_this_ones() {
    let place = Place::new();
    let hint = "TENURE_OWNER is the owner of 'b', not of 'a'";
    for verb in ["renew", "release"] {
        let script = format!(
            r#"eval "$(tenure acquire a)"; first=$TENURE_OWNER
            eval "$(tenure acquire b)"
            tenure {verb} a; echo $?
            tenure release a --owner "$first" && tenure release b"#
        );
        let ended = shell(&place, &script);
        assert_eq!(ended.out, "2\nreleased a\nreleased b\n", "{}", ended.err);
        assert!(ended.err.contains(hint), "{}", ended.err);
        let within = format!("tenure run b -- sh -c 'tenure {verb} a'");
        let ended = shell(&place, &within);
        assert_eq!(ended.code, 2, "{}", ended.err);
        assert!(ended.err.contains(hint), "{}", ended.err);
    }
    let one_owner = r#"
        set -e
        eval "$(tenure acquire a --owner job)"
        eval "$(tenure acquire b --owner job)"
        tenure renew a --owner "$TENURE_OWNER" >renewed
        tenure release a --owner job
        tenure release b"#;
    let mut command = Command::new("sh");
    command.args(["-c", one_owner]).current_dir(place.path(""));
    command.env("PATH", path_with_tenure());
    let ended = end(command.env("TENURE_STORE", place.store()));
    assert_eq!(ended.code, 0, "{}", ended.err);
}

#[test]
fn a_lease_that_cannot_be_told_is_given_back() {
    let place = Place::new();
    let server = RedisServer::start().unwrap();
    for store in [place.store(), server.url()] {
        for more in [&[][..], &["--json"], &["--owner", "ann"]] {
            let verb = [&["--store", &store, "acquire", "a", "--ttl", "10m"], more].concat();
            let full = File::options().write(true).open("/dev/full").unwrap();
            let (reader, closed) = std::io::pipe().unwrap();
            drop(reader);
            for out in [full.into(), closed.into()] {
                let ended = write_to(&mut bare(&verb), out);
                assert_eq!(ended.code, 74, "{verb:?}: {}", ended.err);
                assert!(ended.err.contains("given back"), "{verb:?}: {}", ended.err);
                assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
                let free = tenure(&store, &["run", "a", "--no-wait", "--", "true"]);
                assert_eq!(free.code, 0, "{verb:?}: {}", free.err);
            }
        }
    }
}

#[test]
fn an_answer_that_cannot_be_written_says_what_was_done() {
    let place = Place::new();
    for more in [&[][..], &["--json"]] {
        acquire(&place, &["a", "--owner", "ann", "--ttl", "20s"]);
        for (verb, done) in [
            ("renew", "'a' was renewed"),
            ("release", "'a' was released"),
        ] {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let mut command = place.tenure(&[verb, "a", "--owner", "ann"]);
            let ended = write_to(command.args(more), full.into());
            assert_eq!(ended.code, 74, "{verb}: {}", ended.err);
            assert!(ended.err.contains(done), "{verb}: {}", ended.err);
        }
        assert!(place.is_free("a"));
    }
}

/// Runs a command with its output redirected.
fn write_to(command: &mut Command, out: std::process::Stdio) -> Ended {
    let child = command.stdin(std::process::Stdio::null()).stdout(out);
    let child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn renew_keeps_the_ttl_that_the_lease_was_acquired_with() {
    let place = Place::new();
    let left = |name: &str| {
        let shown = place.run(&["show", name, "--json"]);
        let lock: Value = serde_json::from_str(&shown.out).unwrap();
        lock["holders"][0]["expires_in_ms"].as_u64().unwrap()
    };
    // As scripts do it: the evaluated variables are exported.
    let script = r#"
        eval "$(tenure acquire a --ttl 10m)" && tenure renew a --ttl 1m && tenure renew a"#;
    let ended = shell(&place, script);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(left("a") > 500_000, "{}", left("a"));
    assert!(ended.out.contains("TENURE_TTL_MS=600000"), "{}", ended.out);
    // Without the printed variables the ttl is not known, but no lease is shortened.
    acquire(&place, &["b", "--owner", "ann", "--ttl", "10m"]);
    let renewed = place.run(&["renew", "b", "--owner", "ann"]);
    assert_eq!(renewed.code, 0, "{}", renewed.err);
    assert!(left("b") > 500_000, "{}", left("b"));
    assert!(renewed.err.contains("--ttl"), "{}", renewed.err);
    // Variables that were printed for another lock are ignored.
    let other = end(place
        .tenure(&["renew", "b", "--owner", "ann", "--json"])
        .env("TENURE_NAME", "a")
        .env("TENURE_OWNER", "ann")
        .env("TENURE_TTL_MS", "7200000"));
    let other: Value = serde_json::from_str(&other.out).unwrap();
    assert!(other["ttl_ms"].as_u64().unwrap() <= 600_000, "{other}");
    let told = place.run(&["renew", "b", "--owner", "ann", "--ttl", "1m"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(left("b") <= 60_000, "{}", left("b"));
}

#[test]
fn renew_shortens_no_other_lease_of_the_owner() {
    let place = Place::new();
    let script = r#"
        tenure acquire a --owner ann --ttl 10m >/dev/null
        eval "$(tenure acquire a --owner ann --ttl 1m)"
        tenure renew a --json"#;
    let ended = shell(&place, script);
    let renewed: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(renewed["renewed"], 2, "{}", ended.err);
    let left = place.ls()[0]["holders"][0]["expires_in_ms"].as_u64();
    assert!(left.unwrap() > 500_000, "{left:?}");
}

#[test]
fn a_lock_that_a_process_holds_needs_no_renewal_by_hand() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_tenure");
    let server = RedisServer::start().unwrap();
    for store in [place.store(), server.url()] {
        let inside = ["run", "a", "--", program, "renew", "a", "--json"];
        let ended = end(place.tenure(&inside).env("TENURE_STORE", &store));
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(
            ended.err.contains("renewed by the process"),
            "{}",
            ended.err
        );
        let told: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!((&told["name"], &told["renewed"]), (&"a".into(), &0.into()));
        assert!(told["fence"].is_u64(), "{told}");
    }
    let stranger = end(place
        .tenure(&["run", "a", "--", program, "renew", "a"])
        .args(["--owner", "eve"]));
    assert_eq!(stranger.code, 76, "{}", stranger.err);
}

/// The lines for scripts from the cookbook.
const RECIPE: [&str; 4] = [
    "lease=$(tenure acquire job --ttl 60s) || exit",
    "eval \"$lease\"",
    "trap 'tenure release job' EXIT",
    "trap 'exit 1' INT TERM HUP",
];

#[test]
fn the_recipe_for_scripts_is_documented() {
    let cookbook = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cookbook.md");
    let cookbook = fs::read_to_string(cookbook).unwrap();
    let help = end(&mut bare(&["acquire", "--help"]));
    for line in RECIPE {
        assert!(cookbook.contains(line), "{line}");
        assert!(help.out.contains(line), "{line}: {}", help.out);
    }
}

#[test]
fn the_recipe_for_scripts_holds_the_lock_or_ends_the_script() {
    let recipe = RECIPE.join("\n");
    for shell in ["dash", "bash"] {
        let place = Place::new();
        let held = format!("{recipe}\ntenure renew job >&2\ntenure ls --json");
        let ended = shell_in(shell, &place.store(), &held);
        assert_eq!(ended.code, 0, "{shell}: {}", ended.err);
        let printed = ended.out.strip_suffix("released job\n").unwrap();
        let locks: Value = serde_json::from_str(printed).unwrap();
        let left = locks[0]["holders"][0]["expires_in_ms"].as_u64().unwrap();
        assert!((30_000..=60_000).contains(&left), "{shell}: {left}");
        assert!(place.is_free("job"), "{shell}");
        place.run(&["acquire", "job"]);
        let nowait = format!("{recipe}\necho unlocked").replace("60s", "60s --no-wait");
        let missing = nowait.replace("$(tenure", "$(no-such-tenure");
        let cases = [
            (place.store(), &nowait, 75),
            (NOWHERE.to_owned(), &nowait, 69),
            ("gopher://x".to_owned(), &nowait, 2),
            (place.store(), &missing, 127),
        ];
        for (store, script, code) in cases {
            let ended = shell_in(shell, &store, script);
            assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{shell}");
        }
    }
}

#[test]
fn the_recipe_for_scripts_releases_the_lock_when_a_signal_ends_the_script() {
    let recipe = RECIPE.join("\n");
    for shell in ["dash", "bash"] {
        for signal in ["INT", "TERM", "HUP"] {
            let place = Place::new();
            let script = format!("{recipe}\nkill -{signal} $$\necho 'it goes on'");
            let ended = shell_in(shell, &place.store(), &script);
            assert_eq!((ended.code, ended.out.as_str()), (1, "released job\n"));
            assert!(place.is_free("job"), "{shell}, {signal}");
        }
    }
}

#[test]
fn a_script_that_evaluates_a_failure_ends() {
    let place = Place::new();
    place.run(&["acquire", "job"]);
    for shell in ["dash", "bash"] {
        for set in ["", "set -e;", "set -eu;"] {
            let cases = [
                (place.store(), "job --no-wait", 75),
                (NOWHERE.to_owned(), "job", 69),
                (place.store(), "''", 2),
                (place.store(), "job --ttl 30", 2),
                (place.store(), "job --no-such-flag", 2),
                (place.store(), "", 2),
            ];
            for (store, flags, code) in cases {
                let script = format!("{set} eval \"$(tenure acquire {flags})\"; echo unlocked");
                let ended = shell_in(shell, &store, &script);
                let said = (ended.code, ended.out.as_str());
                assert_eq!(said, (code, ""), "{shell}: {script}: {}", ended.err);
            }
        }
    }
}

#[test]
fn a_shell_that_people_type_in_survives_a_failure() {
    let place = Place::new();
    place.run(&["acquire", "job"]);
    let script = "eval \"$(tenure acquire job --no-wait)\"; echo $?";
    let mut command = Command::new("bash");
    let command = command
        .args(["--norc", "--noprofile", "-ic", script])
        .env("PATH", path_with_tenure());
    let ended = end(command.env("TENURE_STORE", place.store()));
    assert_eq!(ended.out, "75\n", "{}", ended.err);
}

#[test]
fn json_has_nothing_for_shells() {
    let place = Place::new();
    place.run(&["acquire", "job"]);
    let busy = place.run(&["acquire", "job", "--no-wait", "--json"]);
    assert_eq!((busy.code, busy.out.as_str()), (75, ""));
}

/// A store that cannot be reached.
const NOWHERE: &str = "redis://127.0.0.1:1/";
