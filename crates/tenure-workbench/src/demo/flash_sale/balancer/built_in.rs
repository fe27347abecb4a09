//! The built-in load balancer, for machines without nginx: small, and in its own thread.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::oneshot;

use super::{Balancer, Connection, connect, listen};
use tenure_cli::Result;

/// The load balancer, until dropped.
#[derive(Debug)]
struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub(super) fn start(port: Option<u16>, copies: &[u16]) -> Result<Balancer> {
    let listener = listen(port)?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let copies = Arc::new(Upstreams::on(copies));
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                // It ends only if the listener fails, and then the buyers' connections fail too.
                _ = serve(listener, copies) => {}
                _ = stopped => {}
            }
        });
    });
    let server = Server {
        stop: Some(stop),
        thread: Some(thread),
    };
    Ok(Balancer {
        port,
        name: "own",
        _running: Box::new(server),
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // This fails only if the thread panicked, which was printed.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, copies: Arc<Upstreams>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = Router::new().fallback(forward).with_state(copies);
    axum::serve(listener, routes).await
}

async fn forward(State(copies): State<Arc<Upstreams>>, request: Request) -> Response {
    let answer = copies.forward(request).await;
    answer.unwrap_or_else(|| StatusCode::BAD_GATEWAY.into_response())
}

#[derive(Debug)]
struct Upstreams {
    copies: Vec<Upstream>,
    turn: AtomicUsize,
}

/// A copy, as seen by the load balancer.
#[derive(Debug)]
struct Upstream {
    port: u16,
    in_flight: AtomicUsize,
    idle: Mutex<Vec<Connection>>,
}

/// A request in flight.
#[derive(Debug)]
struct InFlight<'a>(&'a Upstream);

impl Upstreams {
    fn on(ports: &[u16]) -> Self {
        let copy = |port: &u16| Upstream {
            port: *port,
            in_flight: AtomicUsize::new(0),
            idle: Mutex::default(),
        };
        Self {
            copies: ports.iter().map(copy).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Sends a request to a copy, and returns its answer, if any.
    async fn forward(&self, request: Request) -> Option<Response> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let (copy, mut connection) = self.connect().await?;
        let request = Request::from_parts(parts, Full::new(body));
        // Never retried: the first request may have sold something.
        let (parts, body) = connection.send_request(request).await.ok()?.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        copy.idle().push(connection);
        Some(Response::from_parts(parts, Body::from(body)))
    }

    /// Connects to the reachable copy with the fewest requests in flight.
    async fn connect(&self) -> Option<(InFlight<'_>, Connection)> {
        for copy in self.by_load() {
            let copy = InFlight::to(copy);
            if let Some(connection) = copy.connection().await {
                return Some((copy, connection));
            }
        }
        None
    }

    /// Returns the copies, the least loaded first; equally loaded copies take turns.
    fn by_load(&self) -> Vec<&Upstream> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.copies.len();
        let (before, after) = self.copies.split_at(turn);
        let mut copies: Vec<_> = after.iter().chain(before).collect();
        copies.sort_by_key(|copy| copy.in_flight.load(Ordering::Relaxed));
        copies
    }
}

impl<'a> InFlight<'a> {
    fn to(copy: &'a Upstream) -> Self {
        copy.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(copy)
    }

    /// Returns an idle connection, or a new one.
    async fn connection(&self) -> Option<Connection> {
        loop {
            // A separate statement, so that the list is not locked during the await.
            let idle = self.idle().pop();
            let Some(mut idle) = idle else {
                return connect(self.0.port).await;
            };
            if idle.ready().await.is_ok() {
                return Some(idle);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'a, Vec<Connection>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
