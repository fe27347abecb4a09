//! The differences between the kinds of SQL servers.

use std::fmt::Debug;
use std::path::Path;
use std::process::Command;

use super::builder::Options;
use crate::error::Result;
use crate::server::{Launch, Server};
use crate::tls::Tls;

/// A kind of SQL server: [`MariaDb`](crate::MariaDb) or [`Postgres`](crate::Postgres).
///
/// Only this kit implements it.
pub trait Kind: Debug + Send + Sized + Sync + 'static {
    /// The name in file names and error texts, in lower case.
    const NAME: &'static str;

    /// The scheme of URLs.
    const SCHEME: &'static str;

    /// The user who may do everything.
    const ADMIN: &'static str;

    /// A query for the server's wall clock in whole milliseconds since 1970.
    const CLOCK: &'static str;

    /// Writes the files of a new server, including its data, and returns how to start it.
    #[doc(hidden)]
    fn prepare(start: &Start<'_>) -> Result<Launch>;

    /// Returns why a running server is not ready yet.
    #[doc(hidden)]
    fn check_ready(server: &Server) -> Result<(), String>;

    /// Does what is necessary after each start.
    #[doc(hidden)]
    fn after_start(server: &Server) -> Result<()>;

    /// Returns the client program, which reads statements and writes rows without a header, with
    /// values separated by tabs.
    #[doc(hidden)]
    fn client(folder: &Path, port: u16, way: Way<'_>) -> Result<Command>;

    /// Returns the statements that create the users of a new server; empty if there are none.
    #[doc(hidden)]
    fn users(options: &Options) -> String;
}

/// The parameters of a new server.
#[derive(Debug)]
pub struct Start<'a> {
    /// The server's directory.
    pub(crate) folder: &'a Path,
    pub(crate) port: u16,
    pub(crate) options: &'a Options,
    pub(crate) tls: Option<&'a Tls>,
}

/// How a client connects to the server.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// As the admin, over the Unix socket.
    Admin,
    /// As a user over TCP, with TLS if the server uses it.
    User {
        name: &'a str,
        password: &'a str,
        tls: Option<&'a Tls>,
    },
}

/// The database that every server has.
pub(crate) const DATABASE: &str = "test";
