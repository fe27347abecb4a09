//! Users whose commits do not wait for the disk.

use tenure_testkit::PostgresServer;

use crate::databases::{LONG, entry, open};
use crate::dialect;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_there_after_a_crash_whatever_the_user_has_set() {
    let mut server = dialect::lazy(PostgresServer::builder()).start().unwrap();
    server.sql("ALTER ROLE tenure SET synchronous_commit = off");
    let client = open(&server.url()).await;
    let granted = client.mutex("a").ttl(LONG).lock().await.unwrap();
    server.kill().unwrap();
    server.start_again().unwrap();
    let other = open(&server.url()).await;
    let holders = entry(&other, "a").await.holders;
    assert_eq!(holders[0].fence, granted.fence());
}
