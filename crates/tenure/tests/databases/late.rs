//! Statements that take effect after their client has given up on them.

use std::time::Instant;

use tenure_testkit::Proxy;

use crate::databases::crashes::until_released;
use crate::databases::{LONG, chain, entry, millis, open, open_hasty, until, until_free};
use crate::{Server, dialect};

/// The request is still under way when its client gives up the connection, and arrives after the lock was released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_arrives_after_its_client_has_given_up_grants_nothing() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let (client, other) = (
        open_hasty(&server.url_on(proxy.port())).await,
        open(&server.url()).await,
    );
    for name in ["a-known-name", "a-new-name"] {
        if name == "a-known-name" {
            let guard = other.mutex(name).ttl(LONG).lock().await.unwrap();
            guard.release().await.unwrap();
        }
        proxy.hold_back(name.as_bytes());
        // Asked again on another connection.
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
}

/// The server answers, but confirms no commit for a while: its replica or its disk is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_committed_late_is_taken_back() {
    let server = dialect::stallable(Server::builder()).start().unwrap();
    let (client, other) = (open_hasty(&server.url()).await, open(&server.url()).await);
    for name in ["known", "new"] {
        if name == "known" {
            let guard = other.mutex(name).ttl(LONG).lock().await.unwrap();
            guard.release().await.unwrap();
        }
        dialect::stall_commits(&server);
        let refused = client.mutex(name).ttl(LONG).try_lock().await;
        println!("{name}: {}", chain(&refused.unwrap_err()));
        let begun = Instant::now();
        until("it to be taken back in vain", async || {
            begun.elapsed() > millis(2000)
        })
        .await;
        dialect::resume_commits(&server);
        until_free(&other, name).await;
        let guard = other.mutex(name).try_lock().await.unwrap();
        guard.expect("it is free").release().await.unwrap();
    }
}
