//! One Redis server, or several that form one store.

use redis::Commands;
use tenure::Name;
use tenure::url::StoreUrl;
use tenure_testkit::{Persistence, RedisServer};

use super::{Order, OwnServers, Server, Started, TortureStore, WITHOUT_SERVERS};
use crate::{recipes, servers};

pub(super) const STORE: TortureStore = TortureStore {
    schemes: recipes::SCHEMES,
    plain: recipes::PLAIN_SCHEMES,
    refuses: |url| {
        (url.option("layout") == Some("string")).then_some(
            "layout=string has no line of waiters and no list of locks, so nothing could be checked; leave it out",
        )
    },
    // A waiter whose connection is broken when its turn comes is passed over.
    order: Order::WithoutFaults,
    own: Some(OwnServers {
        name: "redis",
        help: "One Redis server, which keeps every answered write",
        start: || {
            let (servers, address) = start_servers(1)?;
            Ok((servers, format!("redis://{address}/")))
        },
    }),
    ping: b"PING\r\n",
    // Every changing request is a script.
    changing_request: b"EVAL",
    left_over,
    ..WITHOUT_SERVERS
};

fn left_over(url: &StoreUrl, names: &[Name]) -> Vec<String> {
    let prefix = url.option("prefix").unwrap_or("tenure:");
    let mut found = Vec::new();
    for mut server in servers::each(url) {
        let database = server.option("db").or_else(|| url.option("db"));
        let database = database.map(str::to_owned);
        if let Some(database) = database.filter(|_| server.path.is_empty()) {
            server.path = database;
        }
        for name in names {
            match keys_of(&server.reveal(), prefix, name) {
                Ok(keys) => found.extend(keys),
                Err(error) => found.push(format!("{name}: a server failed: {error}")),
            }
        }
    }
    found
}

/// Starts servers; returns them and their addresses, separated by commas.
pub(super) fn start_servers(count: usize) -> tenure_testkit::Result<Started> {
    let (mut servers, mut addresses) = (Vec::<Box<dyn Server>>::new(), Vec::new());
    for _ in 0..count {
        // They are killed, and restart with every write that they acknowledged.
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

/// Returns the keys of a name on a Redis server, except for its last fence, which expires by
/// itself.
fn keys_of(server: &str, prefix: &str, name: &Name) -> recipes::Result<Vec<String>> {
    let mut connection = recipes::client(server)?.get_connection()?;
    // The names of a torture run contain no character that keys would escape.
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
