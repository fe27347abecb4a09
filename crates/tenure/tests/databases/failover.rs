//! A replica that lags behind becomes the primary.

use crate::Server;
use crate::databases::{LONG, entry, open};
use crate::dialect;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_also_where_a_grant_was_forgotten() {
    let mut primary = dialect::replicated(Server::builder()).start().unwrap();
    let client = open(&primary.url()).await;
    let older = client.mutex("a").ttl(LONG).lock().await.unwrap();
    let known = older.fence();
    older.release().await.unwrap();
    let replica = Server::replica_of(&primary).unwrap();
    let refused = tenure::open(&replica.url()).await;
    if let Ok(client) = refused {
        let error = client.mutex("b").try_lock().await.unwrap_err();
        assert!(error.may_pass(), "{error:?}");
    }
    replica.wait_until_caught_up(&primary).unwrap();
    dialect::fall_behind(&replica);
    let forgotten = client.mutex("a").ttl(LONG).lock().await.unwrap();
    assert!(known < forgotten.fence());
    primary.kill().unwrap();
    replica.promote().unwrap();
    let after = open(&replica.url()).await;
    assert!(entry(&after, "a").await.holders.is_empty(), "forgotten");
    let next = after.mutex("a").ttl(LONG).lock().await.unwrap();
    assert!(forgotten.fence() < next.fence(), "but not overtaken");
}
