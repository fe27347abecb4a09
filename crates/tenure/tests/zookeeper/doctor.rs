//! What the doctor finds.

use tenure::{Finding, Verdict};
use tenure_testkit::{ZooKeeperEnsemble, ZooKeeperServer};

use crate::common::with;

async fn find(url: &str, check: &str) -> Finding {
    let found = tenure::doctor(&with(url, "timeout=20s&connect_timeout=20s")).await;
    let found = found.unwrap().into_iter();
    let mut found = found.filter(|finding| finding.check == check);
    found
        .next()
        .unwrap_or_else(|| panic!("{check} was not checked"))
}

#[tokio::test]
async fn a_single_server_is_a_warning_and_the_rest_of_it_is_fine() {
    let server = ZooKeeperServer::builder().setting("4lw.commands.whitelist", "srvr, conf");
    let server = server.start().unwrap();
    let found = tenure::doctor(&with(&server.url(), "timeout=20s"))
        .await
        .unwrap();
    for finding in &found {
        let expected = match finding.check {
            "ensemble" => Verdict::Warning,
            _ => Verdict::Fine,
        };
        assert_eq!(finding.verdict, expected, "{finding:?}");
    }
    let checks: Vec<_> = found.iter().map(|finding| finding.check).collect();
    let all = [
        "servers",
        "ensemble",
        "version",
        "session",
        "tick",
        "connections",
        "rights",
        "clock",
        "lock",
    ];
    assert_eq!(checks, all);
}

#[tokio::test]
async fn what_the_servers_do_not_show_is_unknown() {
    let server = ZooKeeperServer::start().unwrap();
    for check in ["tick", "connections"] {
        assert_eq!(find(&server.url(), check).await.verdict, Verdict::Unknown);
    }
}

#[tokio::test]
async fn settings_that_endanger_locks_are_found() {
    let server = ZooKeeperServer::builder()
        .setting("4lw.commands.whitelist", "*")
        .setting("maxSessionTimeout", "10000")
        .setting("maxClientCnxns", "9")
        .setting("tickTime", "3000")
        .start()
        .unwrap();
    let url = server.url();
    assert_eq!(find(&url, "session").await.verdict, Verdict::Warning);
    let asked = find(&with(&url, "session=60s"), "session").await;
    assert_eq!(asked.verdict, Verdict::Problem);
    assert!(asked.found.contains("10s"), "{asked:?}");
    assert_eq!(find(&url, "connections").await.verdict, Verdict::Warning);
    assert_eq!(find(&url, "tick").await.verdict, Verdict::Warning);
    // A user without rights finds the locks of another.
    let closed = |url: String| url.replace("/tenure", "/closed");
    let ann = tenure::open(&closed(server.url_as("ann", "secret"))).await;
    drop(ann.unwrap());
    let rights = find(&closed(url), "rights").await;
    assert_eq!(rights.verdict, Verdict::Problem, "{rights:?}");
}

#[tokio::test]
async fn three_servers_are_fine_and_one_that_is_away_is_a_warning() {
    let mut servers = ZooKeeperEnsemble::start().unwrap();
    assert_eq!(
        find(&servers.url(), "ensemble").await.verdict,
        Verdict::Fine
    );
    assert_eq!(find(&servers.url(), "servers").await.verdict, Verdict::Fine);
    let one = ZooKeeperEnsemble::url_on(&[servers.servers()[0].port()]);
    let partial = find(&one, "ensemble").await;
    assert!(partial.found.contains("1 of 3"), "{partial:?}");
    let follower = servers.follower().unwrap();
    servers.servers_mut()[follower].kill().unwrap();
    assert_eq!(
        find(&servers.url(), "servers").await.verdict,
        Verdict::Warning
    );
}
