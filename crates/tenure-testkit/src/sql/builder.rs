//! The options of an SQL server.

use std::marker::PhantomData;

use super::kind::Kind;
use super::server::SqlServer;
use crate::error::Result;
use crate::tls::{Certificate, ClientCertificate};

/// Which confirmed transactions an SQL server keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Not all, even if only the *process* is killed: it confirms before it writes. The files are
    /// in memory if there is room.
    Delayed,
    /// All, even if the machine loses power: it flushes before it confirms. The default of both
    /// servers.
    Flushed,
    /// All if the process is killed, but not if the machine loses power: it confirms before it
    /// flushes. The files are in memory if there is room.
    #[default]
    Written,
}

/// The options of an [`SqlServer`].
///
/// The default is no TLS, only the two users of [`SqlServer`], [`Durability::Written`], and
/// otherwise the server's own defaults.
#[derive(Debug)]
#[must_use = "it starts nothing until `start` is called"]
pub struct SqlBuilder<K> {
    options: Options,
    kind: PhantomData<K>,
}

/// The options that a builder has collected.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) durability: Durability,
    pub(crate) isolation: Option<String>,
    pub(crate) max_connections: Option<u32>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) tls: Option<(Certificate, ClientCertificate)>,
    pub(crate) movable_clock: bool,
    pub(crate) settings: Vec<(String, String)>,
}

impl Options {
    /// Returns whether the files may be in memory. Files there cannot always be executed, but the
    /// library of a movable clock must be.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.durability != Durability::Flushed && !self.movable_clock
    }
}

/// A user of a server.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) password: String,
    /// The text between `GRANT` and `TO`.
    pub(crate) grants: Vec<String>,
}

impl<K: Kind> SqlBuilder<K> {
    pub(crate) fn new() -> Self {
        Self {
            options: Options::default(),
            kind: PhantomData,
        }
    }

    /// Chooses which confirmed transactions survive a crash.
    pub fn persistence(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Sets the isolation level of transactions that do not choose one, such as `REPEATABLE-READ`.
    ///
    /// Accepts both `READ-COMMITTED` and `read committed`.
    pub fn isolation(mut self, level: &str) -> Self {
        self.options.isolation = Some(level.to_uppercase().replace([' ', '_'], "-"));
        self
    }

    /// Limits the number of connections; a few more are reserved for the admin.
    pub fn max_connections(mut self, count: u32) -> Self {
        self.options.max_connections = Some(count);
        self
    }

    /// Adds a user with a password and with these grants, each the text between `GRANT` and `TO`.
    ///
    /// May be called several times. Examples of grants are `SELECT ON test.*` on MariaDB, and
    /// `USAGE ON SCHEMA public` on PostgreSQL.
    pub fn user(mut self, name: &str, password: &str, grants: &[&str]) -> Self {
        self.options.accounts.push(Account {
            name: name.into(),
            password: password.into(),
            grants: grants.iter().map(|&grant| grant.into()).collect(),
        });
        self
    }

    /// Requires TLS on the port; the files are in [`SqlServer::tls`].
    ///
    /// The Unix socket has no TLS. If client certificates are required, this applies to all users
    /// except the admin.
    pub fn tls(mut self, certificate: Certificate, client: ClientCertificate) -> Self {
        self.options.tls = Some((certificate, client));
        self
    }

    /// Makes the server's wall clock movable by [`SqlServer::move_clock`].
    pub fn movable_clock(mut self) -> Self {
        self.options.movable_clock = true;
        self
    }

    /// Adds a line to the configuration file, after all others.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.options.settings.push((name.into(), value.into()));
        self
    }

    /// Starts the server and returns once it replies.
    ///
    /// # Errors
    ///
    /// If the server or, for TLS, `openssl` or, for a movable clock, `cc` is not installed, with what to install; or
    /// if the server does not start, with its log; or if a user or grant is refused.
    pub fn start(self) -> Result<SqlServer<K>> {
        SqlServer::start_as(self.options)
    }
}

impl<K> Clone for SqlBuilder<K> {
    fn clone(&self) -> Self {
        Self {
            options: self.options.clone(),
            kind: PhantomData,
        }
    }
}
