//! The load: buyers that come as fast as they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::{Request, header};
use http_body_util::{BodyExt, Full};
use tokio::task::JoinSet;

use super::front::{Connection, connect};
use super::live::Live;
use super::record::{Outcome, Sale};
use super::wire::Answer;

/// Lets so many buyers come to a port, each with one request, so many at once.
pub(super) fn start(port: u16, buyers: u64, at_once: u32, live: &Live) -> JoinSet<()> {
    let left = Arc::new(AtomicU64::new(buyers));
    let mut tasks = JoinSet::new();
    for _ in 0..u64::from(at_once).min(buyers) {
        let (left, live) = (Arc::clone(&left), live.clone());
        tasks.spawn(async move {
            let mut counter = Counter::new(port);
            let one_less = |left: u64| left.checked_sub(1);
            let (get, set) = (Ordering::Relaxed, Ordering::Relaxed);
            while left.fetch_update(set, get, one_less).is_ok() {
                live.asked();
                let sale = counter.buy(&live).await;
                live.answered(sale);
            }
        });
    }
    tasks
}

/// A place at the counter: one buyer after another, on one connection.
#[derive(Debug)]
struct Counter {
    port: u16,
    connection: Option<Connection>,
}

impl Counter {
    fn new(port: u16) -> Self {
        Self {
            port,
            connection: None,
        }
    }

    /// Sends one request. Who gets no answer does not ask again.
    async fn buy(&mut self, live: &Live) -> Sale {
        let asked = Instant::now();
        let answer = self.ask().await;
        if answer.is_none() {
            self.connection = None;
        }
        let outcome = answer
            .as_ref()
            .map_or(Outcome::Error, |answer| answer.outcome);
        Sale {
            at_us: live.now_us(),
            copy: answer.as_ref().map_or(0, |answer| answer.copy),
            left: answer.as_ref().map_or(0, |answer| answer.left),
            waited_us: answer.as_ref().map_or(0, |answer| answer.waited_us),
            took_us: micros(asked.elapsed()),
            outcome,
            fence: answer.and_then(|answer| answer.fence),
        }
    }

    async fn ask(&mut self) -> Option<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.port).await.ok()?,
        };
        connection.ready().await.ok()?;
        let request = Request::post("/inventory/sale")
            .header(header::HOST, "sale")
            .body(Full::default());
        let answer = connection.send_request(request.ok()?).await.ok()?;
        let body = answer.into_body().collect().await.ok()?;
        self.connection = Some(connection);
        // A front that reaches no copy answers in words of its own.
        serde_json::from_slice(&body.to_bytes()).ok()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
