//! Ways to servers that may delay every answer, as a long cable would.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::nodes::Nodes;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

/// The same store, but each of its servers so far away.
pub(super) fn away(store: &Store, by: Duration) -> Result<Store> {
    let mut nodes = Nodes::of(store.url());
    for node in 0..nodes.count() {
        let Some(server) = nodes.address(node) else {
            let shown = store.shown();
            let sentence = format!(
                "--away leads to servers by host and port and without encryption, as in \
                 redis://host:port; {shown} has another way"
            );
            return Err(Failure::new(exit_code::USAGE, sentence));
        };
        let detour = Detour::start(server, by)?;
        nodes.set_address(node, &detour.address().to_string());
    }
    Ok(Store::of(&nodes.url()))
}

/// A port of this machine that leads to a server.
///
/// Its threads sleep while nobody uses it, and end with the process.
#[derive(Debug)]
pub(super) struct Detour(SocketAddr);

impl Detour {
    /// Leads to a server; its answers take so much longer.
    pub(super) fn start(server: String, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = listener.map_err(|error| {
            let sentence = format!("no other way to {server} can be made: {error}");
            Failure::new(exit_code::UNAVAILABLE, sentence)
        })?;
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Whoever cannot be led to the server finds the connection closed.
                let _ = lead(client, &server, delay);
            }
        });
        Ok(Self(address))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0
    }
}

/// Connects a client with the server, in threads that end with either.
fn lead(mut client: TcpStream, server: &str, delay: Duration) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut to_server, mut from_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (send, delayed) = mpsc::channel();
    thread::spawn(move || deliver(&delayed, &mut client));
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = server.read(&mut buffer) {
            let due = Instant::now() + delay;
            if send.send((due, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Writes what is due, in order.
fn deliver(delayed: &Receiver<(Instant, Vec<u8>)>, client: &mut TcpStream) {
    for (due, answer) in delayed {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if client.write_all(&answer).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
