//! What a program leaves behind when its runtime ends.

use tenure::Client;
use tokio::runtime::{Builder, Runtime};

use crate::Server;
use crate::databases::{LONG, entry, open, until_free, until_waiting, waiter};

fn runtimes() -> [Runtime; 2] {
    let mut several = Builder::new_multi_thread();
    let several = several.worker_threads(2).enable_all().build();
    [one_thread(), several.unwrap()]
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn is_free(url: &str, name: &str) -> bool {
    one_thread().block_on(async {
        let entry = entry(&open(url).await, name).await;
        entry.holders.is_empty() && entry.waiters.is_empty()
    })
}

#[test]
fn a_guard_dropped_at_the_end_of_main_leaves_nothing() {
    let server = Server::start().unwrap();
    for runtime in runtimes() {
        runtime.block_on(async {
            let client = open(&server.url()).await;
            let _guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        });
        drop(runtime);
        assert!(is_free(&server.url(), "a"));
    }
}

#[test]
fn a_guard_that_outlives_its_runtime_leaves_nothing() {
    let server = Server::start().unwrap();
    for runtime in runtimes() {
        let (client, guard) = runtime.block_on(async {
            let client = open(&server.url()).await;
            let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
            (client, guard)
        });
        drop(runtime);
        drop(guard);
        drop::<Client>(client);
        assert!(is_free(&server.url(), "a"));
    }
}

#[test]
fn a_waiter_leaves_nothing_when_its_runtime_ends() {
    let server = Server::start().unwrap();
    let holder = one_thread();
    let (client, guard) = holder.block_on(async {
        let client = open(&server.url()).await;
        let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        (client, guard)
    });
    for runtime in runtimes() {
        runtime.block_on(async {
            let waits = open(&server.url()).await;
            let _waiting = waiter(&waits, "a", LONG);
            until_waiting(&open(&server.url()).await, "a", 1).await;
        });
        drop(runtime);
        holder.block_on(until_waiting(&client, "a", 0));
    }
    holder.block_on(async {
        guard.release().await.unwrap();
        until_free(&client, "a").await;
    });
}
