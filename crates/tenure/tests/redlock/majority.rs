//! A majority of the nodes is away: no grant, a clear error in time, and nothing left behind.

use tenure::{Client, Error, Health, Loss, Outcome};
use tokio::time::timeout;

use crate::nodes::Nodes;
use crate::{
    LONG, PATIENCE, SHORT, chain, is_held, millis, open, until, until_waiting,
    until_waiting_or_granted,
};

/// Asks in all ways, and checks that it is refused in time with the names of the missing nodes.
async fn refused(client: &Client, nodes: &Nodes, away: &[usize]) {
    let lock = client.mutex("refused").ttl(LONG);
    let tried = timeout(PATIENCE, lock.try_lock()).await.unwrap();
    let tried = tried.map(|granted| granted.map(drop)).unwrap_err();
    let locked = timeout(PATIENCE, lock.lock()).await.unwrap().unwrap_err();
    let waited = lock.lock_timeout(PATIENCE).await.unwrap_err();
    for error in [tried, locked, waited] {
        let text = chain(&error);
        let is_outage = matches!(
            error,
            Error::Unavailable { .. } | Error::Indeterminate { .. }
        );
        assert!(is_outage, "{error:?}");
        let count = nodes.0.len();
        let (up, needed) = (count - away.len(), count / 2 + 1);
        let counts = format!("{up} of {count} nodes can vote, {needed} are needed");
        assert!(text.contains(&counts), "{text}");
        for (node, server) in nodes.0.iter().enumerate() {
            let place = format!("127.0.0.1:{}", server.port());
            assert_eq!(text.contains(&place), away.contains(&node), "{text}");
        }
        assert!(!text.contains('\n'), "{text}");
    }
    let here = (0..nodes.0.len()).filter(|node| !away.contains(node));
    nodes.until_empty_but(here, "").await;
}

async fn grants_again(client: &Client, name: &str) {
    until("a grant", async || {
        match client.mutex(name).try_lock().await {
            Ok(Some(guard)) => guard.release().await.unwrap() == Outcome::Released,
            Ok(None) | Err(_) => false,
        }
    })
    .await;
}

#[tokio::test]
async fn with_two_of_three_killed_nothing_is_granted() {
    let mut nodes = Nodes::start(3);
    let client = open(&nodes.url()).await;
    grants_again(&client, "a").await;
    nodes.0[0].kill().unwrap();
    nodes.0[2].kill().unwrap();
    refused(&client, &nodes, &[0, 2]).await;
    nodes.0[2].start_again().unwrap();
    grants_again(&client, "a").await;
    nodes.0[0].start_again().unwrap();
    grants_again(&client, "refused").await;
    nodes.until_all_empty().await;
}

#[tokio::test]
async fn with_three_of_five_killed_nothing_is_granted() {
    let mut nodes = Nodes::start(5);
    let client = open(&nodes.url()).await;
    grants_again(&client, "a").await;
    for node in 0..3 {
        nodes.0[node].kill().unwrap();
    }
    refused(&client, &nodes, &[0, 1, 2]).await;
    nodes.0[1].start_again().unwrap();
    grants_again(&client, "refused").await;
}

#[tokio::test]
async fn with_half_of_four_killed_nothing_is_granted() {
    let mut nodes = Nodes::start(4);
    let client = open(&nodes.url()).await;
    grants_again(&client, "a").await;
    nodes.0[0].kill().unwrap();
    grants_again(&client, "a").await;
    nodes.0[1].kill().unwrap();
    refused(&client, &nodes, &[0, 1]).await;
    nodes.0[1].start_again().unwrap();
    grants_again(&client, "refused").await;
}

#[tokio::test]
async fn with_two_of_three_frozen_nothing_is_granted() {
    let nodes = Nodes::start(3);
    let client = open(&nodes.url_with("restart_delay=off&timeout=300ms")).await;
    grants_again(&client, "a").await;
    nodes.0[0].freeze().unwrap();
    nodes.0[1].freeze().unwrap();
    refused(&client, &nodes, &[0, 1]).await;
    nodes.0[0].thaw().unwrap();
    nodes.0[1].thaw().unwrap();
    nodes.until_all_empty().await;
    grants_again(&client, "refused").await;
}

/// Waiting for the nodes would take longer than the test lasts.
#[tokio::test]
async fn the_callers_time_is_kept_while_nodes_are_frozen() {
    let nodes = Nodes::start(3);
    let client = open(&nodes.url_with("restart_delay=off&timeout=1h&connect_timeout=1h")).await;
    grants_again(&client, "a").await;
    nodes.0[0].freeze().unwrap();
    nodes.0[1].freeze().unwrap();
    let locked = client.mutex("a").ttl(LONG).lock_timeout(millis(300)).await;
    assert!(
        matches!(locked, Err(Error::Indeterminate { .. })),
        "{:?}",
        locked.map(drop)
    );
    nodes.0[0].thaw().unwrap();
    nodes.0[1].thaw().unwrap();
    nodes.until_all_empty().await;
    grants_again(&client, "a").await;
}

#[tokio::test]
async fn a_holder_without_a_majority_is_told_and_others_go_on_later() {
    let mut nodes = Nodes::start(3);
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    let hers = ann.mutex("a").ttl(SHORT).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting_or_granted(&ann, "a", &waiting).await;
    nodes.0[0].freeze().unwrap();
    nodes.0[1].freeze().unwrap();
    let loss = timeout(PATIENCE, hers.lost()).await.unwrap();
    assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss}");
    assert!(!is_held(&hers));
    nodes.0[0].thaw().unwrap();
    nodes.0[1].thaw().unwrap();
    let his = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert!(hers.fence() < his.fence());
    assert_eq!(his.health(), Health::Held);
    assert!(matches!(hers.release().await.unwrap(), Outcome::NotHeld(_)));
    assert!(is_held(&his));
    his.release().await.unwrap();
    nodes.0[0].start_again().unwrap();
    nodes.until_all_empty().await;
}

/// A waiter survives an outage that is shorter than its ttl.
#[tokio::test]
async fn a_waiter_keeps_its_place_while_a_majority_is_away_for_a_moment() {
    let nodes = Nodes::start(3);
    let (ann, bob) = (open(&nodes.url()).await, open(&nodes.url()).await);
    let hers = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&ann, "a", 1).await;
    for server in &nodes.0 {
        assert_ne!(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]), "0");
    }
    nodes.0[0].freeze().unwrap();
    nodes.0[1].freeze().unwrap();
    tokio::time::sleep(SHORT).await;
    nodes.0[0].thaw().unwrap();
    nodes.0[1].thaw().unwrap();
    until_waiting(&ann, "a", 1).await;
    assert_eq!(hers.release().await.unwrap(), Outcome::Released);
    let his = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    his.release().await.unwrap();
    nodes.until_all_empty().await;
}
