//! The lock of a row: it ends with the transaction, and with nothing else.

use std::error::Error as _;
use std::time::Duration;

use async_trait::async_trait;
use tenure::transaction::{Dialect, Row, RowLock, StatementError, Transaction};
use tenure::{Client, Error};

use super::{Counter, Database, LEVELS, SHORT, client, client_with, name, run};

pub(crate) async fn a_held_lock_is_not_given_to_another_transaction<D: Database>(database: &D) {
    let locks = client(database).await;
    let row = locks.row(&name("exclusive"));
    let (mut a, mut b) = (database.connect().await, database.connect().await);
    for commits in [true, false] {
        let mut first = D::begin(&mut a, None).await;
        row.lock_in(&mut first).await.unwrap();
        let mut second = D::begin(&mut b, None).await;
        assert!(!row.try_lock_in(&mut second).await.unwrap());
        let mut waits = Box::pin(row.lock_in(&mut second));
        let works = async {
            for _ in 0..50 {
                run(&mut first, "SELECT '1'").await;
            }
        };
        tokio::select! {
            biased;
            locked = &mut waits => panic!("it is held: {locked:?}"),
            () = works => {}
        }
        match commits {
            true => D::commit(first).await.unwrap(),
            false => D::rollback(first).await,
        }
        waits.as_mut().await.unwrap();
        drop(waits);
        D::commit(second).await.unwrap();
        let mut third = D::begin(&mut a, None).await;
        assert!(row.try_lock_in(&mut third).await.unwrap());
        D::rollback(third).await;
    }
}

pub(crate) async fn a_killed_connection_frees_the_lock<D: Database>(database: &D) {
    let locks = client(database).await;
    let row = locks.row(&name("killed"));
    let (mut a, mut b) = (database.connect().await, database.connect().await);
    let number = D::number(&mut a).await;
    let mut first = D::begin(&mut a, None).await;
    row.lock_in(&mut first).await.unwrap();
    let mut second = D::begin(&mut b, None).await;
    assert!(!row.try_lock_in(&mut second).await.unwrap());
    kill::<D>(database, number).await;
    row.lock_in(&mut second).await.unwrap();
    assert!(D::commit(first).await.is_err());
}

pub(crate) async fn kill<D: Database>(database: &D, number: u64) {
    let mut connection = database.connect().await;
    let mut tx = D::begin(&mut connection, None).await;
    run(&mut tx, &D::KILL.replace("{number}", &number.to_string())).await;
}

pub(crate) async fn a_lock_that_is_not_free_in_time_leaves_the_transaction_and_its_settings_as_they_were<
    D: Database,
>(
    database: &D,
) {
    let locks = client(database).await;
    let counter = Counter::make(database).await;
    let row = locks.row(&name("late"));
    let (mut a, mut b) = (database.connect().await, database.connect().await);
    for level in LEVELS {
        let mut first = D::begin(&mut a, level).await;
        row.lock_in(&mut first).await.unwrap();
        let mut second = D::begin(&mut b, level).await;
        run(&mut second, D::SET_TIMEOUT).await;
        let timeout = run(&mut second, D::READ_TIMEOUT).await;
        run(&mut second, &counter.add()).await;
        assert!(!row.try_lock_in(&mut second).await.unwrap());
        for wait in [Duration::ZERO, SHORT] {
            let late = row.clone().wait(wait).lock_in(&mut second).await;
            assert!(
                matches!(&late, Err(Error::TimedOut { waited, .. }) if *waited == wait),
                "{late:?}"
            );
            assert_eq!(run(&mut second, D::READ_TIMEOUT).await, timeout);
        }
        D::rollback(first).await;
        let soon = row.clone().wait(Duration::from_secs(60));
        soon.lock_in(&mut second).await.unwrap();
        assert_eq!(run(&mut second, D::READ_TIMEOUT).await, timeout);
        run(&mut second, &counter.add()).await;
        D::commit(second).await.unwrap();
    }
    assert_eq!(counter.number(database).await, "8");
}

pub(crate) async fn a_long_wait_outlasts_the_timeout_of_the_session_and_leaves_it_as_it_was<
    D: Database,
>(
    database: &D,
) {
    let locks = client(database).await;
    let endless = locks.row(&name("patient"));
    let long = locks.row(&name("patient")).wait(Duration::from_secs(60));
    let (mut a, mut b) = (database.connect().await, database.connect().await);
    for row in [endless, long] {
        let mut first = D::begin(&mut a, None).await;
        row.lock_in(&mut first).await.unwrap();
        let mut second = D::begin(&mut b, None).await;
        run(&mut second, D::SET_TIMEOUT).await;
        let timeout = run(&mut second, D::READ_TIMEOUT).await;
        let holds = async {
            // Longer than that.
            run(&mut first, &D::SLEEP.replace("{seconds}", "1.2")).await;
            D::commit(first).await.unwrap();
        };
        let (locked, ()) = tokio::join!(row.lock_in(&mut second), holds);
        locked.unwrap();
        assert_eq!(run(&mut second, D::READ_TIMEOUT).await, timeout);
        D::commit(second).await.unwrap();
    }
}

pub(crate) async fn a_transaction_may_lock_twice<D: Database>(database: &D) {
    let locks = client(database).await;
    let row = locks.row(&name("twice"));
    let mut connection = database.connect().await;
    let mut tx = D::begin(&mut connection, None).await;
    row.lock_in(&mut tx).await.unwrap();
    row.lock_in(&mut tx).await.unwrap();
    assert!(row.try_lock_in(&mut tx).await.unwrap());
    D::commit(tx).await.unwrap();
}

pub(crate) async fn names_and_prefixes_are_apart<D: Database>(database: &D) {
    let locks = client(database).await;
    let others = client_with(database, "?prefix=other_").await;
    let name = name("apart");
    let (mut a, mut b) = (database.connect().await, database.connect().await);
    let mut first = D::begin(&mut a, None).await;
    locks.row(&name).lock_in(&mut first).await.unwrap();
    let mut second = D::begin(&mut b, None).await;
    for row in [
        others.row(&name),
        locks.row(&format!("{name} ")),
        locks.row(&name.to_uppercase()),
    ] {
        assert!(row.try_lock_in(&mut second).await.unwrap(), "{row:?}");
    }
    // The lease of the same name is another lock.
    let guard = locks.mutex(&name).try_lock().await.unwrap();
    assert!(guard.is_some());
    assert!(!locks.row(&name).try_lock_in(&mut second).await.unwrap());
}

pub(crate) async fn a_deadlock_is_a_conflict<D: Database>(database: &D) {
    let locks = client(database).await;
    let (one, other) = (locks.row(&name("one")), locks.row(&name("other")));
    let (mut a, mut b) = (database.connect().await, database.connect().await);
    let mut first = D::begin(&mut a, None).await;
    let mut second = D::begin(&mut b, None).await;
    one.lock_in(&mut first).await.unwrap();
    other.lock_in(&mut second).await.unwrap();
    let wait = Duration::from_secs(30);
    let (one, other) = (one.wait(wait), other.wait(wait));
    let crosswise = async {
        tokio::select! {
            locked = other.lock_in(&mut first) => locked,
            locked = one.lock_in(&mut second) => locked,
        }
    };
    // Whichever has an answer first: the other one waits for the victim, which is not rolled back yet.
    let error = crosswise.await.err();
    let Some(error) = error else {
        // The victim was rolled back by the server, and the other one was quicker.
        return;
    };
    assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
    assert!(error.nothing_changed() && error.may_pass());
    let source = error.source().unwrap();
    assert!(!source.to_string().is_empty());
    let Error::Conflict { source, .. } = error else {
        unreachable!("as above");
    };
    assert!(D::is_conflict(&source), "{source:?}");
}

pub(crate) async fn counting_under_a_row_lock_is_exact_at_every_level<D: Database>(database: &D) {
    let locks = client(database).await;
    for level in LEVELS {
        let counter = Counter::make(database).await;
        let row = locks.row(&name("count"));
        let one = || add_many::<D>(database, &counter, &row, level);
        tokio::join!(one(), one(), one(), one());
        assert_eq!(counter.number(database).await, "20");
    }
}

/// Adds 1 five times: by reading, counting here, and writing.
async fn add_many<D: Database>(
    database: &D,
    counter: &Counter,
    row: &RowLock,
    level: Option<&str>,
) {
    let mut connection = database.connect().await;
    for _ in 0..5 {
        loop {
            let mut tx = D::begin(&mut connection, level).await;
            row.lock_in(&mut tx).await.unwrap();
            let number: u32 = run(&mut tx, &counter.read()).await.parse().unwrap();
            let write = format!("UPDATE {} SET number = {}", counter.table, number + 1);
            match tx.run(&write, &[]).await {
                Ok(_) => {
                    D::commit(tx).await.unwrap();
                    break;
                }
                Err(error) => {
                    assert!(level.is_some_and(|level| level != "READ COMMITTED"));
                    assert!(D::is_conflict(&error.source), "{error:?}");
                    D::rollback(tx).await;
                }
            }
        }
    }
}

pub(crate) async fn another_kind_of_database_is_refused<D: Database>(database: &D) {
    let locks = client(database).await;
    let name = name("foreign");
    let mut foreign = Foreign(D::OTHER);
    let refused = locks.row(&name).lock_in(&mut foreign).await;
    assert!(
        matches!(&refused, Err(Error::InvalidOption { .. })),
        "{refused:?}"
    );
    let guard = locks.mutex(&name).lock().await.unwrap();
    let refused = guard.hold_in(&mut foreign).await;
    assert!(
        matches!(&refused, Err(Error::InvalidOption { .. })),
        "{refused:?}"
    );
    let memory = tenure::open("memory:").await.unwrap();
    refused_by_other_stores(&memory, &mut foreign).await;
}

async fn refused_by_other_stores(locks: &Client, transaction: &mut Foreign) {
    let refused = locks.row("a").try_lock_in(transaction).await;
    assert!(
        matches!(&refused, Err(Error::Unsupported { .. })),
        "{refused:?}"
    );
    let guard = locks.mutex("a").lock().await.unwrap();
    let refused = guard.hold_in(transaction).await;
    assert!(
        matches!(&refused, Err(Error::Unsupported { .. })),
        "{refused:?}"
    );
}

/// A transaction in which nothing may be run.
struct Foreign(Dialect);

#[async_trait]
impl Transaction for Foreign {
    fn dialect(&self) -> Dialect {
        self.0
    }

    async fn run(&mut self, statement: &str, _: &[&str]) -> Result<Vec<Row>, StatementError> {
        panic!("{statement}")
    }
}

pub(crate) async fn a_bad_name_is_refused<D: Database>(database: &D) {
    let locks = client(database).await;
    let mut connection = database.connect().await;
    let mut tx = D::begin(&mut connection, None).await;
    let refused = locks.row("").lock_in(&mut tx).await;
    assert!(
        matches!(&refused, Err(Error::InvalidName { .. })),
        "{refused:?}"
    );
    D::commit(tx).await.unwrap();
}
