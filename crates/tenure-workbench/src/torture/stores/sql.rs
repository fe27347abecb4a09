//! A database server: MariaDB or PostgreSQL.

use tenure_testkit::{Durability, Kind, MariaDb, Postgres, SqlServer};

use super::{Order, OwnServers, Server, Started, TortureStore, WITHOUT_SERVERS};
use crate::sql::{self, mysql, postgres};

pub(super) const MYSQL: TortureStore = TortureStore {
    schemes: mysql::SCHEMES,
    plain: mysql::SCHEMES,
    own: Some(OwnServers {
        name: "mariadb",
        help: "One MariaDB server, which keeps every confirmed transaction",
        start: start::<MariaDb>,
    }),
    // The server speaks first.
    ping: b"",
    left_over: |url, names| told(sql::wait_for(mysql::left_over(url, names))),
    ..SQL
};

pub(super) const POSTGRES: TortureStore = TortureStore {
    schemes: postgres::SCHEMES,
    plain: postgres::SCHEMES,
    own: Some(OwnServers {
        name: "postgres",
        help: "One PostgreSQL server, which keeps every confirmed transaction",
        start: start::<Postgres>,
    }),
    // Asks whether the server supports TLS, which it answers before authentication.
    ping: &[0, 0, 0, 8, 4, 210, 22, 47],
    left_over: |url, names| told(sql::wait_for(postgres::left_over(url, names))),
    ..SQL
};

/// What both have in common.
const SQL: TortureStore = TortureStore {
    // A waiter whose connection is broken when its turn comes is passed over.
    order: Order::WithoutFaults,
    // Statements are prepared, so only their parameters are visible. Reads contain the name as
    // well.
    changing_request: b"tenure-torture/",
    ..WITHOUT_SERVERS
};

/// Starts a server that keeps every confirmed write when it is killed.
fn start<K: Kind>() -> tenure_testkit::Result<Started> {
    let server = SqlServer::<K>::builder()
        .persistence(Durability::Written)
        // Each client process has two clients of the store, with up to five connections each.
        // Connections of killed processes stay open for a while.
        .max_connections(500)
        .start()?;
    let url = server.url();
    Ok((vec![Box::new(server)], url))
}

impl<K: Kind> Server for SqlServer<K> {
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

/// Returns what is left, or why that is not known.
fn told(left: sql::Result<Vec<String>>) -> Vec<String> {
    left.unwrap_or_else(|error| vec![format!("the database failed: {error}")])
}
