//! The load balancer in front of the copies: nginx, or a small built-in one.
//!
//! Both choose the copy with the fewest requests in flight. Round robin would let a frozen copy collect
//! all buyers, one after another, while the others have nothing to do.

use std::any::Any;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::args::FrontKind;
use tenure_cli::{Failure, Result};

mod built_in;
mod nginx;

/// A running load balancer; stopped when dropped.
#[derive(Debug)]
pub(super) struct Balancer {
    /// The port that buyers connect to.
    pub(super) port: u16,
    /// Its name, as in `--front`.
    pub(super) name: &'static str,
    _running: Box<dyn Any>,
}

impl Balancer {
    /// Starts the chosen load balancer for copies on these ports.
    pub(super) fn start(
        kind: FrontKind,
        port: Option<u16>,
        copies: &[u16],
        folder: &Path,
    ) -> Result<Self> {
        let program = match kind {
            FrontKind::Own => None,
            FrontKind::Auto => nginx::find().ok(),
            FrontKind::Nginx => Some(nginx::find()?),
        };
        match program {
            Some(program) => nginx::start(&program, port, copies, folder),
            None => built_in::start(port, copies),
        }
    }
}

/// A connection to a local port, for one request after another.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// Connects to a local port.
pub(super) async fn connect(port: u16) -> Option<Connection> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    // It ends with the sender; errors are reported to the request.
    tokio::spawn(async move { drop(connection.await) });
    Some(sender)
}

/// Listens on a local port, or on any free one.
fn listen(port: Option<u16>) -> Result<TcpListener> {
    let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
    listening.map_err(|error| {
        let port = port.map_or_else(String::new, |port| format!(" {port}"));
        let sentence = format!("port{port} cannot be used: {error}; choose another with --port");
        Failure::unavailable(sentence)
    })
}
