//! The blocking module: the same API, with and without a runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure::blocking;
use tenure::{Error, Health, Loss, Outcome};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn locks_without_a_runtime() {
    let locks = blocking::open("memory:").unwrap();
    let guard = locks.mutex("a").lock().unwrap();
    assert_eq!(guard.health(), Health::Held);
    assert!(locks.mutex("a").try_lock().unwrap().is_none());
    let error = locks
        .mutex("a")
        .lock_timeout(Duration::from_millis(10))
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }));
    assert_eq!(guard.release().unwrap(), Outcome::Released);
    drop(locks.mutex("a").lock_timeout(LONG).unwrap());
}

#[test]
fn excludes_threads() {
    let locks = blocking::open("memory:").unwrap();
    let (inside, count) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let guard = locks.mutex("a").lock().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    count.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 400);
}

#[test]
fn a_thread_enters_again_and_others_wait() {
    let locks = blocking::open("memory:").unwrap();
    let outer = locks.mutex("a").reentrant().lock().unwrap();
    let inner = locks.mutex("a").reentrant().lock_timeout(LONG).unwrap();
    let other = std::thread::scope(|scope| {
        scope
            .spawn(|| locks.mutex("a").reentrant().try_lock().unwrap().is_some())
            .join()
            .unwrap()
    });
    assert!(!other);
    assert_eq!(inner.release().unwrap(), Outcome::Lowered { depth: 1 });
    assert_eq!(outer.release().unwrap(), Outcome::Released);
}

#[tokio::test]
async fn works_on_a_thread_of_a_runtime() {
    let locks = blocking::open("memory:").unwrap();
    let guard = locks.mutex("a").lock().unwrap();
    guard.release().unwrap();
    drop(locks.mutex("a").lock().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn works_on_a_thread_of_a_big_runtime() {
    let locks = blocking::open("memory:").unwrap();
    tokio::task::spawn_blocking(move || locks.mutex("a").lock().unwrap().release().unwrap())
        .await
        .unwrap();
}

#[test]
fn tells_of_a_loss() {
    let locks = blocking::open("memory:").unwrap();
    let guard = locks.rwlock("a").write().lock().unwrap();
    assert_eq!(guard.lost_timeout(Duration::from_millis(10)), None);
    assert_eq!(locks.evict(guard.name()).unwrap().len(), 1);
    assert_eq!(guard.lost_timeout(LONG), Some(Loss::Evicted));
    assert!(locks.list(None).unwrap().is_empty());
}

#[test]
fn says_what_is_wrong_with_a_url_or_a_name() {
    let error = blocking::open("redis://user:secret@host/")
        .map(drop)
        .unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
    let locks = blocking::open("memory:").unwrap();
    let error = locks.semaphore("", 3).take(1).lock().unwrap_err();
    assert!(matches!(error, Error::InvalidName { .. }));
}
