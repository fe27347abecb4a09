//! Statements that take effect after their client has given up on them.

use std::time::Instant;

use crate::databases::{LONG, chain, millis, open, open_hasty, until, until_free};
use crate::{Server, dialect};

/// The server answers, but confirms no commit for a while: its replica or its disk is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_committed_late_is_taken_back() {
    let server = dialect::stallable(Server::builder()).start().unwrap();
    let (client, other) = (open_hasty(&server.url()).await, open(&server.url()).await);
    for name in ["known", "new"] {
        if name == "known" {
            let guard = client.mutex(name).ttl(LONG).lock().await.unwrap();
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
