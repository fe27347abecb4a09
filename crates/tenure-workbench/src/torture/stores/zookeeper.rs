//! A ZooKeeper server.

use std::time::Duration;

use tenure::Name;
use tenure::url::StoreUrl;
use tenure_testkit::ZooKeeperServer;

use super::{Order, OwnServers, Server, Started, TortureStore, WITHOUT_SERVERS};
use crate::sql;

pub(super) const STORE: TortureStore = TortureStore {
    schemes: &["zookeeper", "zookeepers"],
    plain: &["zookeeper"],
    // A waiter whose session expires loses its place.
    order: Order::WithoutFaults,
    own: Some(OwnServers {
        name: "zookeeper",
        help: "One ZooKeeper server, which keeps every confirmed change",
        start,
    }),
    // The one word that every server answers unless it is told not to.
    ping: b"srvr",
    // All nodes of claims are named like this. Reads of them have the name too.
    changing_request: b"/tenure_",
    left_over: |url, names| {
        let left = sql::wait_for(left_over(url, names));
        left.unwrap_or_else(|error| vec![format!("the servers failed: {error}")])
    },
    ..WITHOUT_SERVERS
};

/// Starts a server whose sessions may be short, because a killed client holds its locks for as long as its session.
fn start() -> tenure_testkit::Result<Started> {
    let server = ZooKeeperServer::start()?;
    let url = format!("{}?session=2s", server.url());
    Ok((vec![Box::new(server)], url))
}

impl Server for ZooKeeperServer {
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

/// Returns what is left of the names; sessions of killed clients have some time to end.
async fn left_over(url: &StoreUrl, names: &[Name]) -> sql::Result<Vec<String>> {
    let locks = tenure::open(&url.reveal()).await?;
    let mut left = Vec::new();
    for _ in 0..LOOKS {
        left.clear();
        for name in names {
            for entry in locks.list(Some(name)).await? {
                let (held, waiting) = (entry.holders.len(), entry.waiters.len());
                left.push(format!("{name}: {held} holders, {waiting} waiters"));
            }
        }
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(left)
}

/// How often to look, and how long to wait in between: more than a session of [`start`] lasts.
const LOOKS: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);
