//! What once broke the store: connections that are abandoned, a table that is gone, commits that take long.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use tenure_testkit::{MariaDbServer, Proxy};

use crate::databases::{LONG, chain, entry, millis, open, open_hasty, until_waiting, waiter, with};
use crate::dialect;

async fn by_socket(server: &MariaDbServer) -> Conn {
    let options = OptsBuilder::default()
        .socket(Some(server.socket().to_string_lossy().into_owned()))
        .user(Some(MariaDbServer::USER))
        .pass(Some(MariaDbServer::PASSWORD))
        .db_name(Some("test"));
    Conn::new(options).await.unwrap()
}

/// All connections over the server's socket have the same host, and numbers begin again when the server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_over_the_socket_is_not_ended_after_a_restart() {
    let mut server = MariaDbServer::start().unwrap();
    // A server that has run for a while.
    for _ in 0..60 {
        by_socket(&server).await.disconnect().await.unwrap();
    }
    let url = with(
        &server.url(),
        &format!("socket={}&connections=1", server.socket().display()),
    );
    let client = open_hasty(&url).await;
    client.list(None).await.unwrap();
    let number = "SELECT MAX(id) FROM information_schema.processlist WHERE user = 'tenure'";
    let number: u32 = server.sql(number).parse().unwrap();
    // The server hangs, and then crashes.
    server.freeze().unwrap();
    println!("{}", chain(&client.list(None).await.unwrap_err()));
    server.kill().unwrap();
    server.start_again().unwrap();
    // Another program of the same user connects, and gets the same number.
    let mut innocent = by_socket(&server).await;
    while innocent.id() < number {
        innocent.disconnect().await.unwrap();
        innocent = by_socket(&server).await;
    }
    assert_eq!(innocent.id(), number);
    innocent.query_drop("BEGIN").await.unwrap();
    innocent
        .query_drop("CREATE TEMPORARY TABLE work (id INT)")
        .await
        .unwrap();
    let _ = client.list(None).await;
    tokio::time::sleep(millis(200)).await;
    let still: Result<Option<u32>, _> = innocent.query_first("SELECT 1").await;
    assert_eq!(still.expect("it was nobody's business"), Some(1));
}

/// A bell that breaks at once is made again at once, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_gone_does_not_make_a_client_connect_in_a_loop() {
    let server = MariaDbServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let (ann, bob) = (
        open(&server.url()).await,
        open(&server.url_on(proxy.port())).await,
    );
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    held.release().await.unwrap();
    crate::databases::got(waiting)
        .await
        .release()
        .await
        .unwrap();
    // Bob's mailbox stays open for a while, though he waits for nothing any more.
    assert_eq!(dialect::mailboxes(&server), 1);
    server.sql("DROP TABLE tenure_lock");
    tokio::time::sleep(millis(3000)).await;
    let before = proxy.connections_accepted();
    tokio::time::sleep(millis(10_000)).await;
    let more = proxy.connections_accepted() - before;
    assert!(more < 50, "{more} connections in 10 s for nothing");
}

/// A statement that is ended while its commit waits for a replica has been committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_committed_is_not_reported_as_unchanged() {
    for point in ["AFTER_COMMIT", "AFTER_SYNC"] {
        let server = MariaDbServer::builder()
            .binary_log()
            .setting("rpl-semi-sync-master-timeout", "1000000")
            .setting("rpl-semi-sync-master-wait-point", point)
            .start()
            .unwrap();
        let hasty = with(&server.url(), "timeout=900ms&connect_timeout=20s");
        let (client, other) = (
            tenure::open(&hasty).await.unwrap(),
            open(&server.url()).await,
        );
        for name in ["known", "new"] {
            if name == "known" {
                let guard = other.mutex(name).ttl(LONG).lock().await.unwrap();
                guard.release().await.unwrap();
            }
            dialect::stall_commits(&server);
            let locked = client.mutex(name).ttl(LONG).try_lock().await;
            match &locked {
                Ok(guard) => println!("{point} {name}: {}", guard.is_some()),
                Err(error) => println!("{point} {name}: {}", chain(error)),
            }
            let says_nothing = matches!(&locked, Err(error) if error.nothing_changed());
            dialect::resume_commits(&server);
            client.settled().await;
            let holders = entry(&other, name).await.holders.len();
            println!("{point} {name}: {holders}");
            if says_nothing {
                assert_eq!(holders, 0, "nothing was changed");
            }
            drop(locked);
        }
    }
}
