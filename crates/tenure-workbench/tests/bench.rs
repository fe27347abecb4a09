//! `tenure bench`: checks that it measures and reports, never how fast anything is.

use serde_json::Value;
use tenure_testkit::{RedisServer, shared};

mod common;

use common::{Ended, Place, bare, end, redlock, wait_for};

#[test]
fn every_workload_of_a_local_store_is_measured_beside_its_floors() {
    let place = Place::new();
    let report = json(&place.run(&["bench", "--json", "--rounds", "2", "--for", "20ms"]));
    assert_eq!(report["store"], place.store());
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(!report["machine"]["kernel"].as_str().unwrap().is_empty());
    let floors = [
        ("pair", vec!["lmdb", "flock"]),
        ("parallel", vec!["own pair"]),
        ("handover", vec!["flock"]),
        ("hot", vec![]),
        ("crowd", vec!["flock", "flock in turn"]),
        ("crash", vec!["flock"]),
        ("idle", vec![]),
        ("many", vec!["own pair"]),
    ];
    let workloads = report["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), floors.len());
    for (workload, (name, floors)) in workloads.iter().zip(floors) {
        assert_eq!(workload["workload"], name);
        let rounds = match name {
            "idle" | "many" => 1,
            _ => 2,
        };
        assert_eq!(workload["rounds"].as_array().unwrap().len(), rounds);
        for round in workload["rounds"].as_array().unwrap() {
            assert_figures(&round["tenure"]);
            for floor in &floors {
                assert_figures(&round[floor]);
            }
        }
        assert_lines(workload, &floors);
    }
}

#[test]
fn a_store_in_memory_has_no_floors_and_no_aims() {
    let report = json(&end(&mut bare(&[
        "bench", "--store", "memory:", "--json", "--rounds", "1", "--for", "20ms",
    ])));
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|one| &one["workload"]).collect();
    assert_eq!(names, ["pair", "parallel", "hot", "many"]);
    for workload in workloads {
        let lines = workload["lines"].as_array().unwrap();
        assert!(lines.iter().all(|line| line["met"].is_null()));
    }
}

#[test]
fn every_workload_of_a_redis_store_is_measured_beside_its_floors() {
    let server = RedisServer::start().unwrap();
    let report = json(&end(&mut bare(&[
        "bench",
        "--store",
        &server.url(),
        "--json",
        "--rounds",
        "2",
        "--for",
        "50ms",
    ])));
    let floors = [
        ("pair", vec!["bare SET"]),
        ("keep", vec!["bare SET", "bare BLPOP"]),
        ("parallel", vec!["bare SET"]),
        ("handover", vec!["bare BLPOP"]),
        ("hot", vec!["bare SET"]),
        ("crowd", vec!["bare BLPOP"]),
        ("team", vec![]),
        ("crash", vec![]),
        ("idle", vec![]),
        ("many", vec![]),
    ];
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|one| &one["workload"]).collect();
    assert_eq!(names, floors.each_ref().map(|(name, _)| name));
    for (workload, (_, floors)) in workloads.iter().zip(&floors) {
        assert_lines(workload, floors);
    }
    assert!(report["missing"].is_null(), "{}", report["missing"]);
    assert_eq!(figure(&report, "pair", "bare SET", "commands_each"), 2.0);
    for layout in ["layout=string", "layout=string&fences=off"] {
        assert!(figure(&report, "pair", layout, "per_second") > 0.0);
        assert!(figure(&report, "parallel", layout, "per_second") > 0.0);
    }
    let token = figure(&report, "handover", "bare BLPOP", "commands_each");
    assert_eq!(token, 2.0);
    assert!(figure(&report, "pair", "bare SET", "server_us_each") > 0.0);
}

#[test]
fn every_workload_of_servers_that_vote_is_measured_beside_its_floors() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let report = json(&end(&mut bare(&[
        "bench",
        "--store",
        &redlock(&servers, "?restart_delay=off&timeout=5s"),
        "--json",
        "--rounds",
        "2",
        "--for",
        "50ms",
    ])));
    let nodes: Vec<_> = servers
        .iter()
        .map(|server| format!("bare 127.0.0.1:{}", server.port()))
        .collect();
    let floors = [
        (
            "pair",
            std::iter::once("bare, slowest of all")
                .chain(nodes.iter().map(String::as_str))
                .collect(),
        ),
        ("dead", vec!["the others alone", "own pair"]),
        (
            "slow",
            vec!["same way, no delay", "the others alone", "own pair"],
        ),
        ("handover", vec!["bare BLPOP"]),
        ("hot", vec!["own pair"]),
        ("crowd", vec!["bare BLPOP"]),
        ("crash", vec![]),
        ("idle", vec![]),
    ];
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|one| &one["workload"]).collect();
    assert_eq!(names, floors.each_ref().map(|(name, _)| name));
    for (workload, (name, floors)) in workloads.iter().zip(&floors) {
        assert_floors(workload, floors);
        let rounds = match *name {
            "dead" | "slow" => 2 * 8,
            "idle" => 1,
            _ => 2,
        };
        assert_eq!(workload["rounds"].as_array().unwrap().len(), rounds);
    }
    assert!(report["missing"].is_null(), "{}", report["missing"]);
    assert!(report["away_ms"].is_null());
    let first = &workloads[0]["lines"][0];
    let slowest = workloads[0]["lines"].as_array().unwrap()[2..2 + nodes.len()]
        .iter()
        .map(|line| line["floor"]["median"].as_f64().unwrap())
        .fold(0.0, f64::max);
    assert_eq!(first["floor"]["median"].as_f64(), Some(slowest), "{first}");
}

/// Everything that is measured goes through the delay: nothing is faster than it permits.
#[test]
fn servers_are_as_far_away_as_they_are_told_to_be() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let alone = (servers[0].url(), "pair", vec!["bare SET"]);
    let nodes: Vec<_> = servers
        .iter()
        .map(|server| format!("bare 127.0.0.1:{}", server.port()))
        .collect();
    let mut floors: Vec<_> = nodes.iter().map(String::as_str).collect();
    floors.extend(["bare, slowest of all", "own pair", "same way, no delay"]);
    let voting = (
        redlock(&servers, "?restart_delay=off&timeout=5s"),
        "pair,dead,slow",
        floors,
    );
    for (url, only, floors) in [alone, voting] {
        let report = json(&end(&mut bare(&[
            "bench", "--store", &url, "--away", "5ms", "--json", "--rounds", "1", "--for", "80ms",
            "--only", only,
        ])));
        assert_eq!(report["away_ms"], 5);
        for workload in report["workloads"].as_array().unwrap() {
            for round in workload["rounds"].as_array().unwrap() {
                for (who, figures) in round.as_object().unwrap() {
                    let pair_us = figures["p50_us"].as_f64().unwrap();
                    assert!(pair_us >= 10_000.0, "{who}: {pair_us}");
                }
            }
            let measured = workload["rounds"][0].as_object().unwrap();
            assert!(measured.contains_key("tenure"), "{measured:?}");
        }
        for floor in floors {
            let rounds = report["workloads"].as_array().unwrap().iter();
            let mut rounds = rounds.map(|workload| &workload["rounds"][0]);
            assert!(rounds.any(|round| round[floor].is_object()), "{floor}");
        }
    }
}

#[test]
fn servers_that_do_not_count_yet_are_named_by_the_store() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let refused = end(&mut bare(&["bench", "--store", &redlock(&servers, "")]));
    assert_eq!(refused.out, "");
    assert!(refused.err.contains("restart_delay"), "{}", refused.err);
}

#[test]
fn a_server_that_hides_its_figures_is_measured_without_them() {
    let hidden = "on >secret ~* &* +@all -info -monitor";
    let server = RedisServer::builder()
        .user(&format!("bench {hidden}"))
        .start()
        .unwrap();
    let url = server.url_as("bench", "secret");
    let measured = end(&mut bare(&[
        "bench", "--store", &url, "--only", "pair", "--rounds", "1", "--for", "20ms",
    ]));
    assert_eq!(measured.code, 0, "{}", measured.err);
    let said = "may be missing: INFO failed";
    assert!(measured.out.contains(said), "{}", measured.out);
    assert!(!measured.out.contains("commands each"), "{}", measured.out);
    assert!(!measured.out.contains("secret"), "{}", measured.out);
}

#[test]
fn a_server_that_cannot_be_reached_is_named_in_one_sentence() {
    let server = RedisServer::builder().password("right").start().unwrap();
    let closed = "redis://127.0.0.1:1/".to_owned();
    let wrong = format!("redis://:sesame@127.0.0.1:{}/", server.port());
    for url in [closed, wrong] {
        let refused = end(&mut bare(&["bench", "--store", &url]));
        assert_eq!(refused.out, "");
        assert!(refused.err.starts_with("tenure: "), "{}", refused.err);
        assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
        assert!(!refused.err.contains("sesame"), "{}", refused.err);
    }
}

#[test]
fn people_get_a_table() {
    let place = Place::new();
    let measured = place.run(&[
        "bench",
        "--only",
        "pair,crash",
        "--rounds",
        "1",
        "--for",
        "20ms",
    ]);
    assert_eq!(measured.code, 0, "{}", measured.err);
    for word in ["WORKLOAD", "pair", "crash", "lmdb", "flock", "µs", "2×"] {
        assert!(measured.out.contains(word), "{word}:\n{}", measured.out);
    }
    assert!(!measured.out.contains("handover"), "{}", measured.out);
}

#[test]
fn every_workload_of_a_store_in_mariadb_is_measured_beside_its_floors() {
    let session = "GET_LOCK (no lease, no fence, a connection each)";
    assert_database(&shared::mariadb().unwrap(), session);
}

#[test]
fn every_workload_of_a_store_in_postgres_is_measured_beside_its_floors() {
    let session = "pg_advisory_lock (no lease, no fence, a connection each)";
    assert_database(&shared::postgres().unwrap(), session);
}

#[test]
fn every_workload_of_a_store_in_zookeeper_is_measured_beside_its_floors() {
    let url = shared::zookeeper().unwrap();
    let flags = ["bench", "--store", &url, "--json", "--rounds", "1"];
    let report = json(&end(bare(&flags).args(["--for", "50ms"])));
    let create = "bare create + delete";
    let recipe = "the recipe (no lease, no fence, a session each)";
    let floors = [
        ("pair", vec![create, recipe]),
        ("handover", vec![recipe]),
        ("hot", vec![]),
        ("crowd", vec![recipe]),
    ];
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|one| &one["workload"]).collect();
    assert_eq!(names, floors.each_ref().map(|(name, _)| name));
    for (workload, (_, floors)) in workloads.iter().zip(&floors) {
        assert_floors(workload, floors);
    }
    assert!(figure(&report, "pair", create, "p50_us") > 0.0);
    assert!(figure(&report, "handover", recipe, "p50_us") > 0.0);
}

fn assert_database(url: &str, session: &str) {
    let flags = ["bench", "--store", url, "--json", "--rounds", "1"];
    let report = json(&end(bare(&flags).args(["--for", "50ms"])));
    let updates = "two bare UPDATEs";
    let floors = [
        ("pair", vec![updates, session]),
        ("parallel", vec![updates, session]),
        ("handover", vec![session]),
        ("hot", vec![updates]),
        ("crowd", vec![session]),
    ];
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|one| &one["workload"]).collect();
    assert_eq!(names, floors.each_ref().map(|(name, _)| name));
    for (workload, (_, floors)) in workloads.iter().zip(&floors) {
        assert_floors(workload, floors);
    }
    for workload in ["pair", "parallel"] {
        for who in ["tenure", updates, session] {
            assert!(figure(&report, workload, who, "per_second") > 0.0);
        }
    }
    assert!(figure(&report, "handover", session, "p50_us") > 0.0);
}

#[test]
fn nothing_is_left_behind() {
    let place = Place::new();
    let only = "pair,handover,crash,idle,many";
    let measured = place.run(&["bench", "--only", only, "--rounds", "1", "--for", "20ms"]);
    assert_eq!(measured.code, 0, "{}", measured.err);
    let files = std::fs::read_dir(place.path("store")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names.filter(|name| name.contains("bench")).collect();
    assert_eq!(left, Vec::<String>::new());
    // Counted before this process has its own client there.
    let clients = std::fs::read_dir(place.path("store/clients")).unwrap();
    assert_eq!(clients.count(), 0);
    let locks = tenure::blocking::open(&place.store()).unwrap();
    assert_eq!(locks.list(None).unwrap(), []);
}

#[test]
fn its_processes_end_with_it() {
    let place = Place::new();
    let mut bench = place.tenure(&["bench", "--only", "crowd", "--for", "5s"]);
    bench.stdout(std::process::Stdio::null());
    let mut bench = bench.spawn().unwrap();
    let mut children = Vec::new();
    wait_for("the crowd to gather", || {
        children = common::children(bench.id());
        children.len() == 8
    });
    bench.kill().unwrap();
    bench.wait().unwrap();
    wait_for("the crowd to go", || {
        !children.iter().any(|child| common::is_alive(child))
    });
}

#[test]
fn bad_requests_are_refused_in_one_sentence() {
    let place = Place::new();
    let cases: [&[&str]; 9] = [
        &["bench", "--only", "nonsense"],
        &["bench", "--rounds", "0"],
        &["bench", "--for", "1ms"],
        &["bench", "--store", "memory:", "--only", "crowd"],
        &["bench", "--store", "nonsense:"],
        &["bench", "--away", "1ms"],
        &["bench", "--store", "memory:", "--away", "1"],
        &["bench", "--store", "memory:", "--away", "2s"],
        &["bench", "--store", "rediss://127.0.0.1:1", "--away", "1ms"],
    ];
    for case in cases {
        let refused = place.run(case);
        assert_eq!(refused.code, 2, "{case:?}: {}", refused.err);
        assert!(refused.err.starts_with("tenure: "), "{}", refused.err);
    }
}

/// Returns one figure of one contender in the last round.
fn figure(report: &Value, workload: &str, who: &str, figure: &str) -> f64 {
    let mut workloads = report["workloads"].as_array().unwrap().iter();
    let workload = workloads
        .find(|one| one["workload"] == workload)
        .unwrap_or_else(|| panic!("{workload} was not measured"));
    let last = workload["rounds"].as_array().unwrap().last().unwrap();
    let found = last[who][figure].as_f64();
    found.unwrap_or_else(|| panic!("{who} has no {figure}: {last}"))
}

fn json(ended: &Ended) -> Value {
    assert_eq!(ended.code, 0, "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

/// Checks that all figures are finite and not negative, and that times and rates are positive.
fn assert_figures(figures: &Value) {
    let figures = figures.as_object().unwrap();
    assert!(!figures.is_empty());
    for (name, figure) in figures {
        let figure = figure.as_f64().unwrap();
        let may_be_zero = [
            "changes",
            "lost",
            "wakeups",
            "reads",
            "bytes",
            "fairness",
            "longest_wait",
            "per_second",
        ];
        let zero = may_be_zero.iter().any(|word| name.contains(word));
        assert!(figure > 0.0 || (zero && figure == 0.0), "{name}: {figure}");
    }
}

fn assert_lines(workload: &Value, floors: &[&str]) {
    let lines = workload["lines"].as_array().unwrap();
    assert!(
        lines.iter().any(|line| line["met"].is_boolean()),
        "{workload}"
    );
    for line in lines {
        assert!(line["tenure"]["median"].is_number(), "{line}");
        assert_eq!(line["tenure"]["range"].as_array().unwrap().len(), 2);
        assert_eq!(line["aim"].is_null(), line["met"].is_null(), "{line}");
    }
    assert_floors(workload, floors);
}

fn assert_floors(workload: &Value, floors: &[&str]) {
    let lines = workload["lines"].as_array().unwrap();
    for floor in floors {
        let compared = |line: &&Value| line["floor"]["name"] == *floor;
        assert!(lines.iter().any(|line| compared(&line)), "{floor}");
    }
}
