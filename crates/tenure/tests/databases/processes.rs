//! Real processes that are killed or stopped while they hold a lock or wait for one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tenure::{Client, Error, Guard};
use tenure_testkit::Parent;
use tokio::time::timeout;

use crate::databases::{
    LONG, PATIENCE, entry, got, millis, open, until, until_waiting, waiter, with,
};
use crate::worker::{Worker, answer};
use crate::{Server, dialect};

/// Opens the store and obeys: a verb, a name and maybe a ttl in milliseconds.
pub(crate) async fn hand(url: PathBuf, mut commands: Parent) {
    let client = tenure::open(url.to_str().unwrap()).await.unwrap();
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

async fn start(server: &Server) -> Worker {
    Worker::hand(Path::new(&quick(server))).await
}

/// For clients whose hand-overs last for a short while at first: thrice the timeout, and 5 s at least.
fn quick(server: &Server) -> String {
    with(&server.url(), "timeout=1600ms&connect_timeout=20s")
}

async fn giver(server: &Server) -> Client {
    tenure::open(&quick(server)).await.unwrap()
}

#[tokio::test]
async fn a_stopped_holder_is_fenced_off_and_knows_when_it_goes_on() {
    let server = Server::start().unwrap();
    let client = open(&server.url()).await;
    let mut ann = start(&server).await;
    let hers = ann.granted("lock a 1000").await;
    ann.stop();
    let guard = client.mutex("a").lock_timeout(PATIENCE).await.unwrap();
    assert!(hers < guard.fence().get());
    ann.go_on();
    let health = ann.ask("health a").await;
    assert!(health.starts_with("Lost"), "{health}");
    let released = ann.ask("release a").await;
    assert!(released.starts_with("NotHeld"), "{released}");
    assert_eq!(guard.release().await.unwrap(), tenure::Outcome::Released);
}

#[tokio::test]
async fn killed_waiters_are_passed_over() {
    let server = Server::start().unwrap();
    let client = giver(&server).await;
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
        dialect::mailboxes(&server) == 2
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
    let server = Server::start().unwrap();
    let client = open(&server.url()).await;
    let mut ann = start(&server).await;
    let hers = ann.granted("lock a 2000").await;
    let waiting = waiter(&client, "a", LONG);
    ann.kill();
    let killed = Instant::now();
    let guard = got(waiting).await;
    println!("free {:?} after the kill", killed.elapsed());
    assert!(hers < guard.fence().get());
}

/// The grant reaches a process that is stopped, and then killed before it could take it in.
#[tokio::test]
async fn a_waiter_killed_right_after_its_grant_holds_others_up_for_a_short_lease() {
    let server = Server::start().unwrap();
    let client = giver(&server).await;
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    let (mut ann, mut bob) = (start(&server).await, start(&server).await);
    ann.tell("lock a 1000000");
    until_waiting(&client, "a", 1).await;
    bob.tell("lock a 1000000");
    until_waiting(&client, "a", 2).await;
    ann.stop();
    let released = Instant::now();
    guard.release().await.unwrap();
    let holders = entry(&client, "a").await.holders;
    // A machine that stood still for so long proves nothing.
    if released.elapsed() < millis(4000) {
        assert_eq!(holders[0].about.pid, ann.pid());
        assert!(holders[0].expires_in <= millis(5000));
    }
    ann.kill();
    bob.told_granted().await;
    println!("passed on after {:?}", released.elapsed());
}

#[tokio::test]
async fn a_client_that_is_dropped_while_it_waits_is_passed_over() {
    let server = Server::start().unwrap();
    let (ann, bob) = (giver(&server).await, open(&server.url()).await);
    let guard = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let dropped = open(&server.url()).await;
    let first = waiter(&dropped, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    let second = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 2).await;
    drop(dropped);
    first.abort();
    guard.release().await.unwrap();
    let next = timeout(PATIENCE, second).await.unwrap().unwrap().unwrap();
    assert_eq!(next.release().await.unwrap(), tenure::Outcome::Released);
}
