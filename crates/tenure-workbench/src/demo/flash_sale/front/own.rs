//! A front of our own, for machines without nginx: small, and on a thread of its own.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::oneshot;

use super::{Connection, connect, listen};
use tenure_cli::error::Result;

/// The front, until dropped.
#[derive(Debug)]
pub(in crate::demo::flash_sale) struct Own {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Own {
    pub(super) fn start(port: Option<u16>, copies: &[u16]) -> Result<Self> {
        let listener = listen(port)?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let copies = Arc::new(Copies::on(copies));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // It ends only if the listener does, and then buyers are told by their connections.
                    _ = serve(listener, copies) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self {
            port,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It fails only if the thread panicked, and that was told.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, copies: Arc<Copies>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = Router::new().fallback(pass_on).with_state(copies);
    axum::serve(listener, routes).await
}

/// Sends a request to a copy, and its answer back.
async fn pass_on(State(copies): State<Arc<Copies>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let Some((copy, mut connection)) = copies.connect().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let request = Request::from_parts(parts, Full::new(body.to_bytes()));
    // Never sent twice: nobody knows whether the first one sold something.
    let Ok(answer) = connection.send_request(request).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (parts, body) = answer.into_parts();
    let Ok(body) = body.collect().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    copy.keep(connection);
    Response::from_parts(parts, Body::from(body.to_bytes()))
}

/// The copies, and who is next.
#[derive(Debug)]
struct Copies {
    copies: Vec<Arc<Copy>>,
    turn: AtomicUsize,
}

/// One copy, as the front sees it.
#[derive(Debug)]
struct Copy {
    port: u16,
    /// Requests that are not answered yet.
    busy: AtomicUsize,
    idle: Mutex<Vec<Connection>>,
}

/// A request on its way.
#[derive(Debug)]
struct OnItsWay(Arc<Copy>);

impl Copies {
    fn on(ports: &[u16]) -> Self {
        let copy = |port: &u16| Copy {
            port: *port,
            busy: AtomicUsize::new(0),
            idle: Mutex::default(),
        };
        Self {
            copies: ports.iter().map(copy).map(Arc::new).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Connects to the least busy copy that can be reached.
    async fn connect(&self) -> Option<(OnItsWay, Connection)> {
        for copy in self.by_load() {
            let copy = OnItsWay::to(copy);
            if let Some(connection) = copy.connection().await {
                return Some((copy, connection));
            }
        }
        None
    }

    /// The copies, the least busy first; among equals they take turns.
    fn by_load(&self) -> Vec<Arc<Copy>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.copies.len();
        let (before, after) = self.copies.split_at(turn);
        let mut copies: Vec<_> = after.iter().chain(before).cloned().collect();
        copies.sort_by_key(|copy| copy.busy.load(Ordering::Relaxed));
        copies
    }
}

impl OnItsWay {
    fn to(copy: Arc<Copy>) -> Self {
        copy.busy.fetch_add(1, Ordering::Relaxed);
        Self(copy)
    }

    /// A connection that was kept, or a new one.
    async fn connection(&self) -> Option<Connection> {
        while let Some(mut kept) = self.kept() {
            if kept.ready().await.is_ok() {
                return Some(kept);
            }
        }
        connect(self.0.port).await.ok()
    }

    /// Not inlined above, where the list would stay locked over the wait.
    fn kept(&self) -> Option<Connection> {
        self.idle().pop()
    }

    fn keep(&self, connection: Connection) {
        self.idle().push(connection);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
