//! Locks on the whole table, such as a backup takes.

use tenure::Error;

use crate::Server;
use crate::databases::{LONG, open, until_free, with};
use crate::session::Session;

/// A statement that waits for the table does not wait for longer than its client, to be run when nobody expects it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waits_for_the_table_fails_and_leaves_nothing() {
    let server = Server::start().unwrap();
    let url = with(&server.url(), "timeout=5s&connect_timeout=20s");
    let client = tenure::open(&url).await.unwrap();
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    guard.release().await.unwrap();
    for lock in [
        "LOCK TABLES tenure_lock READ",
        "LOCK TABLES tenure_lock WRITE",
    ] {
        let mut backup = Session::open::<crate::Kind>(server.port());
        backup.send(lock);
        assert_eq!(backup.ask("SELECT 'locked'"), "locked");
        let refused = client.mutex("a").ttl(LONG).try_lock().await;
        println!("{refused:?}");
        assert!(matches!(refused, Err(Error::Unavailable { .. })));
        drop(backup);
        until_free(&open(&server.url()).await, "a").await;
    }
}
