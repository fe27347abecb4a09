//! Commands on servers that vote: what they print, and what they leave behind.

use tenure_testkit::RedisServer;

mod common;

use common::{Ended, bare, end, redlock};

/// Starts three servers that vote from the start.
fn servers() -> (Vec<RedisServer>, String) {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let store = redlock(&servers, &format!("?restart_delay=off&{PATIENCE}"));
    (servers, store)
}

/// Longer than a busy machine needs. A command does not wait for a server that has not answered in
/// time, and that server may then carry out the request after the command has ended.
const PATIENCE: &str = "timeout=2s&connect_timeout=5s";

fn tenure(store: &str, arguments: &[&str]) -> Ended {
    end(&mut bare(&[&["--store", store], arguments].concat()))
}

/// Makes a server forget the scripts, so that a claim takes one more round trip there than on the
/// other servers.
fn delay(server: &RedisServer) {
    server.cli(&["SCRIPT", "FLUSH"]);
}

#[track_caller]
fn assert_nothing_is_left(servers: &[RedisServer], name: &str) {
    for server in servers {
        let left = server.cli(&["EXISTS", &format!("tenure:{{{name}}}")]);
        assert_eq!(left.trim(), "0", "{name} at {}", server.port());
    }
}

#[test]
fn a_command_that_ends_leaves_nothing_where_its_claim_came_late() {
    let (servers, store) = servers();
    for round in 0..12 {
        let name = format!("n{round}");
        delay(&servers[round % 3]);
        let ended = tenure(&store, &["run", &name, "--", "true"]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        assert_nothing_is_left(&servers, &name);
    }
}

#[test]
fn a_lease_that_is_released_by_hand_is_nowhere_any_more() {
    let (servers, store) = servers();
    for round in 0..6 {
        let name = format!("n{round}");
        delay(&servers[round % 3]);
        let owner = format!("o{round}");
        let taken = tenure(&store, &["acquire", &name, "--owner", &owner]);
        assert_eq!(taken.code, 0, "{}", taken.err);
        delay(&servers[round % 3]);
        let freed = tenure(&store, &["release", &name, "--owner", &owner]);
        assert_eq!(freed.code, 0, "{}", freed.err);
        assert_nothing_is_left(&servers, &name);
    }
}

#[test]
fn who_is_refused_leaves_nothing_where_the_holder_was_forgotten() {
    let (servers, store) = servers();
    for round in 0..6 {
        let name = format!("n{round}");
        let taken = tenure(&store, &["acquire", &name]);
        assert_eq!(taken.code, 0, "{}", taken.err);
        let last = &servers[2..];
        last[0].cli(&["DEL", &format!("tenure:{{{name}}}")]);
        delay(&last[0]);
        let refused = tenure(&store, &["run", &name, "--no-wait", "--", "true"]);
        assert_eq!(refused.code, 75, "{}", refused.err);
        assert_nothing_is_left(last, &name);
    }
}

#[test]
fn nodes_that_do_not_count_yet_are_not_counted_and_keep_nothing() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start().unwrap()).collect();
    let store = redlock(&servers, &format!("?{PATIENCE}"));
    for round in 0..6 {
        let name = format!("n{round}");
        delay(&servers[round % 3]);
        let refused = tenure(&store, &["acquire", &name, "--no-wait"]);
        assert_eq!(refused.code, 69, "{}", refused.err);
        assert!(
            refused.err.contains("0 of 3 nodes can vote"),
            "{}",
            refused.err
        );
        assert_nothing_is_left(&servers, &name);
    }
}
