//! Somebody else's transaction holds up what this client wants to write.

use tenure::{Error, Health, Outcome};

use crate::databases::crashes::until_released;
use crate::databases::{
    LONG, chain, ends_by, got, millis, open, until, until_free, until_longer_than, until_waiting,
    waiter, with,
};
use crate::session::Session;
use crate::{Kind, Server};

/// Somebody who keeps a row to itself until told otherwise.
fn hold_up(server: &Server, name: &str) -> Session {
    let mut session = Session::open::<Kind>(server.port());
    session.send("BEGIN");
    let row = format!("SELECT 'mine', name FROM tenure_lock WHERE name = '{name}' FOR UPDATE");
    assert!(session.ask(&row).starts_with("mine"));
    session
}

async fn impatient(server: &Server) -> tenure::Client {
    let url = format!("{}?timeout=2s&connect_timeout=20s", server.url());
    tenure::open(&url).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_held_up_fails_and_leaves_nothing() {
    let server = Server::start().unwrap();
    let client = impatient(&server).await;
    let first = client.mutex("a").ttl(LONG).lock().await.unwrap();
    let fence = first.fence();
    first.release().await.unwrap();
    let mut other = hold_up(&server, "a");
    let error = client.mutex("a").ttl(LONG).try_lock().await.unwrap_err();
    println!("{}", chain(&error));
    assert!(
        matches!(
            error,
            Error::Unavailable { .. } | Error::Indeterminate { .. }
        ),
        "{error:?}"
    );
    assert!(error.may_pass());
    other.send("ROLLBACK");
    drop(other);
    until_free(&client, "a").await;
    let next = client.mutex("a").lock().await.unwrap();
    assert!(fence < next.fence());
    assert_eq!(next.release().await.unwrap(), Outcome::Released);
}

/// The server gives up before the client does, so that the outcome is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_held_up_changes_nothing_however_short_its_timeout_is() {
    let server = Server::start().unwrap();
    let hasty = with(&server.url(), "timeout=900ms&connect_timeout=20s");
    let patient = open(&server.url()).await;
    let first = patient.mutex("a").ttl(LONG).lock().await.unwrap();
    first.release().await.unwrap();
    let client = tenure::open(&hasty).await.unwrap();
    let other = hold_up(&server, "a");
    // On a machine that stands still an answer may come too late.
    until("the server to give up first", async || {
        let error = client.mutex("a").try_lock().await.unwrap_err();
        println!("{}", chain(&error));
        matches!(error, Error::Unavailable { .. }) && !chain(&error).contains("busy")
    })
    .await;
    drop(other);
    until_free(&patient, "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_kept_whose_renewal_is_held_up_for_a_while() {
    let server = Server::start().unwrap();
    let client = impatient(&server).await;
    let guard = client.mutex("a").ttl(millis(9000)).lock().await.unwrap();
    let end = ends_by(&guard);
    let other = hold_up(&server, "a");
    let begun = std::time::Instant::now();
    until("renewals to be held up", async || {
        begun.elapsed() > millis(5000)
    })
    .await;
    assert!(!matches!(guard.health(), Health::Lost(_)));
    drop(other);
    until_longer_than(end, &guard).await;
    assert_eq!(guard.health(), Health::Held);
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

/// Leases are renewed together; one that is held up must not take the others with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_held_up_does_not_hold_up_the_others() {
    let server = Server::start().unwrap();
    let client = impatient(&server).await;
    let mut guards = Vec::new();
    for number in 0..5 {
        let lock = client.mutex(&format!("a {number}")).ttl(millis(9000));
        guards.push(lock.lock().await.unwrap());
    }
    let other = hold_up(&server, "a 2");
    let unlucky = guards.remove(2);
    let loss = tokio::time::timeout(crate::databases::PATIENCE, unlucky.lost()).await;
    println!("{:?}", loss.unwrap());
    for guard in &guards {
        let health = guard.health();
        assert!(!matches!(health, Health::Lost(_)), "{health:?}");
    }
    drop(other);
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

/// Nor do many of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_leases_that_are_held_up_do_not_hold_up_the_others() {
    let server = Server::start().unwrap();
    let client = impatient(&server).await;
    let (mut guards, mut unlucky, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..10 {
        let lock = client.mutex(&format!("a {number}")).ttl(millis(9000));
        let guard = lock.lock().await.unwrap();
        match (2..8).contains(&number) {
            true => unlucky.push(guard),
            false => guards.push(guard),
        }
    }
    for guard in &unlucky {
        others.push(hold_up(&server, guard.name().as_str()));
    }
    for guard in &unlucky {
        let loss = tokio::time::timeout(crate::databases::PATIENCE, guard.lost()).await;
        println!("{:?}", loss.unwrap());
    }
    for guard in &guards {
        let health = guard.health();
        assert!(!matches!(health, Health::Lost(_)), "{health:?}");
    }
    let end = ends_by(&guards[0]);
    until_longer_than(end, &guards[0]).await;
    drop(others);
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_on_after_it_was_held_up() {
    let server = Server::start().unwrap();
    let (ann, bob) = (impatient(&server).await, impatient(&server).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    let other = hold_up(&server, "a");
    let released = held.release().await;
    println!("{released:?}");
    assert!(matches!(&released, Err(error) if error.may_pass()));
    assert!(!waiting.is_finished());
    drop(other);
    until_released(got(waiting).await).await;
    until_free(&open(&server.url()).await, "a").await;
}
