//! Names of every kind, and many of them.

use tenure::{Client, Outcome};
use tokio::task::JoinSet;

use crate::Server;
use crate::databases::{LONG, entry, got, millis, open, until, until_waiting, waiter, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_names() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let names = [
        "n".repeat(255),
        "🔒".repeat(63),
        "a".into(),
        "a ".into(),
        "a  ".into(),
        "A".into(),
        "á".into(),
        "a\u{301}".into(),
        "%".into(),
        "_".into(),
        "a%b_c".into(),
        "it's".into(),
        "'; DROP TABLE tenure_lock; --".into(),
        "\"quoted\"".into(),
        "back\\slash\\".into(),
        "back\\'slash".into(),
        "$1 ? {table}".into(),
        "`tick`".into(),
        "ß".into(),
        "ss".into(),
    ];
    let mut held = Vec::new();
    for name in &names {
        let guard = ann.mutex(name).ttl(LONG).try_lock().await.unwrap();
        held.push(guard.unwrap_or_else(|| panic!("{name:?} is taken")));
    }
    for (name, guard) in names.iter().zip(held) {
        let waiting = waiter(&bob, name, LONG);
        until_waiting(&ann, name, 1).await;
        assert_eq!(entry(&ann, name).await.holders[0].fence, guard.fence());
        let fence = guard.fence();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        let next = got(waiting).await;
        assert!(fence < next.fence());
        assert_eq!(next.release().await.unwrap(), Outcome::Released);
    }
    assert!(ann.list(None).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_used_once_are_swept_and_fences_grow_all_the_same() {
    let server = Server::start().unwrap();
    let client = open(&with(&server.url(), "fence_memory=1s")).await;
    let first = client.mutex("first").lock().await.unwrap();
    let older = first.fence();
    first.release().await.unwrap();
    let held = client.mutex("held").ttl(LONG).lock().await.unwrap();
    let rows = || -> usize {
        let rows = server.sql("SELECT count(*) FROM tenure_lock");
        rows.parse().unwrap()
    };
    let mut used = 2;
    until("rows to be swept", async || {
        use_once(&client, used, 300).await;
        used += 300;
        rows() < used / 2
    })
    .await;
    println!("{} of {used} rows are left", rows());
    assert_eq!(entry(&client, "held").await.holders[0].fence, held.fence());
    let next = client.mutex("first").lock().await.unwrap();
    assert!(older < next.fence());
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
}

async fn use_once(client: &Client, from: usize, count: usize) {
    let mut tasks = JoinSet::new();
    for number in from..from + count {
        let lock = client.mutex(&format!("once {number}")).ttl(millis(30_000));
        tasks.spawn(async move {
            let guard = lock.lock().await.unwrap();
            guard.release().await.unwrap();
        });
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_made_by_many_clients_at_once() {
    let server = Server::start().unwrap();
    for prefix in ["one_", "two_", "three_"] {
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let url = with(&server.url(), &format!("prefix={prefix}"));
            tasks.spawn(async move { open(&url).await });
        }
        let clients = tasks.join_all().await;
        let mut guards = Vec::new();
        for client in &clients {
            guards.extend(client.mutex("a").ttl(LONG).try_lock().await.unwrap());
        }
        assert_eq!(guards.len(), 1, "all of them have the same table");
    }
}
