//! First come, first served, inside a process and between processes.

use std::sync::{Arc, Mutex};

use tenure::conformance::faults::Request;
use tokio::time::{sleep, timeout};

use crate::{World, millis, secs};

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_the_order_in_which_they_came() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..20 {
        let client = if number % 4 == 0 {
            &world.here
        } else {
            &world.there
        };
        let (client, order) = (client.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = client
                .mutex("a")
                .reason(&number.to_string())
                .lock()
                .await
                .unwrap();
            order.lock().unwrap().push(number);
            guard.release().await.unwrap();
        }));
        sleep(millis(1)).await;
    }
    sleep(secs(1)).await;
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let here: Vec<_> = (0..20).filter(|number| number % 4 == 0).collect();
    let there: Vec<_> = (0..20).filter(|number| number % 4 != 0).collect();
    let order = order.lock().unwrap();
    let of = |wanted: &[i32]| -> Vec<i32> {
        order
            .iter()
            .copied()
            .filter(|number| wanted.contains(number))
            .collect()
    };
    assert_eq!(
        of(&here),
        here,
        "in the order in which they came, in one process"
    );
    assert_eq!(
        of(&there),
        there,
        "in the order in which they came, in one process"
    );
    let places: Vec<_> = here
        .iter()
        .map(|n| order.iter().position(|o| o == n).unwrap())
        .collect();
    assert!(
        places.windows(2).all(|two| two[1] - two[0] <= 4),
        "processes take turns: {order:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn shared_waiters_that_stand_together_go_in_together() {
    let world = World::new();
    let lock = world.here.rwlock("a");
    let writer = lock.write().lock().await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..10 {
        let lock = lock.clone();
        readers.push(tokio::spawn(
            async move { lock.read().lock().await.unwrap() },
        ));
    }
    sleep(millis(10)).await;
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(timeout(secs(1), reader).await.expect("all go in").unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_is_not_starved_by_readers() {
    let world = World::new();
    let reader = world.here.rwlock("a").read().lock().await.unwrap();
    let there = world.there.clone();
    let writer = tokio::spawn(async move { there.rwlock("a").write().lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    let here = world.here.clone();
    let late = tokio::spawn(async move { here.rwlock("a").read().lock().await.unwrap() });
    sleep(secs(1)).await;
    assert!(
        !late.is_finished(),
        "a reader that came later does not pass the writer"
    );
    reader.release().await.unwrap();
    let writer = timeout(secs(1), writer)
        .await
        .expect("the writer is next")
        .unwrap();
    assert!(!late.is_finished());
    writer.release().await.unwrap();
    drop(
        timeout(secs(1), late)
            .await
            .expect("then the reader")
            .unwrap(),
    );
}

#[tokio::test(start_paused = true)]
async fn try_lock_does_not_jump_the_line() {
    let world = World::new();
    let first = world.there.mutex("a").lock().await.unwrap();
    let here = world.here.clone();
    let second = tokio::spawn(async move { here.mutex("a").lock().await.unwrap() });
    world.until_waiting("a", 1).await;
    let asked = world.fault.requests(Request::Acquire);
    assert!(world.here.mutex("a").try_lock().await.unwrap().is_none());
    assert_eq!(
        world.fault.requests(Request::Acquire),
        asked,
        "known without asking"
    );
    assert!(world.there.mutex("a").try_lock().await.unwrap().is_none());
    first.release().await.unwrap();
    drop(second.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_lets_in_as_many_as_it_has_permits() {
    let world = World::new();
    let semaphore = world.here.semaphore("a", 3);
    let two = semaphore.take(2).lock().await.unwrap();
    let one = world.there.semaphore("a", 3).take(1).lock().await.unwrap();
    assert!(semaphore.take(1).try_lock().await.unwrap().is_none());
    drop(two);
    sleep(millis(1)).await;
    let again = semaphore.take(2).try_lock().await.unwrap();
    assert!(again.is_some());
    drop((one, again));
    world.assert_nothing_left("all permits are back").await;
}
