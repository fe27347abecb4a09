//! The metrics of the engine, as a program's recorder sees them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// Sums everything up by name: counters and gauges by value, histograms by count.
#[derive(Debug, Default)]
struct Sums(Mutex<HashMap<String, f64>>);

impl Sums {
    fn of(&self, name: &str) -> f64 {
        self.0
            .lock()
            .unwrap()
            .get(name)
            .copied()
            .unwrap_or_default()
    }
}

struct Sum(Arc<Sums>, String);

impl Sum {
    fn add(&self, value: f64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _value: u64) {
        panic!("nothing is counted so");
    }
}

impl GaugeFn for Sum {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _value: f64) {
        panic!("nothing is measured so");
    }
}

impl HistogramFn for Sum {
    fn record(&self, value: f64) {
        assert!(value >= 0.0);
        self.add(1.0);
    }
}

struct Book(Arc<Sums>);

impl Book {
    fn sum(&self, key: &Key) -> Arc<Sum> {
        let label = key
            .labels()
            .next()
            .map(|label| (label.key(), label.value()));
        assert_eq!(label, Some(("store", "memory")));
        Arc::new(Sum(Arc::clone(&self.0), key.name().to_owned()))
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.sum(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.sum(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.sum(key))
    }
}

#[tokio::test(start_paused = true)]
async fn counts_who_holds_and_who_waits() {
    let sums = Arc::new(Sums::default());
    let book = Book(Arc::clone(&sums));
    let _local = metrics::set_default_local_recorder(&book);
    let locks = tenure::open("memory:").await.unwrap();

    let first = locks.mutex("a").lock().await.unwrap();
    let lock = locks.mutex("a");
    let second = tokio::spawn(async move { lock.lock().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(sums.of("tenure_held"), 1.0);
    assert_eq!(sums.of("tenure_waiting"), 1.0);
    first.release().await.unwrap();
    let second = second.await.unwrap();
    assert_eq!(sums.of("tenure_waiting"), 0.0);
    assert_eq!(sums.of("tenure_granted_total"), 2.0);
    assert_eq!(sums.of("tenure_wait_seconds"), 2.0);

    locks.evict(second.name()).await.unwrap();
    second.lost().await;
    assert_eq!(sums.of("tenure_lost_total"), 1.0);
    drop(second);
    locks.settled().await;
    assert_eq!(sums.of("tenure_held"), 0.0);
    assert_eq!(sums.of("tenure_hold_seconds"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_is_not_counted_as_waiting() {
    let sums = Arc::new(Sums::default());
    let book = Book(Arc::clone(&sums));
    let _local = metrics::set_default_local_recorder(&book);
    let locks = tenure::open("memory:").await.unwrap();
    let _held = locks.mutex("a").lock().await.unwrap();
    locks
        .mutex("a")
        .lock_timeout(Duration::from_secs(1))
        .await
        .unwrap_err();
    assert_eq!(sums.of("tenure_waiting"), 0.0);
    assert_eq!(sums.of("tenure_granted_total"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn re_entry_counts_as_one_hold() {
    let sums = Arc::new(Sums::default());
    let book = Book(Arc::clone(&sums));
    let _local = metrics::set_default_local_recorder(&book);
    let locks = tenure::open("memory:").await.unwrap();
    let outer = locks.mutex("a").reentrant().lock().await.unwrap();
    let inner = locks.mutex("a").reentrant().lock().await.unwrap();
    assert_eq!(sums.of("tenure_held"), 1.0);
    inner.release().await.unwrap();
    assert_eq!(sums.of("tenure_held"), 1.0);
    outer.release().await.unwrap();
    assert_eq!(sums.of("tenure_held"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_is_neither_held_nor_lost() {
    let sums = Arc::new(Sums::default());
    let book = Book(Arc::clone(&sums));
    let _local = metrics::set_default_local_recorder(&book);
    let locks = tenure::open("memory:").await.unwrap();
    let lock = locks.mutex("a").keep(Duration::from_secs(10));
    for uses in 1..4_u32 {
        let guard = lock.lock().await.unwrap();
        assert_eq!(sums.of("tenure_held"), 1.0);
        guard.release().await.unwrap();
        assert_eq!(sums.of("tenure_held"), 0.0);
        assert_eq!(sums.of("tenure_granted_total"), f64::from(uses));
        assert_eq!(sums.of("tenure_hold_seconds"), f64::from(uses));
    }
    let evicted = locks.evict("a").await.unwrap();
    assert_eq!(evicted.len(), 1, "it is kept");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(sums.of("tenure_lost_total"), 0.0);
    assert_eq!(sums.of("tenure_held"), 0.0);
}
