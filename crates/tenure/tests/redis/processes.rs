//! Real processes that are killed or stopped while they hold a lock or wait for one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tenure::{Client, Error, Guard, Outcome};
use tenure_testkit::{Parent, RedisServer};
use tokio::time::timeout;

use crate::resource::Resource;
use crate::worker::{Worker, answer};
use crate::{LONG, PATIENCE, entry, millis, open, until, until_waiting, until_waiting_or_granted};

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

async fn start(server: &RedisServer) -> Worker {
    Worker::hand(Path::new(&server.url())).await
}

#[tokio::test]
async fn a_stopped_holder_is_fenced_off_and_knows_when_it_goes_on() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    let resource = Resource::default();
    let mut ann = start(&server).await;
    let hers = ann.granted("lock a 500").await;
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
    assert_eq!(resource.value(), 1);
    let released = ann.ask("release a").await;
    assert!(released.starts_with("NotHeld"), "{released}");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_killed_waiter_is_passed_over_at_once() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    let mut line = Vec::new();
    for count in 1..=4 {
        let mut waiter = start(&server).await;
        waiter.tell("lock a 100000");
        until_waiting(&client, "a", count).await;
        line.push(waiter);
    }
    for killed in [0, 2] {
        line[killed].kill();
    }
    until("the server to see their end", async || {
        server.info("pubsub_channels").is_ok()
            && server
                .cli(&["PUBSUB", "CHANNELS", "tenure:inbox:*"])
                .lines()
                .count()
                == 3
    })
    .await;
    guard.release().await.unwrap();
    let first = line[1].told_granted().await;
    assert_eq!(line[1].ask("release a").await, "Released");
    let second = line[3].told_granted().await;
    assert!(first < second);
}

#[tokio::test]
async fn the_lock_of_a_killed_holder_is_free_after_its_ttl() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    let mut ann = start(&server).await;
    let hers = ann.granted("lock a 1500").await;
    let waiting = client.mutex("a");
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting_or_granted(&client, "a", &waiting).await;
    ann.kill();
    let killed = Instant::now();
    let guard = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    println!("free {:?} after the kill", killed.elapsed());
    assert!(hers < guard.fence().get());
}

/// The grant reaches a stopped process, which is then killed before it could read it.
#[tokio::test]
async fn a_waiter_killed_right_after_its_grant_holds_others_up_for_its_ttl() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let (mut ann, mut bob) = (start(&server).await, start(&server).await);
    ann.tell("lock a 1500");
    until_waiting(&client, "a", 1).await;
    bob.tell("lock a 1500");
    until_waiting(&client, "a", 2).await;
    ann.stop();
    let released = Instant::now();
    guard.release().await.unwrap();
    let holders = entry(&client, "a").await.holders;
    // A machine that stalled for this long proves nothing.
    if released.elapsed() < millis(1400) {
        assert_eq!(holders[0].about.pid, ann.pid());
    }
    ann.kill();
    bob.told_granted().await;
}
