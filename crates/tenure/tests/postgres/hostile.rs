//! Attacks on PostgreSQL that succeed.

use std::time::{Duration, Instant};

use tenure::{Client, Guard, Health};
use tenure_testkit::{Fault, PgBouncer, PoolMode, PostgresServer, Proxy};
use tokio_postgres::NoTls;

use crate::databases::hold_ups::{hold_up, impatient, locked};
use crate::databases::{LONG, chain, millis, open, open_hasty};

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

/// A role that a login switches to by default, as where all tables belong to one role.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_a_user_with_a_default_role_can_open_the_store() {
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
async fn hostile_a_client_that_may_not_end_sessions_goes_on_after_a_late_answer() {
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
async fn hostile_a_commit_that_a_pooler_gives_up_is_not_reported_as_unchanged() {
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
