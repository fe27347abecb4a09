//! K1 and K2: a real process that is stopped past its lease, and the resource that refuses it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tenure::{Client, Error, Guard, Outcome};
use tenure_testkit::Parent;

use crate::nodes::Nodes;
use crate::resource::Resource;
use crate::worker::{Worker, answer};
use crate::{PATIENCE, millis, open};

/// Opens the store and follows commands: a verb, a name and optionally a ttl in milliseconds.
pub(crate) async fn hand(url: PathBuf, mut commands: Parent) {
    let client = open(url.to_str().unwrap()).await;
    answer("ready");
    let mut guards = BTreeMap::new();
    while let Ok(order) = commands.next::<String>().await {
        let done = obey(&client, &mut guards, &order).await;
        answer(&done.unwrap_or_else(|error| format!("error {error:?}")));
    }
}

async fn obey(
    client: &Client,
    guards: &mut BTreeMap<String, Guard>,
    order: &str,
) -> Result<String, Error> {
    let words: Vec<&str> = order.split(' ').collect();
    Ok(match words[..] {
        ["lock", name, ttl_ms] => {
            let ttl = millis(ttl_ms.parse().unwrap());
            let guard = client.mutex(name).ttl(ttl).lock().await?;
            let fence = guard.fence();
            guards.insert(name.to_owned(), guard);
            format!("granted {fence}")
        }
        ["release", name] => format!("{:?}", guards.remove(name).unwrap().release().await?),
        ["health", name] => format!("{:?}", guards[name].health()),
        _ => panic!("unknown order {order:?}"),
    })
}

async fn start(nodes: &Nodes) -> Worker {
    Worker::hand(Path::new(&nodes.url())).await
}

#[tokio::test]
async fn a_stopped_holder_is_fenced_off_and_knows_when_it_goes_on() {
    let nodes = Nodes::start(3);
    let client = open(&nodes.url()).await;
    let resource = Resource::default();
    let mut ann = start(&nodes).await;
    let hers = ann.granted("lock a 1000").await;
    let base = resource.read(hers).unwrap();
    ann.stop();
    let guard = client.mutex("a").lock_timeout(PATIENCE).await.unwrap();
    let his = guard.fence().get();
    assert!(hers < his);
    assert!(resource.write(his, resource.read(his).unwrap()));
    ann.go_on();
    let health = ann.ask("health a").await;
    assert!(health.starts_with("Lost"), "{health}");
    assert!(!resource.write(hers, base), "an old fence is refused");
    assert_eq!((resource.value(), resource.largest()), (1, his));
    let released = ann.ask("release a").await;
    assert!(released.starts_with("NotHeld"), "{released}");
    nodes.until_all_have("a", his).await;
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    nodes.until_all_empty().await;
}

#[tokio::test]
async fn a_holder_that_goes_on_after_all_is_over_revives_nothing() {
    let nodes = Nodes::start(3);
    let mut ann = start(&nodes).await;
    ann.granted("lock a 500").await;
    ann.stop();
    // Its lease expires.
    nodes.until_all_empty().await;
    ann.go_on();
    let health = ann.ask("health a").await;
    assert!(health.starts_with("Lost"), "{health}");
    for _ in 0..50 {
        let taken = (0..3).filter(|node| nodes.is_taken(*node, "a")).count();
        // It may have been stopped between a check of its clock and a request to one node, which it
        // then undoes.
        assert!(taken < 2, "{taken} nodes have it again");
        tokio::time::sleep(millis(10)).await;
    }
    nodes.until_all_empty().await;
}

#[tokio::test]
async fn the_lock_of_a_killed_holder_is_free_after_its_ttl() {
    let nodes = Nodes::start(3);
    let client = open(&nodes.url()).await;
    let mut ann = start(&nodes).await;
    let hers = ann.granted("lock a 1500").await;
    let waiting = client.mutex("a");
    let waiting = tokio::spawn(async move { waiting.lock_timeout(PATIENCE).await });
    crate::until_waiting_or_granted(&client, "a", &waiting).await;
    ann.kill();
    let his = waiting.await.unwrap().unwrap();
    assert!(hers < his.fence().get());
    his.release().await.unwrap();
    nodes.until_all_empty().await;
}
