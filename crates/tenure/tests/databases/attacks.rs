//! What once broke the stores: rows that somebody keeps locked, evictions of kept leases, refusals in line.

use std::time::{Duration, Instant};

use tenure::Health;

use crate::databases::hold_ups::{hold_up, impatient, locked};
use crate::databases::{LONG, chain, millis, open};
use crate::{Server, dialect};

/// A claim that could not be written must not leave a listener and an interest behind for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_refused_in_line_does_not_keep_the_mailbox_open() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, impatient(&server).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let other = hold_up(&server, "a");
    let error = bob.rwlock("a").read().ttl(LONG).lock().await.unwrap_err();
    println!("{}", chain(&error));
    assert!(error.nothing_changed(), "{error:?}");
    drop(other);
    bob.settled().await;
    assert!(crate::databases::entry(&ann, "a").await.waiters.is_empty());
    held.release().await.unwrap();
    // Closed 5 s after the client last waited; here it is given 15.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        tokio::time::sleep(millis(500)).await;
    }
    assert_eq!(dialect::mailboxes(&server), 0, "nobody waits for anything");
}

/// The work is done, but somebody else has had the lock meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_under_a_kept_lock_that_is_evicted_is_not_reported_as_done() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let lock = ann.mutex("a").keep(Duration::from_secs(60));
    let (evicting, theirs) = (bob.clone(), bob.mutex("a").ttl(LONG));
    let other = std::sync::Mutex::new(None);
    let worked: Result<(), tenure::Error> = lock
        .with(async |_| {
            evicting.evict("a").await?;
            let guard = theirs.try_lock().await?;
            *other.lock().unwrap() = guard;
            tokio::time::sleep(millis(1500)).await;
            Ok(())
        })
        .await;
    let Some(bobs) = other.lock().unwrap().take() else {
        // The work was ended in time.
        return assert!(worked.is_err());
    };
    let again = lock.try_lock().await.unwrap();
    let fence = again.as_ref().map(tenure::Guard::fence);
    println!(
        "{worked:?}, bob holds {:?}, ann holds {fence:?}",
        bobs.fence()
    );
    assert_eq!(bobs.health(), Health::Held);
    assert!(
        worked.is_err(),
        "the lock was lost before the work was done"
    );
    assert!(again.is_none(), "two hold the lock");
}

/// The same for whoever asks only afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_lease_that_was_evicted_is_not_handed_out_again() {
    let server = Server::start().unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let lock = ann.mutex("a").keep(Duration::from_secs(60));
    lock.lock().await.unwrap().release().await.unwrap();
    bob.evict("a").await.unwrap();
    let bobs = bob.mutex("a").ttl(LONG).lock().await.unwrap();
    // Time for the message.
    tokio::time::sleep(millis(3000)).await;
    let again = lock.try_lock().await.unwrap();
    let fence = again.as_ref().map(tenure::Guard::fence);
    assert_eq!(bobs.health(), Health::Held);
    assert!(again.is_none(), "ann has {fence:?}, bob {:?}", bobs.fence());
}

/// Many ask for one name that somebody keeps locked; renewals of other names wait for the same few connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_a_held_up_name_do_not_cost_other_leases() {
    let server = Server::start().unwrap();
    let client = impatient(&server).await;
    locked(&client, "hot", LONG).await.release().await.unwrap();
    let innocent = locked(&client, "innocent", millis(9000)).await;
    let other = hold_up(&server, "hot");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let lock = client.mutex("hot").ttl(LONG);
        tasks.spawn(async move {
            loop {
                let _ = lock.try_lock().await;
                tokio::time::sleep(millis(50)).await;
            }
        });
    }
    let begun = Instant::now();
    while begun.elapsed() < millis(12_000) {
        tokio::time::sleep(millis(100)).await;
        let health = innocent.health();
        assert!(
            !matches!(health, Health::Lost(_)),
            "{health:?} after {:?}",
            begun.elapsed()
        );
    }
    tasks.abort_all();
    drop(other);
}

/// An operator interrupts a statement whose commit waits for a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_interrupted_is_not_reported_as_unchanged() {
    let server = dialect::stallable(Server::builder()).start().unwrap();
    let (client, other) = (open(&server.url()).await, open(&server.url()).await);
    for name in ["known", "new"] {
        if name == "known" {
            let guard = other.mutex(name).ttl(LONG).lock().await.unwrap();
            guard.release().await.unwrap();
        }
        dialect::stall_commits(&server);
        let lock = client.mutex(name).ttl(LONG);
        let locking = tokio::spawn(async move { lock.try_lock().await });
        for _ in 0..5 {
            tokio::time::sleep(millis(200)).await;
            dialect::interrupt(&server);
        }
        dialect::resume_commits(&server);
        let locked = locking.await.unwrap();
        match &locked {
            Ok(guard) => println!("{name}: {}", guard.is_some()),
            Err(error) => println!("{name}: {}", chain(error)),
        }
        client.settled().await;
        let holders = crate::databases::entry(&other, name).await.holders.len();
        if matches!(&locked, Err(error) if error.nothing_changed()) {
            assert_eq!(holders, 0, "nothing was changed");
        }
        drop(locked);
    }
}
