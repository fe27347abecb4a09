//! Letters that come twice, or late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure::{Health, Outcome};
use tenure_testkit::{Postgres, PostgresServer};

use crate::databases::{LONG, entry, got, open, until, until_free, until_waiting, waiter};
use crate::session::Session;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_comes_again_changes_nothing() {
    let server = PostgresServer::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    let client = server.sql("SELECT next FROM tenure_lock WHERE name = 'a'");
    let mut reader = Session::open::<Postgres>(server.port());
    reader.send(&format!("LISTEN tenure_{client}"));
    assert_eq!(reader.ask("SELECT 'listens'"), "listens");
    held.release().await.unwrap();
    let first = got(waiting).await;
    // It shows what it has heard behind the answer to a statement.
    let mut letter = String::new();
    until("the letter", async || {
        letter = reader.ask("SELECT 'told'");
        letter != "told"
    })
    .await;
    let (_, letter) = letter.split_once("payload \"").unwrap();
    let (letter, _) = letter.split_once("\" received").unwrap();
    let tell = format!("SELECT pg_notify('tenure_{client}', $letter${letter}$letter$)");
    // Heard in this order.
    let tell_all = || {
        for _ in 0..3 {
            server.sql(&tell);
        }
    };
    tell_all();
    let older = first.fence();
    assert_eq!(first.health(), Health::Held);
    assert_eq!(first.release().await.unwrap(), Outcome::Released);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    tell_all();
    // What is asked for afterwards is answered after what was heard.
    until("the letters to be heard", async || {
        let other = bob.mutex("b").lock_timeout(LONG).await.unwrap();
        other.release().await.unwrap() == Outcome::Released
    })
    .await;
    assert!(!waiting.is_finished(), "an old grant is none");
    assert_eq!(entry(&ann, "a").await.holders[0].fence, held.fence());
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    let next = got(waiting).await;
    assert!(older < next.fence());
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
    until_free(&ann, "a").await;
}

/// Whoever hands a lock over may not live to tell, or not be able to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_not_told_is_found_among_other_letters() {
    let server = PostgresServer::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    let client = server.sql("SELECT next FROM tenure_lock WHERE name = 'a'");
    server.sql("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC");
    let mut writer = Session::open::<Postgres>(server.port());
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    // Longer than the grant is waited for.
    let letters = tokio::task::spawn_blocking(move || {
        for _ in 0..600 {
            if over.load(Ordering::Relaxed) {
                return;
            }
            writer.send(&format!("NOTIFY tenure_{client}, 'another letter'"));
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    let next = got(waiting).await;
    assert!(!letters.is_finished(), "found as long as letters come");
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}
