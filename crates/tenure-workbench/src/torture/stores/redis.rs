//! One Redis server, or several that are one store.

use redis::Commands;
use tenure::Name;
use tenure_testkit::{Persistence, RedisServer};

use super::{Server, TortureStore};
use crate::torture::address::Address;

#[derive(Debug)]
pub(super) struct Redis;

impl TortureStore for Redis {
    /// A waiter whose connection is broken when its turn comes is passed over.
    fn promises_order(&self, is_broken: bool) -> bool {
        !is_broken
    }

    fn start(&self) -> tenure_testkit::Result<(Vec<Box<dyn Server>>, String)> {
        let (servers, address) = start_servers(1)?;
        Ok((servers, format!("redis://{address}/")))
    }

    fn ping(&self) -> &'static [u8] {
        b"PING\r\n"
    }

    /// Every such request is a script.
    fn changing_request(&self) -> &'static [u8] {
        b"EVAL"
    }

    fn left_over(&self, address: &Address, names: &[Name]) -> Vec<String> {
        let prefix = address.option("prefix").unwrap_or("tenure:");
        let mut found = Vec::new();
        for server in address.each() {
            for name in names {
                match keys_of(&server, prefix, name) {
                    Ok(keys) => found.extend(keys),
                    Err(error) => found.push(format!("{name}: a server failed: {error}")),
                }
            }
        }
        found
    }
}

/// Starts servers; returns them and their addresses with commas between them.
pub(super) fn start_servers(
    count: usize,
) -> tenure_testkit::Result<(Vec<Box<dyn Server>>, String)> {
    let (mut servers, mut addresses) = (Vec::<Box<dyn Server>>::new(), Vec::new());
    for _ in 0..count {
        // They are killed and come back with all that they answered.
        let server = RedisServer::builder().persistence(Persistence::AofAlways);
        let server = server.start()?;
        addresses.push(format!("127.0.0.1:{}", server.port()));
        servers.push(Box::new(server));
    }
    Ok((servers, addresses.join(",")))
}

impl Server for RedisServer {
    fn pid(&self) -> u32 {
        self.pid()
    }

    fn is_running(&self) -> bool {
        self.is_running()
    }

    fn kill(&mut self) -> tenure_testkit::Result<()> {
        self.kill()
    }

    fn start_again(&mut self) -> tenure_testkit::Result<()> {
        self.start_again()
    }
}

/// The keys of a name in a Redis server, but for its last fence, which expires by itself.
fn keys_of(server: &str, prefix: &str, name: &Name) -> redis::RedisResult<Vec<String>> {
    let mut connection = redis::Client::open(server)?.get_connection()?;
    // The names of a torture have no character that the keys write otherwise.
    let tag = format!("{prefix}{{{name}}}");
    let mut found = Vec::new();
    for part in ["", ":fence", ":line", ":places", ":ends"] {
        let key = format!("{tag}{part}");
        if !connection.exists::<_, bool>(&key)? {
            continue;
        }
        let expires_ms: i64 = connection.pttl(&key)?;
        match part {
            ":fence" if expires_ms >= 0 => {}
            _ => found.push(format!("the key {key} (expires in {expires_ms} ms)")),
        }
    }
    Ok(found)
}
