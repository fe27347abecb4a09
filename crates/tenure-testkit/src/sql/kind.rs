//! What tells one kind of SQL server from another.

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

    /// Writes the files of a new server, its data as well, and returns how it is started.
    #[doc(hidden)]
    fn prepare(start: &Start<'_>) -> Result<Launch>;

    /// Says why a server that runs is not yet ready.
    #[doc(hidden)]
    fn check_ready(server: &Server) -> Result<(), String>;

    /// Does what is to be done after each start.
    #[doc(hidden)]
    fn after_start(server: &Server) -> Result<()>;

    /// The client program, which reads statements and writes rows without a header, their values separated by tabs.
    #[doc(hidden)]
    fn client(folder: &Path, port: u16, way: Way<'_>) -> Result<Command>;

    /// The statements that make the users of a new server; none if there is nothing to do.
    #[doc(hidden)]
    fn users(options: &Options) -> String;
}

/// What a new server is made of.
#[derive(Debug)]
pub struct Start<'a> {
    /// The server's folder.
    pub(crate) folder: &'a Path,
    pub(crate) port: u16,
    pub(crate) options: &'a Options,
    pub(crate) tls: Option<&'a Tls>,
}

/// How a client comes to the server.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// As the admin, by the Unix socket.
    Admin,
    /// As a user by TCP, with TLS if the server speaks it.
    User {
        name: &'a str,
        password: &'a str,
        tls: Option<&'a Tls>,
    },
}

/// The database that every server has.
pub(crate) const DATABASE: &str = "test";
