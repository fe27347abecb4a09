//! What `tenure doctor` finds on real servers.

use std::time::{Duration, Instant};

use tenure::{Error, Finding, Verdict};
use tenure_testkit::{Persistence, RedisCluster, RedisSentinel, RedisServer};

/// Returns the findings of one check.
async fn find(url: &str, check: &str) -> Vec<Finding> {
    let mut found = tenure::doctor(url).await.unwrap();
    for finding in &found {
        let said = format!("{finding:?}");
        assert!(!said.contains(PASSWORD), "{said}");
    }
    found.retain(|finding| finding.check == check);
    found
}

async fn verdict(url: &str, check: &str) -> Verdict {
    match &find(url, check).await[..] {
        [finding] => finding.verdict,
        other => panic!("{check}: {other:?}"),
    }
}

#[tokio::test]
async fn eviction_is_found() {
    let server = RedisServer::builder().max_memory("64mb", "volatile-lru");
    let server = server.start().unwrap();
    assert_eq!(verdict(&server.url(), "eviction").await, Verdict::Problem);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(verdict(&server.url(), "eviction").await, Verdict::Warning);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(verdict(&server.url(), "eviction").await, Verdict::Fine);
}

#[tokio::test]
async fn what_a_restart_forgets_is_found() {
    let cases = [
        (Persistence::None, Verdict::Problem),
        (Persistence::AofEverySecond, Verdict::Warning),
        (Persistence::AofAlways, Verdict::Fine),
    ];
    for (persistence, expected) in cases {
        let server = RedisServer::builder()
            .persistence(persistence)
            .start()
            .unwrap();
        assert_eq!(verdict(&server.url(), "persistence").await, expected);
    }
    let server = RedisServer::builder()
        .config("save 3600 1")
        .start()
        .unwrap();
    assert_eq!(
        verdict(&server.url(), "persistence").await,
        Verdict::Warning
    );
}

#[tokio::test]
async fn replicas_are_counted_against_the_url() {
    let server = RedisServer::start().unwrap();
    let url = |k: u32| format!("{}?replicas={k}", server.url());
    assert_eq!(verdict(&server.url(), "replicas").await, Verdict::Warning);
    assert_eq!(verdict(&url(1), "replicas").await, Verdict::Problem);
    assert!(find(&server.url(), "cut-off").await.is_empty());
    let replica = RedisServer::builder()
        .replica_of(server.port())
        .start()
        .unwrap();
    replica.wait_until_linked().unwrap();
    // The master recognizes it as a replica a little later.
    let give_up = Instant::now() + Duration::from_secs(20);
    while !server
        .cli(&["INFO", "replication"])
        .contains("state=online")
    {
        assert!(Instant::now() < give_up, "the replica is not in step");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(verdict(&url(1), "replicas").await, Verdict::Fine);
    assert_eq!(verdict(&url(2), "replicas").await, Verdict::Problem);
    let asynchronous = find(&server.url(), "replicas").await;
    assert!(
        asynchronous[0].found.contains("asynchronously"),
        "{asynchronous:?}"
    );
    assert_eq!(verdict(&replica.url(), "replicas").await, Verdict::Problem);
    assert_eq!(verdict(&url(1), "cut-off").await, Verdict::Warning);
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(verdict(&url(1), "cut-off").await, Verdict::Fine);
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "2"]);
    assert_eq!(verdict(&url(1), "cut-off").await, Verdict::Problem);
}

#[tokio::test]
async fn what_a_user_may_not_see_is_unknown_and_no_pass() {
    let user = format!("ann on >{PASSWORD} ~* &* +@all -info -config -wait -time");
    let server = RedisServer::builder().user(&user).start().unwrap();
    let url = server.url_as("ann", PASSWORD);
    for check in ["version", "eviction", "persistence", "replicas", "clock"] {
        let found = find(&url, check).await;
        assert_eq!(found[0].verdict, Verdict::Unknown, "{found:?}");
        assert!(found[0].found.contains("not checked"), "{found:?}");
    }
    let lacks = find(&url, "rights").await;
    assert_eq!(lacks[0].found, "the user lacks the right to time");
    let confirmed = find(&format!("{url}?replicas=1"), "replicas").await;
    assert!(confirmed[0].found.contains("WAIT"), "{confirmed:?}");
}

#[tokio::test]
async fn info_stands_in_for_settings_that_a_service_hides() {
    let user = format!("ann on >{PASSWORD} ~* &* +@all -config");
    let server = RedisServer::builder()
        .max_memory("64mb", "allkeys-lru")
        .user(&user);
    let server = server.start().unwrap();
    let url = server.url_as("ann", PASSWORD);
    assert_eq!(verdict(&url, "eviction").await, Verdict::Problem);
    assert_eq!(verdict(&url, "persistence").await, Verdict::Unknown);
}

#[tokio::test]
async fn missing_keys_and_channels_are_told_apart() {
    for by_trial in ["-acl", "+acl"] {
        let user = format!("ann on >{PASSWORD} ~other:* &other:* +@all {by_trial}");
        let server = RedisServer::builder().user(&user).start().unwrap();
        let url = server.url_as("ann", PASSWORD);
        let lacks = find(&url, "rights").await;
        assert_eq!(lacks[0].verdict, Verdict::Problem);
        let told = lacks[0]
            .found
            .starts_with("the user lacks the keys and the channels");
        assert!(told, "{lacks:?}");
        assert_eq!(
            verdict(&format!("{url}?prefix=other:"), "rights").await,
            Verdict::Fine
        );
        let string = format!("{url}?layout=string&prefix=other:");
        assert_eq!(
            verdict(&string, "rights").await,
            Verdict::Problem,
            "the fence has another key"
        );
    }
}

#[tokio::test]
async fn trying_out_leaves_nothing_behind() {
    let user = format!("ann on >{PASSWORD} ~* &* +@all -acl -del -pexpire");
    let server = RedisServer::builder().user(&user).start().unwrap();
    let url = server.url_as("ann", PASSWORD);
    find(&url, "rights").await;
    let keys = server.cli(&["KEYS", "*"]);
    for key in keys.lines() {
        let left: i64 = server.cli(&["PTTL", key]).parse().unwrap();
        assert!(left != -1 && left <= 1000, "{key} stays for {left} ms");
    }
    let user = format!("bob on >{PASSWORD} ~* &* +@all -acl -set");
    let user: Vec<_> = user.split(' ').collect();
    server.cli(&[&["ACL", "SETUSER"], &user[..]].concat());
    server.cli(&["FLUSHALL"]);
    let lacks = find(&server.url_as("bob", PASSWORD), "rights").await;
    let found = "the user lacks the right to set; not tried: rpush";
    assert_eq!(lacks[0].found, found);
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

#[tokio::test]
async fn the_string_layout_says_how_it_compares() {
    let server = RedisServer::builder().unix_socket().start().unwrap();
    let socket = server.socket().unwrap();
    let url = |options: &str| format!("unix:{}?layout=string{options}", socket.display());
    let by_script = find(&url(""), "layout").await;
    assert!(by_script[0].found.ends_with("by a script"), "{by_script:?}");
    let by_watch = find(&url("&scripts=off"), "layout").await;
    assert!(
        by_watch[0].found.ends_with("by WATCH and MULTI"),
        "{by_watch:?}"
    );
    assert_eq!(
        verdict(&url("&fences=off"), "layout").await,
        Verdict::Warning
    );
    assert_eq!(verdict(&url(""), "news").await, Verdict::Fine);
}

#[tokio::test]
async fn a_cluster_is_looked_at_as_a_whole() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.server(0).port());
    let alone = find(&url, "cluster").await;
    assert_eq!(alone[0].verdict, Verdict::Warning, "{alone:?}");
    assert_eq!(verdict(&url, "failover").await, Verdict::Fine);
    assert_eq!(verdict(&url, "clock").await, Verdict::Fine);
    // Only one of them evicts, and the finding names that one.
    let server = cluster.server(1);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1gb"]);
    let evicts = find(&url, "eviction").await;
    let problems: Vec<_> = evicts
        .iter()
        .filter(|found| found.verdict == Verdict::Problem)
        .collect();
    let place = format!("127.0.0.1:{}: ", server.port());
    assert!(
        problems.len() == 1 && problems[0].found.starts_with(&place),
        "{evicts:?}"
    );
}

#[tokio::test]
async fn a_cluster_with_a_hole_is_a_problem() {
    let cluster = RedisCluster::start(1, 1).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.server(0).port());
    // A replica that has no data yet is not in the map.
    cluster.server(0).cli(&["SET", "a", "1"]);
    let give_up = Instant::now() + Duration::from_secs(20);
    while verdict(&url, "cluster").await != Verdict::Fine {
        assert!(Instant::now() < give_up, "the replica is not found");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.server(0).cli(&["CLUSTER", "DELSLOTS", "7"]);
    let hole = find(&url, "cluster").await;
    assert!(hole[0].found.starts_with("1 of 16384 slots"), "{hole:?}");
    assert_eq!(hole[0].verdict, Verdict::Problem);
}

#[tokio::test]
async fn sentinels_without_a_quorum_are_a_problem() {
    let mut all = RedisSentinel::start().unwrap();
    let ports = all.sentinel_ports();
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let url = |hosts: &[String]| {
        format!(
            "redis+sentinel://{}/{}",
            hosts.join(","),
            RedisSentinel::MASTER
        )
    };
    assert_eq!(verdict(&url(&hosts), "sentinels").await, Verdict::Fine);
    assert_eq!(verdict(&url(&hosts), "failover").await, Verdict::Fine);
    assert_eq!(verdict(&url(&hosts), "clock").await, Verdict::Fine);
    assert_eq!(
        verdict(&url(&hosts[..1]), "sentinels").await,
        Verdict::Warning
    );
    for sentinel in &mut all.sentinels_mut()[1..] {
        sentinel.kill().unwrap();
    }
    let name = RedisSentinel::MASTER;
    let give_up = Instant::now() + Duration::from_secs(20);
    let quorum = ["SENTINEL", "CKQUORUM", name];
    while all.sentinels()[0].command(&quorum).is_ok() {
        assert!(Instant::now() < give_up, "the quorum is not lost");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let lost = find(&url(&hosts), "sentinels").await;
    let verdicts: Vec<_> = lost.iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Warning, Verdict::Problem], "{lost:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error() {
    let mut server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let gone = tenure::doctor(&server.url()).await;
    assert!(matches!(gone, Err(Error::Unavailable { .. })), "{gone:?}");
    let cluster = format!("redis+cluster://127.0.0.1:{}", server.port());
    let gone = tenure::doctor(&cluster).await;
    assert!(matches!(gone, Err(Error::Unavailable { .. })), "{gone:?}");
}

#[tokio::test]
async fn a_server_that_hangs_is_an_error_and_not_a_long_wait() {
    let server = RedisServer::start().unwrap();
    server.freeze().unwrap();
    let url = format!("{}?timeout=100ms&connect_timeout=100ms", server.url());
    let silent = tenure::doctor(&url).await;
    assert!(
        matches!(silent, Err(Error::Unavailable { .. })),
        "{silent:?}"
    );
}

const PASSWORD: &str = "hunter2";
