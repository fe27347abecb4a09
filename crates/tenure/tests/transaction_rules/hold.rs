//! The proof of a lease in a transaction: what is committed behind it was written under the lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure::{Client, Error, Guard, Health, Loss, Name};

use super::row::kill;
use super::{Counter, Database, LEVELS, SHORT, client, name, pausable, run};
use crate::databases::{ends_by, until_longer_than};

pub(crate) async fn a_lease_is_proved_at_every_level<D: Database>(database: &D) {
    let locks = client(database).await;
    let counter = Counter::make(database).await;
    let mut connection = database.connect().await;
    let name = name("proved");
    for level in LEVELS {
        let guard = locks.mutex(&name).lock().await.unwrap();
        let mut tx = D::begin(&mut connection, level).await;
        run(&mut tx, &counter.add()).await;
        guard.hold_in(&mut tx).await.unwrap();
        guard.hold_in(&mut tx).await.unwrap();
        D::commit(tx).await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(counter.number(database).await, "4");
}

pub(crate) async fn a_lease_that_another_took_over_cannot_commit<D: Database>(database: &D) {
    let bob = client(database).await;
    let counter = Counter::make(database).await;
    let mut connection = database.connect().await;
    for level in LEVELS {
        let name = name("taken over");
        let (ann, mine) = loop {
            let (ann, pause) = pausable(database).await;
            let mine = ann.mutex(&name).ttl(SHORT).lock().await.unwrap();
            pause.begin();
            // On a busy machine the lease may be over before the pause begins.
            if mine.health() == Health::Held {
                break (ann, mine);
            }
        };
        let mut tx = D::begin(&mut connection, level).await;
        run(&mut tx, &counter.add()).await;
        // Waits until the lease is over.
        let theirs = bob.mutex(&name).lock().await.unwrap();
        assert!(theirs.fence() > mine.fence());
        assert_eq!(mine.health(), Health::Held, "it does not know");
        let refused = mine.hold_in(&mut tx).await;
        match level {
            None | Some("READ COMMITTED") => is_lost(refused, &[Loss::TakenOver]),
            // At the stricter levels the database may say first that the row changed.
            _ => match refused {
                Err(Error::Conflict { .. }) => {}
                refused => is_lost(refused, &[Loss::TakenOver]),
            },
        }
        D::rollback(tx).await;
        theirs.release().await.unwrap();
        drop(mine);
        // Also once the other has let go.
        let mut tx = D::begin(&mut connection, level).await;
        let late = ann.mutex(&name).ttl(SHORT).lock().await.unwrap();
        bob.mutex(&name)
            .lock()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        is_lost(late.hold_in(&mut tx).await, &[Loss::Gone]);
        D::rollback(tx).await;
    }
    assert_eq!(counter.number(database).await, "0");
}

pub(crate) async fn a_lease_that_ended_cannot_commit<D: Database>(database: &D) {
    let locks = client(database).await;
    let mut connection = database.connect().await;
    let name = name("ended");
    let guard = locks.mutex(&name).lock().await.unwrap();
    let mut tx = D::begin(&mut connection, None).await;
    expire::<D>(database, &name).await;
    is_lost(guard.hold_in(&mut tx).await, &[Loss::Expired]);
    D::rollback(tx).await;
}

async fn expire<D: Database>(database: &D, name: &str) {
    use tenure::transaction::Transaction as _;
    let mut connection = database.connect().await;
    let mut tx = D::begin(&mut connection, None).await;
    tx.run(D::EXPIRE, &[name]).await.unwrap();
    D::commit(tx).await.unwrap();
}

pub(crate) async fn an_evicted_lease_cannot_commit<D: Database>(database: &D) {
    let (locks, operator) = (client(database).await, client(database).await);
    let mut connection = database.connect().await;
    let name = name("evicted");
    for is_taken_over in [false, true] {
        let guard = locks.mutex(&name).lock().await.unwrap();
        let evicted = operator.evict(&Name::new(&name).unwrap()).await.unwrap();
        assert_eq!(evicted.len(), 1);
        let next = operator.mutex(&name);
        let next = match is_taken_over {
            true => Some(next.lock().await.unwrap()),
            false => None,
        };
        let mut tx = D::begin(&mut connection, None).await;
        is_lost(guard.hold_in(&mut tx).await, &[Loss::Evicted]);
        D::rollback(tx).await;
        drop(next);
        operator.settled().await;
    }
}

pub(crate) async fn nobody_takes_over_between_the_proof_and_the_commit<D: Database>(database: &D) {
    let ((ann, pause), bob) = (pausable(database).await, client(database).await);
    let counter = Counter::make(database).await;
    let name = name("between");
    let mut connection = database.connect().await;
    let mine = ann
        .mutex(&name)
        .ttl(Duration::from_millis(500))
        .lock()
        .await
        .unwrap();
    pause.begin();
    let fence = mine.fence();
    let mut tx = D::begin(&mut connection, None).await;
    run(&mut tx, &counter.add()).await;
    mine.hold_in(&mut tx).await.unwrap();
    // Here its process stands still, and the lease ends.
    run(&mut tx, &D::SLEEP.replace("{seconds}", "0.6")).await;
    let refused = bob.mutex(&name).try_lock().await;
    let fault = refused.expect_err("the row is locked");
    assert!(fault.nothing_changed() && fault.may_pass(), "{fault:?}");
    assert!(bob.mutex(&name).lock_timeout(SHORT).await.is_err());
    let lock = bob.mutex(&name);
    let waits = async {
        let theirs = lock.lock().await.unwrap();
        (counter.number(database).await, theirs)
    };
    let commits = async {
        run(&mut tx, &D::SLEEP.replace("{seconds}", "0.3")).await;
        D::commit(tx).await.unwrap();
    };
    let ((seen, theirs), ()) = tokio::join!(waits, commits);
    assert_eq!(seen, "1", "whoever has it next sees what was written");
    assert!(theirs.fence() > fence);
}

pub(crate) async fn a_connection_killed_after_the_proof_commits_nothing<D: Database>(database: &D) {
    let (ann, bob) = (client(database).await, client(database).await);
    let counter = Counter::make(database).await;
    let name = name("killed");
    let mut connection = database.connect().await;
    let number = D::number(&mut connection).await;
    let mine = ann.mutex(&name).lock().await.unwrap();
    let mut tx = D::begin(&mut connection, None).await;
    run(&mut tx, &counter.add()).await;
    mine.hold_in(&mut tx).await.unwrap();
    kill::<D>(database, number).await;
    assert!(D::commit(tx).await.is_err());
    mine.release().await.unwrap();
    let _theirs = bob.mutex(&name).lock().await.unwrap();
    assert_eq!(counter.number(database).await, "0");
}

pub(crate) async fn a_lease_with_waiters_is_proved<D: Database>(database: &D) {
    let (ann, bob) = (client(database).await, client(database).await);
    let name = name("waiters");
    let mut connection = database.connect().await;
    let mine = ann.mutex(&name).lock().await.unwrap();
    let lock = bob.mutex(&name);
    let waiter = tokio::spawn(async move { lock.lock().await });
    stands_in_line(&ann, &name).await;
    let mut tx = D::begin(&mut connection, None).await;
    mine.hold_in(&mut tx).await.unwrap();
    D::commit(tx).await.unwrap();
    mine.release().await.unwrap();
    let theirs = waiter.await.unwrap().unwrap();
    let mut tx = D::begin(&mut connection, None).await;
    theirs.hold_in(&mut tx).await.unwrap();
    D::commit(tx).await.unwrap();
}

async fn stands_in_line(locks: &Client, name: &str) {
    let name = Name::new(name).unwrap();
    loop {
        let entries = locks.list(Some(&name)).await.unwrap();
        if entries.iter().any(|entry| !entry.waiters.is_empty()) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn a_lease_that_was_passed_on_is_proved<D: Database>(database: &D) {
    let (locks, pause) = pausable(database).await;
    let name = name("passed on");
    let mut connection = database.connect().await;
    let lock = locks.mutex(&name);
    // A lease is passed on only for a few milliseconds, which by this clock are not over before they begin.
    pause.begin();
    loop {
        let first = lock.lock().await.unwrap();
        let mut next = Box::pin(lock.lock());
        tokio::select! {
            biased;
            _ = &mut next => panic!("it is held"),
            () = std::future::ready(()) => {}
        }
        let fence = first.fence();
        drop(first);
        let second = next.await.unwrap();
        let mut tx = D::begin(&mut connection, None).await;
        second.hold_in(&mut tx).await.unwrap();
        D::commit(tx).await.unwrap();
        if second.fence().get() == fence.get() + 1 {
            return;
        }
    }
}

pub(crate) async fn readers_prove_their_leases_side_by_side<D: Database>(database: &D) {
    let (ann, bob) = (client(database).await, client(database).await);
    let name = name("readers");
    let first = ann.rwlock(&name).read().lock().await.unwrap();
    let second = bob.rwlock(&name).read().lock().await.unwrap();
    side_by_side(database, &ann, &name, [first, second]).await;
}

pub(crate) async fn permits_are_proved_side_by_side<D: Database>(database: &D) {
    let (ann, bob) = (client(database).await, client(database).await);
    let name = name("permits");
    let first = ann.semaphore(&name, 3).take(1).lock().await.unwrap();
    let second = bob.semaphore(&name, 3).take(1).lock().await.unwrap();
    side_by_side(database, &ann, &name, [first, second]).await;
}

async fn side_by_side<D: Database>(database: &D, locks: &Client, name: &str, guards: [Guard; 2]) {
    let (mut a, mut b) = (database.connect().await, database.connect().await);
    let mut first = D::begin(&mut a, None).await;
    let mut second = D::begin(&mut b, None).await;
    guards[0].hold_in(&mut first).await.unwrap();
    guards[1].hold_in(&mut second).await.unwrap();
    D::commit(second).await.unwrap();
    D::commit(first).await.unwrap();
    locks.evict(&Name::new(name).unwrap()).await.unwrap();
    let mut tx = D::begin(&mut a, None).await;
    for guard in &guards {
        is_lost(guard.hold_in(&mut tx).await, &[Loss::Evicted]);
    }
}

pub(crate) async fn a_short_transaction_does_not_lose_the_guard<D: Database>(database: &D) {
    let locks = client(database).await;
    let mut connection = database.connect().await;
    let ttl = Duration::from_secs(6);
    let name = name("short");
    let guard = locks.mutex(&name).ttl(ttl).lock().await.unwrap();
    let mut tx = D::begin(&mut connection, None).await;
    guard.hold_in(&mut tx).await.unwrap();
    // The renewal after a third of the ttl has to wait.
    run(&mut tx, &D::SLEEP.replace("{seconds}", "2.5")).await;
    D::commit(tx).await.unwrap();
    while guard.time_left() < ttl * 3 / 4 {
        assert!(!matches!(guard.health(), Health::Lost(_)));
        tokio::task::yield_now().await;
    }
    let mut tx = D::begin(&mut connection, None).await;
    guard.hold_in(&mut tx).await.unwrap();
}

/// At every moment some reader is between its proof and its commit.
pub(crate) async fn readers_without_a_gap_do_not_starve_renewals<D: Database>(database: &D) {
    let (ann, bob) = (client(database).await, client(database).await);
    let name = name("without a gap");
    let read = |locks: &Client| locks.rwlock(&name).read().ttl(Duration::from_secs(12));
    let guards = [
        read(&ann).lock().await.unwrap(),
        read(&bob).lock().await.unwrap(),
    ];
    let is_over = AtomicBool::new(false);
    // Of different lengths, so that they do not end together.
    let reads = async |guard: &Guard, seconds: &str| {
        let mut connection = database.connect().await;
        while !is_over.load(Ordering::Relaxed) {
            let mut tx = D::begin(&mut connection, None).await;
            guard.hold_in(&mut tx).await.unwrap();
            run(&mut tx, &D::SLEEP.replace("{seconds}", seconds)).await;
            D::commit(tx).await.unwrap();
        }
    };
    let renewals = async {
        for _ in 0..2 {
            let ends = guards.each_ref().map(ends_by);
            for (guard, end) in guards.iter().zip(ends) {
                until_longer_than(end, guard).await;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(
        renewals,
        reads(&guards[0], "0.13"),
        reads(&guards[1], "0.17"),
        reads(&guards[0], "0.19"),
        reads(&guards[1], "0.23"),
        reads(&guards[0], "0.29"),
        reads(&guards[1], "0.31"),
    );
}

pub(crate) async fn counting_under_a_lease_is_exact_though_holders_pause<D: Database>(
    database: &D,
) {
    let counter = Counter::make(database).await;
    let name = name("pauses");
    let one = || count_and_pause::<D>(database, &name, &counter);
    let counted: [(u32, u32); 4] = tokio::join!(one(), one(), one(), one()).into();
    let committed: u32 = counted.iter().map(|(committed, _)| committed).sum();
    let lost: u32 = counted.iter().map(|(_, lost)| lost).sum();
    assert_eq!(counter.number(database).await, committed.to_string());
    assert!(committed > 0 && lost > 0, "{committed} and {lost}");
}

/// Returns how often it counted, and how often it was refused because its lease was over.
async fn count_and_pause<D: Database>(database: &D, name: &str, counter: &Counter) -> (u32, u32) {
    use tenure::transaction::Transaction as _;
    let mut connection = database.connect().await;
    let (mut committed, mut lost) = (0, 0);
    for round in 0..6 {
        let (locks, pause) = pausable(database).await;
        let guard = locks.mutex(name).ttl(SHORT).lock().await.unwrap();
        pause.begin();
        let mut tx = D::begin(&mut connection, Some("READ COMMITTED")).await;
        let number: u32 = run(&mut tx, &counter.read()).await.parse().unwrap();
        if round % 2 == 1 {
            run(&mut tx, &D::SLEEP.replace("{seconds}", "0.1")).await;
        }
        let write = format!("UPDATE {} SET number = {}", counter.table, number + 1);
        tx.run(&write, &[]).await.unwrap();
        match guard.hold_in(&mut tx).await {
            Ok(()) => {
                D::commit(tx).await.unwrap();
                committed += 1;
            }
            Err(Error::Lost { .. }) => {
                D::rollback(tx).await;
                lost += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
        drop(guard);
    }
    (committed, lost)
}

#[track_caller]
fn is_lost(outcome: tenure::Result<()>, why: &[Loss]) {
    match &outcome {
        Err(Error::Lost { source, .. }) if why.contains(source) => {}
        _ => panic!("{outcome:?} is not {why:?}"),
    }
}
