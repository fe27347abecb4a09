//! The load: each buyer starts as soon as the previous one was answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::http::{Request, header};
use http_body_util::{BodyExt, Full};
use tokio::task::JoinSet;

use super::balancer::{Connection, connect};
use super::live::Live;
use super::messages::Answer;
use super::record::Sale;
use crate::clock::micros;

/// Sends the requests of all buyers to a port, `at_once` of them at the same time.
pub(super) fn start(port: u16, buyers: u64, at_once: u32, live: &Live) -> JoinSet<()> {
    let left = Arc::new(AtomicU64::new(buyers));
    let mut tasks = JoinSet::new();
    for _ in 0..u64::from(at_once).min(buyers) {
        let (left, live) = (Arc::clone(&left), live.clone());
        tasks.spawn(async move {
            let mut counter = Counter {
                port,
                connection: None,
            };
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

/// A connection that one buyer after another uses.
#[derive(Debug)]
struct Counter {
    port: u16,
    connection: Option<Connection>,
}

impl Counter {
    /// Sends one request. A buyer who gets no answer does not retry.
    async fn buy(&mut self, live: &Live) -> Sale {
        let asked = Instant::now();
        let answer = self.ask().await;
        let took_us = micros(asked.elapsed());
        let at_us = live.now_us();
        match answer {
            Some(answer) => Sale {
                at_us,
                copy: answer.copy,
                left: answer.left,
                waited_us: answer.waited_us,
                took_us,
                outcome: answer.outcome,
                fence: answer.fence,
            },
            None => Sale::unanswered(at_us, took_us),
        }
    }

    /// Sends the request, and keeps the connection if there was an answer.
    async fn ask(&mut self) -> Option<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.port).await?,
        };
        connection.ready().await.ok()?;
        let request = Request::post("/inventory/sale")
            .header(header::HOST, "sale")
            .body(Full::default());
        let answer = connection.send_request(request.ok()?).await.ok()?;
        let body = answer.into_body().collect().await.ok()?;
        // A load balancer that cannot reach any copy does not answer in JSON.
        let answer = serde_json::from_slice(&body.to_bytes()).ok()?;
        self.connection = Some(connection);
        Some(answer)
    }
}
