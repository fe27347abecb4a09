//! What `tenure doctor` finds on real servers that vote.

use std::time::{Duration, Instant};

use tenure::{Error, Finding, Verdict};
use tenure_testkit::{Persistence, RedisCluster, RedisServer};

use crate::nodes::Nodes;

/// Returns the findings of one check.
async fn find(url: &str, check: &str) -> Vec<Finding> {
    let mut found = tenure::doctor(url).await.unwrap();
    found.retain(|finding| finding.check == check);
    found
}

/// Returns the only finding of a check.
async fn only(url: &str, check: &str) -> Finding {
    let mut found = find(url, check).await;
    assert_eq!(found.len(), 1, "{check}: {found:?}");
    found.remove(0)
}

fn start(count: usize, persistence: Persistence) -> Nodes {
    let start = || RedisServer::builder().persistence(persistence).start();
    Nodes((0..count).map(|_| start().unwrap()).collect())
}

fn place(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Waits until the servers report that they have been up for this long.
async fn grow_up(nodes: &Nodes, seconds: u64) {
    let give_up = Instant::now() + Duration::from_secs(20);
    for server in &nodes.0 {
        while server
            .info("uptime_in_seconds")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            < seconds
        {
            assert!(Instant::now() < give_up, "its clock stands still");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn three_nodes_that_forget_nothing_are_sound() {
    let nodes = start(3, Persistence::AofAlways);
    let found = tenure::doctor(&nodes.url()).await.unwrap();
    for finding in &found {
        let expected = match finding.check {
            // The version depends on the machine.
            "version" => continue,
            // All of them are on the same machine.
            "machines" => Verdict::Warning,
            _ => Verdict::Fine,
        };
        assert_eq!(finding.verdict, expected, "{found:#?}");
    }
    let checks: Vec<_> = found.iter().map(|finding| finding.check).collect();
    let expected = [
        "nodes",
        "independence",
        "machines",
        "version",
        "eviction",
        "persistence",
        "rights",
        "clock",
        "lock",
    ];
    assert_eq!(checks, expected);
    assert!(
        found[0]
            .found
            .starts_with("3 nodes: 2 have to agree, 1 may"),
        "{found:?}"
    );
}

#[tokio::test]
async fn one_server_by_two_names_is_found() {
    let nodes = start(2, Persistence::AofAlways);
    let [twice, once] = &nodes.0[..] else {
        panic!("{nodes:?}");
    };
    let (one, other) = (place(twice), format!("localhost:{}", twice.port()));
    let url = format!(
        "redlock://{one},{other},{}?restart_delay=off&timeout=2s",
        place(once)
    );
    let found = only(&url, "independence").await;
    assert_eq!(found.verdict, Verdict::Problem);
    let said = format!("{one} and {other} are the same server, with 2 votes");
    assert!(found.found.starts_with(&said), "{found:?}");
    let machines = only(&url, "machines").await;
    assert!(machines.found.contains(&other), "{machines:?}");
}

#[tokio::test]
async fn a_replica_among_the_nodes_is_found() {
    let mut nodes = start(2, Persistence::AofAlways);
    let replica = RedisServer::builder().replica_of(nodes.0[0].port());
    let replica = replica.persistence(Persistence::AofAlways).start().unwrap();
    replica.wait_until_linked().unwrap();
    let said = format!(
        "{} is a replica of {}, which is a node too: it cannot vote",
        place(&replica),
        place(&nodes.0[0])
    );
    nodes.0.push(replica);
    let found = only(&nodes.url(), "independence").await;
    assert_eq!((found.verdict, found.found), (Verdict::Problem, said));
    assert!(find(&nodes.url(), "majority").await.is_empty());
    // The master recognizes it as a replica a little later.
    let give_up = Instant::now() + Duration::from_secs(20);
    while find(&nodes.url(), "replicas").await.is_empty() {
        assert!(Instant::now() < give_up, "the replica is not in step");
    }
    let warned = only(&nodes.url(), "replicas").await;
    assert_eq!(warned.verdict, Verdict::Warning);
    assert!(warned.found.starts_with(&place(&nodes.0[0])), "{warned:?}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_found() {
    let cluster = RedisCluster::start(1, 0).unwrap();
    let nodes = start(2, Persistence::AofAlways);
    let member = place(cluster.server(0));
    let url = nodes
        .url()
        .replace("redlock://", &format!("redlock://{member},"));
    let found = only(&url, "independence").await;
    assert_eq!(found.verdict, Verdict::Problem);
    assert!(
        found
            .found
            .starts_with(&format!("{member} is in a cluster")),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_node_that_is_away_is_named_while_any_is_there() {
    let mut nodes = start(3, Persistence::AofAlways);
    nodes.0[1].kill().unwrap();
    let gone = place(&nodes.0[1]);
    let found = find(&nodes.url(), "nodes").await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[1].verdict, Verdict::Problem);
    assert!(found[1].found.contains(&gone), "{found:?}");
    assert!(find(&nodes.url(), "majority").await.is_empty());
    nodes.0[0].kill().unwrap();
    let lost = only(&nodes.url(), "majority").await;
    assert_eq!(
        (lost.verdict, lost.found.as_str()),
        (
            Verdict::Problem,
            "1 of 3 nodes can vote, 2 are needed: no lock can be taken"
        )
    );
    nodes.0[2].kill().unwrap();
    let none = tenure::doctor(&nodes.url()).await;
    assert!(matches!(none, Err(Error::Unavailable { .. })), "{none:?}");
}

#[tokio::test]
async fn a_node_that_hangs_is_away() {
    let nodes = start(3, Persistence::AofAlways);
    nodes.0[2].freeze().unwrap();
    let url = nodes.url_with("restart_delay=off&timeout=500ms&connect_timeout=500ms");
    let found = find(&url, "nodes").await;
    assert!(found[1].found.contains(&place(&nodes.0[2])), "{found:?}");
}

#[tokio::test]
async fn what_was_not_heard_is_no_pass() {
    let mut nodes = start(3, Persistence::AofAlways);
    let heard = place(&nodes.0[0]);
    nodes.0[1].kill().unwrap();
    nodes.0[2].freeze().unwrap();
    let url = nodes.url_with("restart_delay=off&timeout=2s&connect_timeout=2s");
    let found = tenure::doctor(&url).await.unwrap();
    let of = |check: &str| {
        let of: Vec<_> = found.iter().filter(|found| found.check == check).collect();
        assert_eq!(of.len(), 1, "{check}: {found:#?}");
        of[0]
    };
    let away = format!("{}, {}", place(&nodes.0[1]), place(&nodes.0[2]));
    for check in ["independence", "clock"] {
        assert_eq!(of(check).verdict, Verdict::Unknown, "{found:#?}");
        let said = format!("not checked: {away} did not answer");
        assert_eq!(of(check).found, said);
    }
    for check in ["version", "eviction", "persistence", "rights"] {
        let said = format!("{heard}: ");
        assert!(of(check).found.starts_with(&said), "{found:#?}");
    }
}

#[tokio::test]
async fn a_node_that_forgets_needs_the_delay() {
    let nodes = start(3, Persistence::None);
    let found = only(&nodes.url(), "persistence").await;
    assert_eq!(found.verdict, Verdict::Problem);
    assert!(
        found
            .found
            .contains("with restart_delay=off it votes again"),
        "{found:?}"
    );
    let protected = only(&nodes.url_with("restart_delay=2m"), "persistence").await;
    assert_eq!(protected.verdict, Verdict::Fine);
    assert!(
        protected.found.contains("does not count for 120s"),
        "{protected:?}"
    );
}

#[tokio::test]
async fn a_user_with_the_least_rights_is_told_of_nodes_that_forget() {
    let cases = [
        (Persistence::None, Verdict::Problem),
        (Persistence::AofAlways, Verdict::Unknown),
    ];
    for (persistence, verdict) in cases {
        let nodes = start(1, persistence);
        let rule = only(&nodes.url(), "rights").await.advice.unwrap();
        let rule: Vec<_> = rule.split(' ').skip_while(|word| *word != "ACL").collect();
        assert_eq!(nodes.0[0].cli(&rule), "OK");
        let node = format!("tenure:PASSWORD@{}", place(&nodes.0[0]));
        let url = |delay: &str| format!("redlock://{node}?timeout=2s&restart_delay={delay}");
        let found = only(&url("off"), "persistence").await;
        assert_eq!(found.verdict, verdict, "{found:?}");
        let advice = found.advice.unwrap();
        assert!(advice.contains("leave restart_delay=off out"), "{advice}");
        let protected = only(&url("2m"), "persistence").await;
        assert_eq!(protected.verdict, Verdict::Fine, "{protected:?}");
    }
}

#[tokio::test]
async fn a_young_node_is_named_with_the_time_until_it_counts() {
    let mut nodes = start(3, Persistence::AofAlways);
    let all_young = nodes.url_with("restart_delay=1h");
    assert_eq!(only(&all_young, "majority").await.verdict, Verdict::Problem);
    grow_up(&nodes, 6).await;
    nodes.0[2].kill().unwrap();
    nodes.0[2].start_again().unwrap();
    let grown_up = nodes.url_with("restart_delay=6s");
    let found = find(&grown_up, "restarts").await;
    let young = format!("{}: the node started ", place(&nodes.0[2]));
    let [refused, young] = [
        &found[0],
        found
            .iter()
            .find(|found| found.found.starts_with(&young))
            .unwrap(),
    ];
    assert_eq!(young.verdict, Verdict::Warning);
    assert!(young.found.contains(" s ago and counts in "), "{young:?}");
    assert!(refused.found.contains("usual ttl of 30s"), "{refused:?}");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(find(&grown_up, "majority").await.is_empty());
}

#[tokio::test]
async fn a_user_without_info_can_neither_vote_nor_show() {
    for by_trial in ["-acl", "+acl"] {
        let user = format!("ann on >{PASSWORD} ~* &* +@all -info {by_trial}");
        let start = || RedisServer::builder().user(&user).start().unwrap();
        let servers = [start(), start(), start()];
        let nodes: Vec<_> = servers
            .iter()
            .map(|server| format!("ann:{PASSWORD}@{}", place(server)))
            .collect();
        let url = format!("redlock://{}?timeout=2s", nodes.join(","));
        let lacks = only(&url, "rights").await;
        assert_eq!(lacks.verdict, Verdict::Problem);
        assert_eq!(lacks.found, "the user lacks the right to info");
        let line = lacks.advice.unwrap();
        assert!(
            line.contains(" +info ") && line.contains(" +get ") && !line.contains("numsub"),
            "{line}"
        );
        assert!(!line.contains(PASSWORD), "{line}");
        for check in ["version", "independence", "restarts"] {
            let found = only(&url, check).await;
            assert_eq!(found.verdict, Verdict::Unknown, "{found:?}");
        }
        let refused = tenure::open(&url).await;
        assert!(
            matches!(refused, Err(Error::Unavailable { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn what_one_node_has_wrong_is_said_with_its_place() {
    let nodes = start(3, Persistence::AofAlways);
    let evicts = &nodes.0[1];
    evicts.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    evicts.cli(&["CONFIG", "SET", "maxmemory", "1gb"]);
    let found = find(&nodes.url(), "eviction").await;
    let problem = found
        .iter()
        .find(|found| found.verdict == Verdict::Problem)
        .unwrap();
    let said = format!("{}: the server evicts locks", place(evicts));
    assert!(problem.found.starts_with(&said), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
}

const PASSWORD: &str = "hunter2";
