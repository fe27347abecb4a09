//! One Redis server.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use super::builder::{ADMIN, RedisBuilder, SOCKET};
use super::reply::{self, Reply};
use crate::clock::MovableClock;
use crate::error::{Error, Result};
use crate::port::Port;
use crate::process;
use crate::server::{Launch, Server, server_methods};
use crate::tls::Tls;
use crate::url::escaped;
use crate::wait;

/// A private Redis server, on a loopback port and in a temporary directory; killed on drop.
#[derive(Debug)]
pub struct RedisServer {
    // Dropped first, before the ports are free for others.
    server: Server,
    plain: Port,
    secure: Option<(Port, Tls)>,
    options: RedisBuilder,
    admin_password: String,
}

impl RedisServer {
    /// Starts a server without a password and without persistence.
    ///
    /// # Errors
    ///
    /// Those of [`RedisBuilder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Returns a builder with the default options.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    pub(super) fn start_as(options: RedisBuilder) -> Result<Self> {
        Server::on_free_port(|| Self::try_start(options.clone()))
    }

    fn try_start(options: RedisBuilder) -> Result<Self> {
        let folder = Server::make_folder("redis")?;
        let path = folder.path();
        let plain = Port::free()?;
        let secure = match options.tls {
            Some((certificate, _)) => Some((Port::free()?, Tls::make(path, certificate)?)),
            None => None,
        };
        let clock = match options.movable_clock {
            true => Some(MovableClock::make(path)?),
            false => None,
        };
        let admin_password = format!("{:032x}", fastrand::u128(..));
        let tls = secure.as_ref().map(|(port, files)| (port.number(), files));
        let text = options.text(path, plain.number(), tls, &admin_password);
        fs::write(path.join(CONFIG), text).map_err(Error::io("write redis.conf"))?;
        let launch = Launch {
            program: process::find("redis-server", "redis-server")?,
            args: options.args(),
            log: "redis.log",
            shutdown: Signal::TERM,
            user: None,
            clock,
            leftovers: vec![],
        };
        let server = Self {
            server: Server::start(folder, launch)?,
            plain,
            secure,
            options,
            admin_password,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Returns the URL for clients, with the password if there is one.
    pub fn url(&self) -> String {
        self.url_on(self.port())
    }

    /// Returns the URL for clients that use another port, such as that of a
    /// [`Proxy`](crate::Proxy).
    pub fn url_on(&self, port: u16) -> String {
        let user = self
            .options
            .password
            .as_ref()
            .map(|password| format!(":{}@", escaped(password)));
        self.url_with(&user.unwrap_or_default(), port)
    }

    /// Returns the URL for clients that log in as a user of [`RedisBuilder::user`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url_with(
            &format!("{}:{}@", escaped(user), escaped(password)),
            self.port(),
        )
    }

    fn url_with(&self, user: &str, port: u16) -> String {
        let scheme = if self.secure.is_some() {
            "rediss"
        } else {
            "redis"
        };
        format!("{scheme}://{user}127.0.0.1:{port}/")
    }

    /// Returns the port for clients; with TLS, the port that uses it.
    pub fn port(&self) -> u16 {
        let secure = self.secure.as_ref().map(|(port, _)| port);
        secure.unwrap_or(&self.plain).number()
    }

    /// Returns the port without TLS, which a server with TLS has as well.
    pub fn plain_port(&self) -> u16 {
        self.plain.number()
    }

    /// Returns the files of the certificates, if the server uses TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.secure.as_ref().map(|(_, files)| files)
    }

    /// Returns the path of the Unix socket, if the server has one.
    pub fn socket(&self) -> Option<PathBuf> {
        self.options.unix_socket.then(|| self.folder().join(SOCKET))
    }

    /// Returns whether the server runs and is not frozen.
    pub(super) fn is_awake(&self) -> bool {
        self.server.is_awake()
    }

    /// Sets the server's wall clock this many milliseconds ahead of the machine's, or behind it.
    ///
    /// Returns once the server's clock shows it. The server's next start keeps this offset.
    ///
    /// # Errors
    ///
    /// If the server does not reply, or was started without a [movable
    /// clock](RedisBuilder::movable_clock).
    pub fn move_clock(&self, ahead_ms: i64) -> Result<()> {
        self.server.move_clock(ahead_ms, || self.clock_ms())
    }

    /// Does the same for a server that is not running: its next start has this offset.
    ///
    /// # Errors
    ///
    /// If the server was started without a [movable clock](RedisBuilder::movable_clock).
    pub fn leave_clock(&self, ahead_ms: i64) -> Result<()> {
        self.server.clock()?.set(ahead_ms * 1000)
    }

    /// Returns the server's wall clock.
    fn clock_ms(&self) -> Result<i64> {
        let text = self.command(&["TIME"])?.to_string();
        let mut numbers = text.lines().map_while(|line| line.parse::<i64>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(seconds), Some(micros)) => Ok(seconds * 1000 + micros / 1000),
            _ => Err(Error::Answer {
                command: "TIME".into(),
                text,
            }),
        }
    }

    /// Sends one command and returns the text of its reply.
    ///
    /// # Panics
    ///
    /// If the server does not reply, or replies with an error: [`command`](Self::command) returns
    /// these.
    pub fn cli(&self, command: &[&str]) -> String {
        match self.command(command) {
            Ok(reply) => reply.to_string(),
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Sends one command on a new connection with all permissions, and returns its reply.
    ///
    /// # Errors
    ///
    /// If the server does not reply within a few seconds, or replies with an error.
    pub fn command(&self, command: &[&str]) -> Result<Reply> {
        let login = if !self.options.acl.is_empty() {
            Some(vec!["AUTH", ADMIN, &self.admin_password])
        } else {
            self.options
                .password
                .as_ref()
                .map(|password| vec!["AUTH", password])
        };
        let exchange: Vec<Vec<&str>> = login.into_iter().chain([command.to_vec()]).collect();
        // A value can be long, and the reader wants to see the reply.
        let named = || command.join(" ").chars().take(100).collect::<String>();
        match reply::ask(self.plain_port(), &exchange) {
            Ok(Reply::Error(text)) => Err(Error::Answer {
                command: named(),
                text,
            }),
            Ok(reply) => Ok(reply),
            Err(source) => Err(Error::Io {
                action: format!(
                    "ask redis-server on port {}: {}",
                    self.plain_port(),
                    named()
                ),
                source,
            }),
        }
    }

    /// Returns a field of `INFO`.
    ///
    /// # Errors
    ///
    /// Those of [`command`](Self::command); also if there is no such field.
    pub fn info(&self, field: &str) -> Result<String> {
        self.field(&["INFO"], field)
    }

    /// Returns a field of a reply that consists of lines `field:value`.
    pub(super) fn field(&self, command: &[&str], field: &str) -> Result<String> {
        let text = self.command(command)?.to_string();
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| *name == field);
        found
            .map(|(_, value)| value.to_owned())
            .ok_or_else(|| Error::Answer {
                command: command.join(" "),
                text: format!("no field {field}"),
            })
    }

    /// Waits until a replica has all of its master's data and receives new data.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn wait_until_linked(&self) -> Result<()> {
        let what = format!("the replica on port {} is linked", self.plain_port());
        wait::until(what, || match self.info("master_link_status") {
            Ok(status) if status == "up" => Ok(()),
            Ok(status) => Err(format!("the link is {status}\n{}", self.log())),
            Err(error) => Err(format!("{error:?}")),
        })
    }

    fn wait_until_ready(&self) -> Result<()> {
        self.server.wait_until_ready(|| {
            let pong = self
                .command(&["PING"])
                .and_then(|_| self.info("process_id"));
            match pong {
                Ok(pid) if pid == self.pid().to_string() => Ok(()),
                Ok(pid) => Err(format!("process {pid} has the port")),
                Err(error) => Err(format!("{error:?}")),
            }
        })
    }
}

server_methods!(impl RedisServer);

/// The name of the configuration file in the server's directory.
pub(super) const CONFIG: &str = "redis.conf";
