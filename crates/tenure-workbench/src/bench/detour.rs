//! Proxies to servers that delay every reply, as a long distance would.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use tenure::url::{Host, StoreUrl};

use crate::bench::stores;
use crate::servers::{hosts, loopback};
use tenure_cli::{Failure, Result, Store};

/// Returns the same store, but with a delay on the replies of each of its servers.
pub(super) fn away(store: &Store, by: Duration) -> Result<Store> {
    let mut url = StoreUrl::parse(store.url())?;
    if !stores::are_plain(&url)? {
        return Err(Failure::usage(format!(
            "--away needs servers with a host and a port and without TLS, such as \
             redis://host:port, and {url} has none"
        )));
    }
    for host in hosts(&mut url) {
        *host = start(host.to_string(), by)?;
    }
    Ok(Store::of(&url.reveal()))
}

/// Opens a local port that forwards to a server, and delays its replies.
///
/// The threads sleep while nobody uses it, and end with the process.
pub(super) fn start(server: String, delay: Duration) -> Result<Host> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = listener.map_err(|error| {
        Failure::unavailable(format!("no detour to {server} can be opened: {error}"))
    })?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // If the server cannot be reached, the client finds its connection closed.
            let _ = lead(client, &server, delay);
        }
    });
    Ok(loopback(address.port()))
}

/// Connects a client to the server, in threads that end with either of them.
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

/// Writes replies in order, each when it is due.
fn deliver(delayed: &Receiver<(Instant, Vec<u8>)>, client: &mut TcpStream) {
    for (due, answer) in delayed {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if client.write_all(&answer).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
