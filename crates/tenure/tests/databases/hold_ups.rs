//! Somebody else's transaction holds up what this client wants to write.

use std::ops::Range;
use std::time::Duration;

use tenure::{Client, Error, Guard, Health, Outcome};

use crate::databases::crashes::until_released;
use crate::databases::{
    LONG, chain, ends_by, got, millis, open, until, until_free, until_longer_than, until_waiting,
    waiter, with,
};
use crate::session::Session;
use crate::{Kind, Server};

/// Somebody who keeps a row to itself until told otherwise.
pub(crate) fn hold_up(server: &Server, name: &str) -> Session {
    let mut session = Session::open::<Kind>(server.port());
    session.send("BEGIN");
    let row = format!("SELECT 'mine', name FROM tenure_lock WHERE name = '{name}' FOR UPDATE");
    assert!(session.ask(&row).starts_with("mine"));
    session
}

pub(crate) async fn impatient(server: &Server) -> tenure::Client {
    let url = format!("{}?timeout=2s&connect_timeout=20s", server.url());
    tenure::open(&url).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_held_up_fails_and_leaves_nothing() {
    let server = Server::start().unwrap();
    let (client, patient) = (impatient(&server).await, open(&server.url()).await);
    let first = patient.mutex("a").ttl(LONG).lock().await.unwrap();
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
    until_free(&patient, "a").await;
    let next = patient.mutex("a").lock().await.unwrap();
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
    let guard = locked(&client, "a", millis(20_000)).await;
    let other = hold_up(&server, "a");
    until("a renewal to be late", async || {
        guard.health() == Health::AtRisk
    })
    .await;
    let end = ends_by(&guard);
    drop(other);
    until_longer_than(end, &guard).await;
    until_released(guard).await;
    until_free(&open(&server.url()).await, "a").await;
}

/// Leases are renewed together; one that is held up must not take the others with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_held_up_does_not_hold_up_the_others() {
    hold_up_some_of_many(5, 2..3).await;
}

/// Nor do many of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_leases_that_are_held_up_do_not_hold_up_the_others() {
    hold_up_some_of_many(10, 2..8).await;
}

/// Takes many leases, and holds some of them up until the others were renewed twice.
async fn hold_up_some_of_many(count: usize, held_up: Range<usize>) {
    let server = Server::start().unwrap();
    let client = impatient(&server).await;
    let (mut guards, mut unlucky, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..count {
        let guard = locked(&client, &format!("a {number}"), millis(18_000)).await;
        match held_up.contains(&number) {
            true => unlucky.push(guard),
            false => guards.push(guard),
        }
    }
    for guard in &unlucky {
        others.push(hold_up(&server, guard.name().as_str()));
    }
    for _ in 0..2 {
        let ends: Vec<_> = guards.iter().map(ends_by).collect();
        for (guard, end) in guards.iter().zip(ends) {
            until_longer_than(end, guard).await;
        }
    }
    drop(others);
    for guard in guards {
        until_released(guard).await;
    }
}

/// Takes a free lock, also if the machine stands still for longer than its client waits.
pub(crate) async fn locked(client: &Client, name: &str, ttl: Duration) -> Guard {
    let mut guard = None;
    until(&format!("{name} to be granted"), async || {
        guard = client.mutex(name).ttl(ttl).lock().await.ok();
        guard.is_some()
    })
    .await;
    guard.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_on_after_it_was_held_up() {
    let server = Server::start().unwrap();
    let (ann, bob) = (impatient(&server).await, impatient(&server).await);
    let held = locked(&ann, "a", LONG).await;
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
