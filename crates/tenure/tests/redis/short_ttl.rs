//! A ttl that is too short for the timeout of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_testkit::RedisServer;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Warnings {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, event: &Metadata<'_>) -> bool {
        *event.level() == Level::WARN
    }
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_ttl_that_one_lost_answer_would_end_is_warned_of_once() {
    let server = RedisServer::start().unwrap();
    let warnings = Warnings::default();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let url = format!("{}?timeout=20s", server.url());
    let client = tenure::open(&url).await.unwrap();
    let lock = client.mutex("a");
    let long = lock.clone().ttl(Duration::from_secs(60));
    long.lock().await.unwrap().release().await.unwrap();
    assert_eq!(warnings.count(), 0);
    for _ in 0..3 {
        let short = lock.clone().ttl(Duration::from_secs(59));
        short.lock().await.unwrap().release().await.unwrap();
        assert_eq!(warnings.count(), 1);
    }
}
