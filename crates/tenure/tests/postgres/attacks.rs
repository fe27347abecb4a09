//! What once broke the store: connections that are abandoned, roles, poolers, rows that somebody keeps locked.

use std::time::{Duration, Instant};

use tenure::Health;
use tenure_testkit::{Fault, PgBouncer, PoolMode, PostgresServer, Proxy};

use crate::databases::hold_ups::{hold_up, impatient, locked};
use crate::databases::{LONG, chain, millis, open, open_hasty, until};

/// The pooler gives the same server connection to the next client connection, which ends itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_behind_a_pooler_of_sessions_does_not_end_its_own_connection() {
    let server = PostgresServer::start().unwrap();
    let bouncer = PgBouncer::start(&server, PoolMode::Session).unwrap();
    let proxy = Proxy::start(bouncer.port()).unwrap();
    let client = open_hasty(&server.url_on(proxy.port())).await;
    client.list(None).await.unwrap();
    proxy.set(Fault::LoseReplies);
    println!("{}", chain(&client.list(None).await.unwrap_err()));
    proxy.set(Fault::Pass);
    tokio::time::sleep(millis(500)).await;
    // The network is well again.
    let locked = client.mutex("a").ttl(LONG).try_lock().await;
    let locked = locked.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(locked.is_some());
}

/// The pooler has given the connection to another process, which also has locks here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_behind_a_pooler_of_sessions_does_not_end_connections_of_others() {
    let server = PostgresServer::start().unwrap();
    let bouncer = PgBouncer::start(&server, PoolMode::Session).unwrap();
    let proxy = Proxy::start(bouncer.port()).unwrap();
    let ann = open_hasty(&server.url_on(proxy.port())).await;
    ann.list(None).await.unwrap();
    proxy.set(Fault::LoseReplies);
    println!("{}", chain(&ann.list(None).await.unwrap_err()));
    tokio::time::sleep(millis(500)).await;
    // Another process comes, and gets what was ann's; it is idle at first.
    let bob = open(&bouncer.url()).await;
    bob.list(None).await.unwrap();
    let pids = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE application_name LIKE 'tenure%'";
    let bobs = server.sql(pids);
    assert!(!bobs.is_empty());
    proxy.set(Fault::Pass);
    let _ = ann.list(None).await;
    let now = server.sql(pids);
    assert!(
        now.split(' ')
            .any(|pid| bobs.split(' ').any(|bob| bob == pid)),
        "bob had {bobs}, and now there is {now}"
    );
}

/// A role that a login switches to by default, as where all tables belong to one role.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_a_default_role_can_open_the_store() {
    let server = PostgresServer::start().unwrap();
    open(&server.url()).await.list(None).await.unwrap();
    server.sql("CREATE ROLE locker");
    server.sql("GRANT locker TO tenure");
    server.sql("GRANT ALL ON SCHEMA public TO locker");
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON tenure_lock TO locker");
    server.sql("ALTER ROLE tenure SET role = 'locker'");
    let opened = tenure::open(&server.url()).await;
    let client = opened.unwrap_or_else(|error| panic!("{}", chain(&error)));
    client
        .mutex("a")
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// A server on which not everybody may end sessions: one late answer must not end the client for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_may_not_end_sessions_goes_on_after_a_late_answer() {
    let server = PostgresServer::start().unwrap();
    server.sql(
        "DO $$ DECLARE f regprocedure; BEGIN \
         FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE proname = 'pg_terminate_backend' LOOP \
         EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$",
    );
    let proxy = Proxy::start(server.port()).unwrap();
    let client = open_hasty(&server.url_on(proxy.port())).await;
    let guard = client.mutex("a").ttl(millis(20_000)).lock().await.unwrap();
    proxy.set(Fault::LoseReplies);
    println!("{}", chain(&client.list(None).await.unwrap_err()));
    proxy.set(Fault::Pass);
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < Duration::from_secs(22) {
        match client.list(None).await {
            Ok(_) => return drop(guard),
            Err(error) => last = chain(&error),
        }
        tokio::time::sleep(millis(200)).await;
    }
    panic!("{:?} after {:?}: {last}", guard.health(), begun.elapsed());
}

/// A pooler gives up on a statement whose commit waits for a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_a_pooler_gives_up_is_not_reported_as_unchanged() {
    let server = PostgresServer::start().unwrap();
    let hasty = [("query_timeout", "1")];
    let bouncer = PgBouncer::start_with(&server, PoolMode::Transaction, &hasty).unwrap();
    let (client, other) = (open(&bouncer.url()).await, open(&server.url()).await);
    for name in ["known", "new"] {
        if name == "known" {
            let guard = other.mutex(name).ttl(LONG).lock().await.unwrap();
            guard.release().await.unwrap();
        }
        crate::dialect::stall_commits(&server);
        let locked = client.mutex(name).ttl(LONG).try_lock().await;
        match &locked {
            Ok(guard) => println!("{name}: {}", guard.is_some()),
            Err(error) => println!("{name}: {}", chain(error)),
        }
        crate::dialect::resume_commits(&server);
        client.settled().await;
        tokio::time::sleep(millis(1000)).await;
        let holders = crate::databases::entry(&other, name).await.holders.len();
        println!("{name}: {holders} holders");
        if matches!(&locked, Err(error) if error.nothing_changed()) {
            assert_eq!(holders, 0, "nothing was changed");
        }
        drop(locked);
    }
}

/// Somebody keeps the rows of mutexes locked that others wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_with_a_line_that_are_held_up_do_not_hold_up_the_others() {
    let server = PostgresServer::start().unwrap();
    let (client, bob) = (impatient(&server).await, open(&server.url()).await);
    let ttl = millis(9_000);
    let mut waited_for = Vec::new();
    for number in 0..4 {
        let name = format!("a {number}");
        waited_for.push(locked(&client, &name, ttl).await);
        let waiting = crate::databases::waiter(&bob, &name, LONG);
        until("a waiter", async || {
            let entry = crate::databases::entry(&bob, &name).await;
            entry.waiters.len() == 1
        })
        .await;
        drop(waiting);
    }
    let innocent = locked(&client, "innocent", ttl).await;
    let others: Vec<_> = waited_for
        .iter()
        .map(|guard| hold_up(&server, guard.name().as_str()))
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < 2 * ttl {
        tokio::time::sleep(millis(100)).await;
        let health = innocent.health();
        assert!(
            !matches!(health, Health::Lost(_)),
            "{health:?} after {:?}",
            begun.elapsed()
        );
    }
    drop(others);
}

/// Renewals of leases that are shared or waited for are done one after the other: each that is held up takes
/// `timeout=`, and the others of the batch wait for it, also those that the database has renewed long ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_leases_that_are_held_up_do_not_hold_up_the_others() {
    let server = PostgresServer::start().unwrap();
    let client = impatient(&server).await;
    let ttl = millis(12_000);
    let mut shared = Vec::new();
    for number in 0..6 {
        let lock = client.rwlock(&format!("a {number}")).read().ttl(ttl);
        shared.push(lock.lock().await.unwrap());
    }
    let innocent = locked(&client, "innocent", ttl).await;
    let others: Vec<_> = shared
        .iter()
        .map(|guard| hold_up(&server, guard.name().as_str()))
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < 2 * ttl {
        tokio::time::sleep(millis(100)).await;
        let health = innocent.health();
        assert!(
            !matches!(health, Health::Lost(_)),
            "{health:?} after {:?}",
            begun.elapsed()
        );
    }
    drop(others);
}
