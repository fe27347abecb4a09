//! Servers of a play, and what is to be seen in them.

use std::time::{Duration, Instant};

use tenure_testkit::RedisServer;

use super::NAME;
use super::scene::{PATIENCE, Scene};
use super::upset::Result;

/// The URLs of a client that comes by these ports.
///
/// A recipe gets all of them; tenure one that names them all.
pub(super) fn urls(scene: &Scene, ports: &[u16]) -> Vec<String> {
    let addresses: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    if !scene.is_tenure() || ports.len() == 1 {
        return addresses
            .iter()
            .map(|it| format!("redis://{it}/"))
            .collect();
    }
    // The servers are new and hold nothing; and a client that was paused shall find its votes, not a timeout.
    let all = addresses.join(",");
    vec![format!("redlock://{all}?restart_delay=off&timeout=20s")]
}

/// Whether the lock is taken, as the server sees it.
pub(super) fn is_taken(scene: &Scene, server: &RedisServer) -> Result<bool> {
    exists(server, &key(scene))
}

/// Ends the play: all clients go, and if nobody still waited, nothing may be left on the servers.
pub(super) fn curtain(scene: &mut Scene, servers: &[&RedisServer]) -> Result<()> {
    if !scene.end()? {
        return Ok(());
    }
    let keys: Vec<_> = match scene.is_tenure() {
        true => ["", ":line", ":places", ":ends"]
            .iter()
            .map(|part| format!("{}{part}", key(scene)))
            .collect(),
        false => vec![key(scene)],
    };
    for server in servers {
        for key in &keys {
            if is_left(server, key)? {
                scene.left(&format!("the key {key}"));
            }
        }
    }
    Ok(())
}

/// Whether a key stays; what a client sent last may still be on its way.
fn is_left(server: &RedisServer, key: &str) -> Result<bool> {
    let since = Instant::now();
    while exists(server, key)? {
        if since.elapsed() >= PATIENCE {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}

fn exists(server: &RedisServer, key: &str) -> Result<bool> {
    Ok(server.command(&["EXISTS", key])?.to_string() == "1")
}

fn key(scene: &Scene) -> String {
    match scene.is_tenure() {
        true => format!("tenure:{{{NAME}}}"),
        false => NAME.to_owned(),
    }
}
