//! A pooler that gives each transaction any of its connections.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::Outcome;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure_testkit::{PgBouncer, PoolMode, PostgresServer};
use tokio::task::JoinSet;

use crate::databases::{LONG, Store, got, open, until, until_free, until_waiting, waiter};
use crate::session::Session;
use crate::{Kind, dialect};

/// A server and a pooler of its own for each rule.
struct Pooled {
    store: Store,
    _bouncer: PgBouncer,
    _server: PostgresServer,
}

#[async_trait]
impl Fixture for Pooled {
    async fn client(&self) -> Arc<dyn Driver> {
        self.store.client().await
    }
}

fn pooled() -> Pooled {
    pooled_on(PostgresServer::start().unwrap())
}

/// A server whose transactions are isolated otherwise than statements here want it.
fn serializable() -> Pooled {
    let server = PostgresServer::builder().isolation("SERIALIZABLE");
    pooled_on(server.start().unwrap())
}

fn pooled_on(server: PostgresServer) -> Pooled {
    let bouncer = PgBouncer::start(&server, PoolMode::Transaction).unwrap();
    Pooled {
        store: Store::of(&bouncer.url()),
        _bouncer: bouncer,
        _server: server,
    }
}

mod rules {
    tenure::conformance!(
        std::future::ready(super::pooled());
        a_claim_from_elsewhere_calls_a_lease_back,
        a_lease_is_called_back_once,
        a_release_hands_over_to_the_next,
        an_eviction_tells_the_holder_and_lets_the_next_in,
        an_expired_lease_lets_the_next_in,
        fences_grow_whatever_ended_the_lease_before,
        one_of_many_claims_at_once_is_granted,
        readers_that_stand_together_go_in_together,
        renewals_are_answered_in_their_order,
        the_line_is_first_come_first_served,
        the_list_shows_waiters_in_order,
    );
}

mod serializable_rules {
    tenure::conformance!(
        std::future::ready(super::serializable());
        a_release_hands_over_to_the_next,
        an_expired_lease_lets_the_next_in,
        fences_grow_whatever_ended_the_lease_before,
        one_of_many_claims_at_once_is_granted,
        renewals_are_answered_in_their_order,
        the_line_is_first_come_first_served,
    );
}

/// Many clients find out at once that they are pooled, and hear what is meant for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_is_found_out_by_many_clients_at_once() {
    let server = PostgresServer::start().unwrap();
    let few = [("default_pool_size", "2")];
    let bouncer = PgBouncer::start_with(&server, PoolMode::Transaction, &few).unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..12 {
        let url = bouncer.url();
        tasks.spawn(async move {
            let client = open(&url).await;
            for _ in 0..5 {
                let guard = client.mutex(&format!("{number}")).lock().await.unwrap();
                assert_eq!(guard.release().await.unwrap(), Outcome::Released);
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_with_one_connection_is_found_out() {
    let server = PostgresServer::start().unwrap();
    // What listens and what tells are then surely the same connection.
    let few = [("default_pool_size", "1")];
    let bouncer = PgBouncer::start_with(&server, PoolMode::Transaction, &few).unwrap();
    waiters_are_served(&server, &bouncer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_on_both_sides_of_a_pooler_of_transactions() {
    let server = PostgresServer::start().unwrap();
    let bouncer = PgBouncer::start(&server, PoolMode::Transaction).unwrap();
    waiters_are_served(&server, &bouncer).await;
}

async fn waiters_are_served(server: &PostgresServer, bouncer: &PgBouncer) {
    let (direct, pooled) = (open(&server.url()).await, open(&bouncer.url()).await);
    for (holds, waits, polls) in [(&direct, &pooled, 1), (&pooled, &direct, 0)] {
        let mut older = None;
        for _ in 0..5 {
            let held = holds.mutex("a").ttl(LONG).lock().await.unwrap();
            assert!(older < Some(held.fence()));
            let waiting = waiter(waits, "a", LONG);
            until_waiting(holds, "a", 1).await;
            until("it to be known how it is reached", async || {
                dialect::pollers(server) == polls
            })
            .await;
            assert_eq!(held.release().await.unwrap(), Outcome::Released);
            let next = got(waiting).await;
            older = Some(next.fence());
            assert_eq!(next.release().await.unwrap(), Outcome::Released);
        }
    }
}

/// Who has a connection of its own behind the pooler can be told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_of_sessions_is_no_hindrance() {
    let server = PostgresServer::start().unwrap();
    let bouncer = PgBouncer::start(&server, PoolMode::Session).unwrap();
    let (ann, bob) = (open(&bouncer.url()).await, open(&bouncer.url()).await);
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(&bob, "a", LONG);
    until_waiting(&ann, "a", 1).await;
    until("a mailbox", async || dialect::mailboxes(&server) == 1).await;
    assert_eq!(dialect::pollers(&server), 0);
    assert_eq!(held.release().await.unwrap(), Outcome::Released);
    got(waiting).await.release().await.unwrap();
}

/// The connections behind a pooler are also those of other programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooled_client_leaves_the_sessions_of_others_as_they_were() {
    let server = PostgresServer::builder().isolation("SERIALIZABLE");
    let server = server
        .setting("statement_timeout", "17000")
        .start()
        .unwrap();
    let few = [("default_pool_size", "2")];
    let bouncer = PgBouncer::start_with(&server, PoolMode::Transaction, &few).unwrap();
    let show = "SELECT current_setting('default_transaction_isolation'), current_setting('statement_timeout'), \
                current_setting('enable_seqscan'), current_setting('lock_timeout')";
    let mut other = Session::open::<Kind>(bouncer.port());
    let before = other.ask(show);
    let client = open(&bouncer.url()).await;
    for number in 0..5 {
        let guard = client.mutex(&format!("{number}")).lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        assert_eq!(other.ask(show), before);
    }
}

/// What holds up a statement there is not limited by a setting of the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooled_claim_that_is_held_up_fails_and_leaves_nothing() {
    let server = PostgresServer::start().unwrap();
    let bouncer = PgBouncer::start(&server, PoolMode::Transaction).unwrap();
    let client = tenure::open(&format!("{}?timeout=2s", bouncer.url()))
        .await
        .unwrap();
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    guard.release().await.unwrap();
    let mut other = Session::open::<Kind>(server.port());
    other.send("BEGIN");
    let row = "SELECT 'mine' FROM tenure_lock WHERE name = 'a' FOR UPDATE";
    assert_eq!(other.ask(row), "mine");
    let refused = client.mutex("a").ttl(LONG).try_lock().await;
    println!("{refused:?}");
    assert!(refused.unwrap_err().may_pass());
    drop(other);
    until_free(&open(&server.url()).await, "a").await;
}
