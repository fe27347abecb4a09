//! The options of a Redis server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::server::{CONFIG, RedisServer};
use crate::error::Result;
use crate::tls::{Certificate, ClientCertificate, Tls};

/// What a server keeps when it is killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Persistence {
    /// Every acknowledged write: the log is flushed before the reply.
    AofAlways,
    /// Everything except about the last second: the log is flushed once a second.
    ///
    /// A killed *process* loses nothing; only a power failure of the machine does.
    AofEverySecond,
    /// Nothing.
    #[default]
    None,
}

/// The options of a [`RedisServer`].
///
/// The default is no password, no TLS, and nothing on disk.
#[derive(Clone, Debug, Default)]
#[must_use = "it starts nothing until `start` is called"]
pub struct RedisBuilder {
    pub(super) password: Option<String>,
    pub(super) acl: Vec<String>,
    pub(super) tls: Option<(Certificate, ClientCertificate)>,
    pub(super) unix_socket: bool,
    pub(super) movable_clock: bool,
    sentinel: bool,
    persistence: Persistence,
    lines: Vec<String>,
}

impl RedisBuilder {
    /// Requires a password from clients; a replica also uses it for its master.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a user by its rules, such as `ann on >secret ~tenure:* +@all`.
    ///
    /// May be called several times. `default off` disables clients that do not log in.
    pub fn user(mut self, rules: &str) -> Self {
        self.acl.push(rules.into());
        self
    }

    /// Enables TLS; the files are in [`RedisServer::tls`].
    pub fn tls(mut self, certificate: Certificate, client: ClientCertificate) -> Self {
        self.tls = Some((certificate, client));
        self
    }

    /// Listens on a Unix socket as well; its path is [`RedisServer::socket`].
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Makes the server's wall clock movable by [`RedisServer::move_clock`].
    pub fn movable_clock(mut self) -> Self {
        self.movable_clock = true;
        self
    }

    /// Chooses what survives a kill and a restart.
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.persistence = persistence;
        self
    }

    /// Makes it a replica of the server on a loopback port.
    pub fn replica_of(self, port: u16) -> Self {
        self.config(&format!("replicaof 127.0.0.1 {port}"))
    }

    /// Limits the memory, such as `4mb`, and sets what is evicted when it is full, such as
    /// `noeviction`.
    pub fn max_memory(self, bytes: &str, policy: &str) -> Self {
        self.config(&format!("maxmemory {bytes}"))
            .config(&format!("maxmemory-policy {policy}"))
    }

    /// Enables the `DEBUG` command.
    pub fn debug_command(self) -> Self {
        self.config("enable-debug-command local")
    }

    /// Adds a line to the configuration file, after all others.
    pub fn config(mut self, line: &str) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Makes it a sentinel, which is configured by its configuration lines.
    pub(super) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Returns the arguments of the program.
    pub(super) fn args(&self) -> Vec<String> {
        let sentinel = self.sentinel.then_some("--sentinel");
        [CONFIG]
            .into_iter()
            .chain(sentinel)
            .map(str::to_owned)
            .collect()
    }

    /// Starts the server and returns once it replies.
    ///
    /// # Errors
    ///
    /// If `redis-server` or, for TLS, `openssl` or, for a movable clock, `cc` is not installed, with what to install; or
    /// if the server does not start, with its log.
    pub fn start(self) -> Result<RedisServer> {
        RedisServer::start_as(self)
    }

    /// Returns the text of the configuration file.
    pub(super) fn text(
        &self,
        folder: &Path,
        plain: u16,
        tls: Option<(u16, &Tls)>,
        admin: &str,
    ) -> String {
        let mut text = format!("port {plain}\nbind 127.0.0.1\nprotected-mode no\nlogfile \"\"\n");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "dir {}", quoted(&folder.display().to_string()));
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {}", quoted(password));
        }
        if let (Some((port, files)), Some((_, client))) = (tls, self.tls) {
            let _ = write!(text, "tls-port {port}\n{}", tls_lines(files, client));
        }
        if !self.acl.is_empty() {
            let _ = writeln!(text, "user {ADMIN} on >{admin} ~* &* +@all");
        }
        for rules in &self.acl {
            let _ = writeln!(text, "user {rules}");
        }
        if !self.sentinel {
            self.server_only(folder, &mut text);
        }
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Adds the settings that a sentinel does not know.
    fn server_only(&self, folder: &Path, text: &mut String) {
        text.push_str(
            "save \"\"\nrepl-diskless-sync yes\nrepl-diskless-sync-delay 0\nshutdown-timeout 2\n",
        );
        text.push_str(match self.persistence {
            Persistence::AofAlways => "appendonly yes\nappendfsync always\n",
            Persistence::AofEverySecond => "appendonly yes\nappendfsync everysec\n",
            Persistence::None => "appendonly no\n",
        });
        if let Some(password) = &self.password {
            let _ = writeln!(text, "masterauth {}", quoted(password));
        }
        if self.unix_socket {
            let path = folder.join(SOCKET).display().to_string();
            let _ = writeln!(text, "unixsocket {}\nunixsocketperm 700", quoted(&path));
        }
    }
}

/// Returns the lines that name the files of the certificates.
fn tls_lines(files: &Tls, client: ClientCertificate) -> String {
    let path = |path: PathBuf| quoted(&path.display().to_string());
    let ask = match client {
        ClientCertificate::NotAsked => "no",
        ClientCertificate::Required => "yes",
    };
    format!(
        "tls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients {ask}\n",
        path(files.server_certificate()),
        path(files.server_key()),
        path(files.ca()),
    )
}

/// Quotes any value for the configuration file.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The user by which the kit logs in to a server that has its own users.
pub(super) const ADMIN: &str = "tenure-testkit";

/// The name of the Unix socket in the server's directory.
pub(super) const SOCKET: &str = "redis.sock";
