//! The flash sale as a built program: what each lock sells, what faults do to it, and that nothing
//! is left behind.

mod common;

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use tenure_testkit::{RedisServer, shared};

use crate::common::{Ended, Place, Running, bare, descendants, end, is_alive, runs, wait_for};

#[test]
fn tenure_sells_exactly_the_stock() {
    for front in ["nginx", "own"] {
        let record = held(&["--front", front]);
        assert_kept(&record);
        assert_eq!(record["front"], front);
        assert_eq!(record["totals"]["errors"], 0);
        assert!(copies_that_sold(&record).len() > 1, "all copies sell");
    }
}

#[test]
fn tenure_sells_exactly_the_stock_on_redis() {
    let server = RedisServer::start().unwrap();
    assert_kept(&held(&["--store", &server.url()]));
    let keys = server.cli(&["KEYS", "*stock*"]);
    assert_eq!(keys.trim(), "", "nothing but the last fence is left");
}

#[test]
fn tenure_sells_exactly_the_stock_on_servers_that_vote() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let nodes: Vec<_> = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect();
    let url = format!("redlock://{}?restart_delay=off", nodes.join(","));
    assert_kept(&held(&["--store", &url]));
}

#[test]
fn a_stock_in_mariadb_is_sold_exactly_with_each_lock_and_not_without() {
    assert_database(&shared::mariadb().unwrap());
}

#[test]
fn a_stock_in_postgres_is_sold_exactly_with_each_lock_and_not_without() {
    assert_database(&shared::postgres().unwrap());
}

fn assert_database(url: &str) {
    for lock in ["tenure", "for-update", "optimistic"] {
        let record = held(&["--store", url, "--lock", lock]);
        assert_kept(&record);
        assert_eq!(record["totals"]["errors"], 0, "{lock}");
        assert!(
            copies_that_sold(&record).len() > 1,
            "{lock}: all copies sell"
        );
    }
    let record = held(&["--store", url, "--lock", "none", "--think", "5ms"]);
    assert!(lost_updates(&record) > 0, "{}", record["totals"]);
    assert!(record["totals"]["oversold"].as_u64().unwrap() > 0);
}

#[test]
fn a_frozen_copys_write_is_refused_in_a_database() {
    for url in [shared::mariadb().unwrap(), shared::postgres().unwrap()] {
        let flags = ["--store", &url, "--pause", "--ttl", "1s"];
        let record = held(&flags);
        assert_kept(&record);
        assert_eq!(fault(&record, "pause")["outcome"], "stale");
        // A version protects as well as a fence.
        let record = held(&[&flags[..], &["--lock", "optimistic"]].concat());
        assert_kept(&record);
        assert_eq!(fault(&record, "pause")["outcome"], "stale");
    }
}

#[test]
fn a_killed_copy_frees_its_row_in_a_database_of_the_demo() {
    let record = held(&["--lock", "for-update", "--kill"]);
    assert_kept(&record);
    fault(&record, "kill");
    let store = record["store"].as_str().unwrap();
    assert!(
        store.contains("mariadb://") || store.contains("mysql://"),
        "{store}"
    );
    assert!(store.contains("started"), "{store}");
}

#[test]
fn every_lock_that_works_in_a_database_is_shown_side_by_side() {
    let url = shared::postgres().unwrap();
    let flags = ["--all", "--stock", "8", "--buyers", "24", "--store", &url];
    let ended = sale(&[&flags[..], &["--at-once", "4", "--json"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    let records: Value = serde_json::from_str(&ended.out).unwrap();
    let locks: Vec<_> = records
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["lock"].clone())
        .collect();
    assert_eq!(
        locks,
        ["none", "process", "for-update", "optimistic", "tenure"]
    );
}

#[test]
fn a_killed_copy_is_replaced_and_nothing_is_sold_twice() {
    let record = held(&["--kill"]);
    assert_kept(&record);
    let fault = fault(&record, "kill");
    assert_eq!(fault["outcome"], "error");
    assert!(record["totals"]["errors"].as_u64().unwrap() > 0);
}

#[test]
fn a_frozen_copys_write_is_refused() {
    let record = held(&["--pause", "--ttl", "1s"]);
    assert_kept(&record);
    let fault = fault(&record, "pause");
    assert_eq!(fault["outcome"], "stale");
    let took_us = fault["to_us"].as_u64().unwrap() - fault["from_us"].as_u64().unwrap();
    assert!(took_us > 1_000_000, "longer than its lease");
    let refused = record["totals"]["refused_stale_writes"].as_u64().unwrap();
    // Others may be refused too, if the machine stalls while they sell.
    assert!(refused > 0, "{}", record["totals"]);
}

#[test]
fn a_frozen_copys_lock_goes_to_the_successor_of_a_killed_one() {
    for front in ["nginx", "own"] {
        let many = ["--at-once", "64", "--think", "0ms", "--front", front];
        let record = held(&[&["--pause", "--kill", "--ttl", "1s"], &many[..]].concat());
        assert_kept(&record);
        let (killed, frozen) = (fault(&record, "kill"), fault(&record, "pause"));
        assert!(
            killed["to_us"].as_u64() < frozen["from_us"].as_u64(),
            "{front}: one fault after the other: {}",
            record["faults"]
        );
        assert_eq!(frozen["outcome"], "stale", "{front}");
        let frozen_us = frozen["from_us"].as_u64().unwrap()..frozen["to_us"].as_u64().unwrap();
        let meanwhile = record["sales"].as_array().unwrap().iter().filter(|sale| {
            let at_us = sale["at_us"].as_u64().unwrap();
            sale["copy"] == killed["copy"]
                && sale["outcome"] == "sold"
                && frozen_us.contains(&at_us)
        });
        assert!(meanwhile.count() > 1, "{front}: sales go on");
        let taken = &frozen["taken_over"];
        assert_eq!(taken["copy"], killed["copy"], "{front}: {frozen}");
        assert!(taken["fence"].as_u64() > frozen["fence"].as_u64());
        assert!(frozen_us.contains(&taken["at_us"].as_u64().unwrap()));
    }
}

#[test]
fn a_pause_that_proves_nothing_gives_1_and_a_sentence() {
    // The only buyer waits at the frozen copy, so nobody is left to take over.
    let ended = sale(&["--pause", "--ttl", "100ms", "--at-once", "1"]);
    assert_eq!(ended.code, 1, "{}", ended.out);
    for part in ["no other copy took over", "its late write was accepted"] {
        assert!(ended.err.contains(part), "{}", ended.err);
    }
}

#[test]
fn a_slow_sale_keeps_its_lock() {
    let record = held(&["--slow", "5s", "--ttl", "3s"]);
    assert_kept(&record);
    let fault = fault(&record, "slow");
    assert_eq!(fault["outcome"], "sold");
    let took_us = fault["to_us"].as_u64().unwrap() - fault["from_us"].as_u64().unwrap();
    // The sale starts to count when the message arrives, a moment after the copy.
    assert!(took_us > 3_000_000, "it outlives its lease");
}

#[test]
fn all_faults_in_one_sale_on_redis() {
    let server = RedisServer::start().unwrap();
    let faults = ["--kill", "--pause", "--slow", "3s", "--ttl", "1s"];
    let flags = ["--copies", "3", "--store", &server.url()];
    let record = held(&[&faults[..], &flags[..]].concat());
    assert_kept(&record);
    for kind in ["kill", "pause", "slow"] {
        fault(&record, kind);
    }
}

#[test]
fn without_a_lock_updates_are_lost() {
    let record = held(&["--lock", "none", "--think", "5ms"]);
    assert!(lost_updates(&record) > 0, "{}", record["totals"]);
    assert!(record["totals"]["oversold"].as_u64().unwrap() > 0);
}

#[test]
fn a_lock_inside_each_copy_is_enough_for_one_copy_alone() {
    let two = held(&["--lock", "process", "--think", "5ms"]);
    assert!(lost_updates(&two) > 0, "{}", two["totals"]);
    let one = held(&["--lock", "process", "--think", "5ms", "--copies", "1"]);
    assert_eq!(lost_updates(&one), 0, "{}", one["totals"]);
    assert_eq!(one["totals"]["sold"], STOCK);
}

#[test]
fn a_lock_without_a_fence_loses_an_update_when_its_holder_is_frozen() {
    let server = RedisServer::start().unwrap();
    let url = server.url();
    // Many pieces, because these locks are not fair: the copy must sell once more after the first
    // few.
    let flags = ["--pause", "--ttl", "1s", "--stock", "300", "--store", &url];
    for lock in ["no-fence", "spin"] {
        let record = held(&[&flags[..], &["--lock", lock]].concat());
        assert_eq!(fault(&record, "pause")["outcome"], "sold", "{lock}");
        assert!(lost_updates(&record) > 0, "{lock}: {}", record["totals"]);
    }
}

#[test]
fn a_lock_without_expiry_is_stuck_when_its_holder_is_killed() {
    // Many pieces, because this lock is not fair either.
    let flags = ["--kill", "--ttl", "200ms", "--stock", "300"];
    let record = held(&[&flags[..], &["--lock", "setnx"]].concat());
    assert_eq!(record["stuck"], true);
    assert!(record["totals"]["left"].as_u64().unwrap() > 0);
    assert!(
        record["store"].as_str().unwrap().contains("started"),
        "a server of its own"
    );
}

#[test]
fn every_lock_is_shown_side_by_side() {
    let flags = ["--all", "--ttl", "200ms", "--stock", "8", "--buyers", "24"];
    let ended = sale(&[&flags[..], &["--at-once", "4"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    let rows = ["none", "process", "no-reentry", "spin", "tenure"];
    for lock in rows {
        assert!(ended.out.contains(&format!("│ {lock}")), "{}", ended.out);
        assert!(ended.out.contains(&format!("\n{lock}: ")), "{}", ended.out);
    }
    let last = ended.out.lines().last().unwrap_or_default();
    assert!(last.starts_with("try next: tenure demo "), "{last}");
    for heading in ["OVERSOLD", "LOST UPDATES", "REFUSED STALE WRITES", "P99"] {
        assert!(ended.out.contains(heading), "{}", ended.out);
    }
}

#[test]
fn nothing_is_left_behind() {
    let place = Place::new();
    let ended = end(&mut demo(&place, &["--front", "nginx"]));
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(folders(&place), 0);
    for (signal, front) in [
        (Signal::KILL, "nginx"),
        (Signal::KILL, "own"),
        (Signal::TERM, "nginx"),
    ] {
        let place = Place::new();
        let flags = ["--lock", "spin", "--slow", "1h", "--front", front];
        let mut command = demo(&place, &flags);
        let running = Running::start(&mut command);
        let mut started = Vec::new();
        wait_for("all processes to run", || {
            started = descendants(running.id());
            let of = |name| started.iter().filter(|pid| runs(pid, name)).count();
            of("demo-copy") == 2
                && of("redis-server") > 0
                && (of("nginx") > 0) == (front == "nginx")
        });
        running.signal(signal);
        let ended = running.ended();
        if signal == Signal::TERM {
            assert_eq!(ended.code, 143, "{}", ended.err);
        }
        wait_for("all processes to end", || {
            !started.iter().any(|pid| is_alive(pid))
        });
        wait_for("the folders to be removed", || folders(&place) == 0);
    }
}

#[test]
fn wrong_flags_give_2_and_a_sentence() {
    let cases: &[&[&str]] = &[
        &["--copies", "0"],
        &["--copies", "65"],
        &["--stock", "0"],
        &["--buyers", "0"],
        &["--at-once", "0"],
        &["--lock", "nonsense"],
        &["--lock", "none", "--all"],
        &["--front", "apache"],
        &["--port", "0"],
        &["--ttl", "1ms"],
        &["--ttl", "2h"],
        &["--think", "2h"],
        &["--slow", "0s"],
        &["--slow", "30"],
        &["--slow", "1s", "--lock", "none"],
        &["--pause", "--copies", "1"],
        &["--kill", "--stock", "3"],
        &["--kill", "--stock", "10", "--buyers", "5"],
        &["--store", "memory:"],
        &["--store", "redis+cluster://127.0.0.1:1"],
        &["--store", "local:", "--lock", "spin"],
        &["--store", "local:", "--lock", "for-update"],
        &["--store", "redis://127.0.0.1:1/", "--lock", "optimistic"],
        &["--store", "postgres://127.0.0.1:1/test", "--lock", "spin"],
        &["--store", "gopher://x"],
    ];
    for case in cases {
        assert_sentence(&sale(case), 2, case);
    }
    assert_sentence(&end(&mut bare(&["demo-copy"])), 2, &["demo-copy"]);
}

#[test]
fn what_cannot_be_used_gives_69_and_a_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for front in ["own", "nginx"] {
        let flags = ["--port", &port, "--front", front];
        let ended = sale(&flags);
        assert_sentence(&ended, 69, &flags);
        assert!(ended.err.contains("--port"), "{}", ended.err);
    }
    for store in ["redis://user:hunter2@127.0.0.1:1/", "local:/proc/tenure"] {
        let ended = sale(&["--store", store]);
        assert_sentence(&ended, 69, &[store]);
        assert!(!ended.err.contains("hunter2"), "{}", ended.err);
    }
    let place = Place::new();
    let flags = ["--lock", "spin"];
    let ended = end(demo(&place, &flags).env("PATH", "/nowhere"));
    assert_sentence(&ended, 69, &flags);
    assert!(ended.err.contains("redis-server"), "{}", ended.err);
}

#[test]
fn a_port_can_be_chosen() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    assert_kept(&held(&["--port", &port]));
}

/// Small enough for an unoptimized build, and large enough for faults to happen in the middle.
const STOCK: u64 = 60;

/// Holds one sale to its end, and returns its record.
fn held(flags: &[&str]) -> Value {
    let ended = sale(&[flags, &["--json"]].concat());
    assert_eq!(ended.code, 0, "{flags:?}: {}", ended.err);
    let mut records: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(records.as_array().unwrap().len(), 1);
    records[0].take()
}

fn sale(flags: &[&str]) -> Ended {
    let place = Place::new();
    end(&mut demo(&place, flags))
}

/// Returns the command, with its temporary files in a separate directory.
fn demo(place: &Place, flags: &[&str]) -> Command {
    let mut command = bare(&["demo", "flash-sale"]);
    let stock = STOCK.to_string();
    // With a short think time, sales certainly overlap unless the lock keeps them apart.
    let usual = [
        ("--stock", stock.as_str()),
        ("--at-once", "16"),
        ("--think", "1ms"),
    ];
    for (flag, value) in usual {
        if !flags.contains(&flag) {
            command.args([flag, value]);
        }
    }
    let temporary = place.path("tmp");
    fs::create_dir_all(&temporary).unwrap();
    command.args(flags).env("TMPDIR", temporary);
    command
}

/// Checks everything that tenure promises, whatever was done to the copies.
fn assert_kept(record: &Value) {
    let totals = &record["totals"];
    assert_eq!(totals["sold"], STOCK, "{totals}");
    assert_eq!(totals["left"], 0, "{totals}");
    assert_eq!(totals["oversold"], 0, "{totals}");
    assert_eq!(totals["lost_updates"], 0, "{totals}");
    assert_eq!(totals["requests"], 4 * STOCK, "{totals}");
    assert_eq!(record["broken"].as_array().unwrap().len(), 0);
}

fn lost_updates(record: &Value) -> u64 {
    record["totals"]["lost_updates"].as_u64().unwrap()
}

fn copies_that_sold(record: &Value) -> std::collections::BTreeSet<u64> {
    let sales = record["sales"].as_array().unwrap().iter();
    let sold = sales.filter(|sale| sale["outcome"] == "sold");
    sold.map(|sale| sale["copy"].as_u64().unwrap()).collect()
}

/// Returns the only fault of a kind.
fn fault<'a>(record: &'a Value, kind: &str) -> &'a Value {
    let mut found = record["faults"].as_array().unwrap().iter();
    let found = found.find(|fault| fault["kind"] == kind);
    found.unwrap_or_else(|| panic!("{kind} did not happen: {}", record["faults"]))
}

fn assert_sentence(ended: &Ended, code: i32, case: &[&str]) {
    assert_eq!(ended.code, code, "{case:?}: {}", ended.err);
    assert!(ended.err.starts_with("tenure: "), "{case:?}: {}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "{case:?}: {}", ended.err);
    assert_eq!(ended.out, "", "{case:?}");
}

/// Returns how many directories the demo and its servers have left behind.
fn folders(place: &Place) -> usize {
    fs::read_dir(place.path("tmp")).unwrap().count()
}
