//! A connection pooler in front of a PostgreSQL server.

use std::fmt::Write as _;

use rustix::process::Signal;

use super::{Postgres, PostgresServer};
use crate::error::Result;
use crate::port::Port;
use crate::process;
use crate::server::{Launch, Server, server_methods};
use crate::sql::Kind;
use crate::user::User;

/// When a pooler hands a client's server connection over to another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolMode {
    /// When the client disconnects.
    Session,
    /// After each statement; transactions of several statements are refused.
    Statement,
    /// After each transaction.
    Transaction,
}

/// A private PgBouncer in front of a [`PostgresServer`], on a loopback port; killed on drop.
///
/// It knows the server's users, and does not use TLS. It connects to the server over its Unix
/// socket, also after a restart.
#[derive(Debug)]
pub struct PgBouncer {
    // Dropped first, before the port is free for others.
    server: Server,
    port: Port,
    url: String,
}

impl PgBouncer {
    /// Starts a pooler for a server.
    ///
    /// # Errors
    ///
    /// If `pgbouncer` is not installed, with what to install; or if it does not start, with its
    /// log.
    pub fn start(server: &PostgresServer, mode: PoolMode) -> Result<Self> {
        Self::start_with(server, mode, &[])
    }

    /// Starts a pooler with additional settings of PgBouncer, such as `default_pool_size`.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn start_with(
        server: &PostgresServer,
        mode: PoolMode,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        Server::on_free_port(|| Self::try_start(server, mode, settings))
    }

    fn try_start(
        server: &PostgresServer,
        mode: PoolMode,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let program = process::find("pgbouncer", "pgbouncer")?;
        let folder = Server::make_folder("pgbouncer")?;
        let path = folder.path();
        let port = Port::free()?;
        let users = path.join("users.txt");
        let mut text = format!(
            "[databases]\n* = host={} port={}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = scram-sha-256\nauth_file = {}\npool_mode = {}\n\
             max_client_conn = 500\nignore_startup_parameters = extra_float_digits\n",
            server.socket().display(),
            server.port(),
            port.number(),
            users.display(),
            mode.name(),
        );
        for (name, value) in settings {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} = {value}");
        }
        let user = User::instead_of_root(Postgres::NAME)?;
        User::give(user, path)?;
        User::write(user, &users, &user_list(server))?;
        User::write(user, &path.join(CONFIG), &text)?;
        let launch = Launch {
            program,
            args: vec![CONFIG.into()],
            log: "pgbouncer.log",
            // Ends at once, without waiting for clients.
            shutdown: Signal::TERM,
            user,
            clock: None,
            leftovers: vec![],
        };
        let bouncer = Self {
            server: Server::start(folder, launch)?,
            url: server.url_on(port.number()),
            port,
        };
        bouncer.wait_until_ready()?;
        Ok(bouncer)
    }

    /// Returns the URL of the database `test` for the user `tenure`, through the pooler.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns the port for clients; [`url_on`](crate::SqlServer::url_on) turns it into a URL.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    fn wait_until_ready(&self) -> Result<()> {
        self.server.wait_until_ready(|| {
            match self.server.log_since_start().contains("process up") {
                true => Ok(()),
                false => Err("it does not say so".into()),
            }
        })
    }
}

server_methods!(impl PgBouncer);

impl PoolMode {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Statement => "statement",
            Self::Transaction => "transaction",
        }
    }
}

/// Returns the users with their passwords.
fn user_list(server: &PostgresServer) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let known = [
        (Postgres::ADMIN, PostgresServer::ADMIN_PASSWORD),
        (PostgresServer::USER, PostgresServer::PASSWORD),
    ];
    let accounts = server.options.accounts.iter();
    let added = accounts.map(|account| (account.name.as_str(), account.password.as_str()));
    known
        .into_iter()
        .chain(added)
        .map(|(name, password)| format!("{} {}\n", quoted(name), quoted(password)))
        .collect()
}

/// The name of the configuration file in the pooler's directory.
const CONFIG: &str = "pgbouncer.ini";
