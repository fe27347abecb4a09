//! Attacks on PostgreSQL that succeed.

use std::time::{Duration, Instant};

use tenure::{Client, Guard, Health};
use tenure_testkit::{Fault, PgBouncer, PoolMode, PostgresServer, Proxy};
use tokio_postgres::NoTls;

use crate::databases::crashes::until_released;
use crate::databases::hold_ups::{hold_up, impatient, locked};
use crate::databases::{LONG, chain, entry, millis, open, open_hasty, until};

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The pooler gives the same server connection to the next client connection, which ends itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_a_client_behind_a_pooler_of_sessions_does_not_end_its_own_connection() {
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
async fn hostile_a_client_behind_a_pooler_of_sessions_does_not_end_connections_of_others() {
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
    let pids = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE application_name = 'tenure'";
    let bobs = server.sql(pids);
    assert!(!bobs.is_empty());
    proxy.set(Fault::Pass);
    let _ = ann.list(None).await;
    let now = server.sql(pids);
    assert!(
        now.split(' ').any(|pid| bobs.split(' ').any(|bob| bob == pid)),
        "bob had {bobs}, and now there is {now}"
    );
}

/// A role that a login switches to by default (`ALTER ROLE … SET role`) hides the abandoned connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_a_late_request_of_a_user_with_a_default_role_grants_nothing() {
    let server = PostgresServer::start().unwrap();
    server.sql("CREATE ROLE locker");
    server.sql("GRANT locker TO tenure");
    server.sql("GRANT ALL ON SCHEMA public TO locker");
    server.sql("ALTER ROLE tenure SET role = 'locker'");
    let proxy = Proxy::start(server.port()).unwrap();
    let (client, other) = (
        open_hasty(&server.url_on(proxy.port())).await,
        open(&server.url()).await,
    );
    let name = "a-known-name";
    let guard = other.mutex(name).ttl(LONG).lock().await.unwrap();
    guard.release().await.unwrap();
    proxy.hold_back(name.as_bytes());
    match client.mutex(name).ttl(LONG).lock().await {
        Ok(guard) => until_released(guard).await,
        Err(error) => println!("{name}: {}", chain(&error)),
    }
    assert_eq!(proxy.connections_held_back(), 1);
    client.settled().await;
    proxy.let_go();
    until("the server to be done with it", async || {
        proxy.connections_held_back() == 0
    })
    .await;
    assert!(entry(&other, name).await.holders.is_empty(), "{name}");
}

/// One table, named with and without its schema: leases exclude each other, and so should the locks of rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_the_lock_of_a_row_is_the_same_with_and_without_the_default_schema() {
    let server = PostgresServer::start().unwrap();
    let plain = open(&server.url()).await;
    let named = open(&crate::databases::with(&server.url(), "schema=public")).await;
    let held = plain.mutex("a").lock().await.unwrap();
    assert!(named.mutex("a").try_lock().await.unwrap().is_none());
    drop(held);
    let (mut a, mut b) = (connect(&server.url()).await, connect(&server.url()).await);
    let (mut first, mut second) = (
        a.transaction().await.unwrap(),
        b.transaction().await.unwrap(),
    );
    assert!(plain.row("a").try_lock_in(&mut first).await.unwrap());
    let both = named.row("a").try_lock_in(&mut second).await.unwrap();
    assert!(!both, "two transactions hold the lock of one row");
}

/// Readers follow each other without a gap, each for less than half a second.
async fn read_on(url: &str, guard: &Guard, pause: Duration, until: Instant) {
    let mut connection = connect(url).await;
    while Instant::now() < until {
        let mut tx = connection.transaction().await.unwrap();
        if let Err(error) = guard.hold_in(&mut tx).await {
            println!("{pause:?}: {}", chain(&error));
            return;
        }
        tokio::time::sleep(pause).await;
        tx.commit().await.unwrap();
    }
}

async fn starve(ann: &Client, bob: &Client, server: &PostgresServer, also: Option<&Guard>) {
    let ttl = millis(12_000);
    let mut guards = Vec::new();
    for locks in [ann, bob] {
        guards.push(locks.rwlock("read").read().ttl(ttl).lock().await.unwrap());
    }
    let held_up = also.map(|guard| hold_up(server, guard.name().as_str()));
    let end = Instant::now() + 2 * ttl;
    let url = server.url();
    let watch = async {
        while Instant::now() < end {
            tokio::time::sleep(millis(50)).await;
            for guard in &guards {
                let health = guard.health();
                assert!(!matches!(health, Health::Lost(_)), "a reader: {health:?}");
            }
        }
    };
    tokio::join!(
        watch,
        read_on(&url, &guards[0], millis(130), end),
        read_on(&url, &guards[1], millis(170), end),
        read_on(&url, &guards[0], millis(190), end),
        read_on(&url, &guards[1], millis(230), end),
        read_on(&url, &guards[0], millis(290), end),
        read_on(&url, &guards[1], millis(310), end),
    );
    drop(held_up);
}

/// Another lease of the same client is held up, so that renewals do not even try rows that readers prove.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_readers_without_a_gap_do_not_starve_renewals_beside_a_held_up_lease() {
    let server = PostgresServer::start().unwrap();
    let (ann, bob) = (impatient(&server).await, impatient(&server).await);
    let mutex = locked(&ann, "exclusive", millis(12_000)).await;
    starve(&ann, &bob, &server, Some(&mutex)).await;
}

/// Two clients of one table, one of which names its schema, do not stand at the same turnstile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_readers_without_a_gap_do_not_starve_renewals_of_a_client_with_a_schema() {
    let server = PostgresServer::start().unwrap();
    let ann = impatient(&server).await;
    let url = format!(
        "{}?timeout=2s&connect_timeout=20s&schema=public",
        server.url()
    );
    let bob = tenure::open(&url).await.unwrap();
    starve(&ann, &bob, &server, None).await;
}
