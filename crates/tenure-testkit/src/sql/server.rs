//! One SQL server of any kind.

use std::marker::PhantomData;

use super::builder::{Options, SqlBuilder};
use super::client;
use super::kind::{DATABASE, Kind, Start, Way};
use crate::error::{Error, Result};
use crate::port::Port;
use crate::server::{Launch, Server, server_methods};
use crate::tls::Tls;
use crate::url::escaped;

/// A private SQL server, on a loopback port and in a temporary directory; killed on drop.
///
/// It has a database `test` and two users: an admin who may do everything, and `tenure`, whose password is
/// [`PASSWORD`](Self::PASSWORD) and who may do everything in that database.
#[derive(Debug)]
pub struct SqlServer<K> {
    // Dropped first, before the port is free for others.
    pub(crate) server: Server,
    port: Port,
    tls: Option<Tls>,
    pub(crate) options: Options,
    kind: PhantomData<K>,
}

impl<K: Kind> SqlServer<K> {
    /// The user of [`url`](Self::url).
    pub const USER: &str = "tenure";

    /// The password of the user of [`url`](Self::url).
    pub const PASSWORD: &str = "secret";

    /// The password of the admin.
    pub const ADMIN_PASSWORD: &str = "admin";

    /// Starts a server with the default options.
    ///
    /// # Errors
    ///
    /// Those of [`SqlBuilder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder with the default options.
    pub fn builder() -> SqlBuilder<K> {
        SqlBuilder::new()
    }

    pub(crate) fn start_as(options: Options) -> Result<Self> {
        let server = Self::start_prepared(options, K::prepare)?;
        let users = K::users(&server.options);
        if !users.is_empty() {
            server.query(&users)?;
        }
        Ok(server)
    }

    /// Starts a server whose files `prepare` creates.
    pub(crate) fn start_prepared(
        options: Options,
        prepare: impl Fn(&Start<'_>) -> Result<Launch>,
    ) -> Result<Self> {
        Server::on_free_port(|| {
            let folder = match options.is_in_memory() {
                true => Server::make_folder_in_memory(K::NAME)?,
                false => Server::make_folder(K::NAME)?,
            };
            let port = Port::free()?;
            let tls = match options.tls {
                Some((certificate, _)) => Some(Tls::make(folder.path(), certificate)?),
                None => None,
            };
            let launch = prepare(&Start {
                folder: folder.path(),
                port: port.number(),
                options: &options,
                tls: tls.as_ref(),
            })?;
            let server = Self {
                server: Server::start(folder, launch)?,
                port,
                tls,
                options: options.clone(),
                kind: PhantomData,
            };
            server.wait_until_ready()?;
            Ok(server)
        })
    }

    /// Returns the URL of the database `test` for the user `tenure`.
    pub fn url(&self) -> String {
        self.url_on(self.port())
    }

    /// Returns the URL for clients that use another port, such as that of a
    /// [`Proxy`](crate::Proxy).
    pub fn url_on(&self, port: u16) -> String {
        Self::url_with(Self::USER, Self::PASSWORD, port)
    }

    /// Returns the URL for another user, such as one of [`SqlBuilder::user`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        Self::url_with(user, password, self.port())
    }

    /// Returns the URL for the admin.
    pub fn admin_url(&self) -> String {
        self.url_as(K::ADMIN, Self::ADMIN_PASSWORD)
    }

    fn url_with(user: &str, password: &str, port: u16) -> String {
        let (scheme, user, password) = (K::SCHEME, escaped(user), escaped(password));
        format!("{scheme}://{user}:{password}@127.0.0.1:{port}/{DATABASE}")
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the files of the certificates, if the server uses TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Runs statements in the database `test` as the admin; returns the rows, one per line, with
    /// tabs between values.
    ///
    /// # Panics
    ///
    /// If the server does not reply, or replies with an error: [`query`](Self::query) returns
    /// these.
    pub fn sql(&self, statements: &str) -> String {
        match self.query(statements) {
            Ok(rows) => rows,
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Does the same, but returns errors.
    ///
    /// Each call uses a new connection, and stops at the first error.
    ///
    /// # Errors
    ///
    /// If the server does not reply within 20 seconds, or replies with an error.
    pub fn query(&self, statements: &str) -> Result<String> {
        self.ask(Way::Admin, statements)
    }

    /// Does the same as another user over TCP; with TLS and a client certificate if the server uses
    /// TLS.
    ///
    /// # Errors
    ///
    /// Those of [`query`](Self::query).
    pub fn query_as(&self, user: &str, password: &str, statements: &str) -> Result<String> {
        let way = Way::User {
            name: user,
            password,
            tls: self.tls(),
        };
        self.ask(way, statements)
    }

    fn ask(&self, way: Way<'_>, statements: &str) -> Result<String> {
        let mut client = K::client(self.folder(), self.port(), way)?;
        client::ask(&mut client, statements)
    }

    /// Sets the server's wall clock this many milliseconds ahead of the machine's, or behind it.
    ///
    /// Returns once the server's clock shows it. The server's next start keeps this offset.
    ///
    /// # Errors
    ///
    /// If the server does not reply, or was started without a [movable
    /// clock](SqlBuilder::movable_clock).
    pub fn move_clock(&self, ahead_ms: i64) -> Result<()> {
        self.server.move_clock(ahead_ms, || {
            let text = self.query(K::CLOCK)?;
            text.parse().map_err(|_| Error::Answer {
                command: K::CLOCK.into(),
                text,
            })
        })
    }

    /// Does the same for a server that is not running: its next start has this offset.
    ///
    /// # Errors
    ///
    /// If the server was started without a [movable clock](SqlBuilder::movable_clock).
    pub fn leave_clock(&self, ahead_ms: i64) -> Result<()> {
        self.server.clock()?.set(ahead_ms * 1000)
    }

    fn wait_until_ready(&self) -> Result<()> {
        self.server
            .wait_until_ready(|| K::check_ready(&self.server))?;
        K::after_start(&self.server)
    }
}

server_methods!(impl<K: Kind> SqlServer<K>);
