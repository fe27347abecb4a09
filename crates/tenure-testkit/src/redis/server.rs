//! One Redis server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::builder::{ADMIN, RedisBuilder, SOCKET};
use super::clock::MovableClock;
use super::reply::{self, Reply};
use super::tls::Tls;
use crate::error::{Error, Result};
use crate::port::Port;
use crate::process::{self, Process};
use crate::wait;

/// A Redis server of one's own, on a loopback port and in a temporary folder; killed on drop.
#[derive(Debug)]
pub struct RedisServer {
    // Dropped in this order: first the program, then what it uses.
    process: Process,
    plain: Port,
    secure: Option<(Port, Tls)>,
    clock: Option<MovableClock>,
    options: RedisBuilder,
    admin_password: String,
    folder: TempDir,
}

impl RedisServer {
    /// Starts a server without password and without anything on disk.
    ///
    /// # Errors
    ///
    /// Those of [`RedisBuilder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Returns the options of a server that is to be started.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    pub(super) fn start_as(options: RedisBuilder) -> Result<Self> {
        for _ in 1..TRIES {
            match Self::try_start(options.clone()) {
                // Somebody who does not use this kit was faster.
                Err(Error::Program { log, .. }) if log.contains("Address already in use") => {}
                result => return result,
            }
        }
        Self::try_start(options)
    }

    fn try_start(options: RedisBuilder) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tenure-redis-").tempdir();
        let folder = folder.map_err(Error::io("make a folder for redis-server"))?;
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
        let server = Self {
            process: launch(path, &options)?,
            plain,
            secure,
            clock,
            options,
            admin_password,
            folder,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Returns the URL for clients, with the password if there is one.
    pub fn url(&self) -> String {
        self.url_on(self.port())
    }

    /// Returns the URL for clients that come by another port, such as a [`Proxy`](crate::Proxy)'s.
    pub fn url_on(&self, port: u16) -> String {
        let user = self
            .options
            .password
            .as_ref()
            .map(|password| format!(":{}@", escaped(password)));
        self.url_with(&user.unwrap_or_default(), port)
    }

    /// Returns the URL for clients that come as a user of [`RedisBuilder::user`].
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

    /// Returns the port for clients; with TLS, the port that speaks it.
    pub fn port(&self) -> u16 {
        let secure = self.secure.as_ref().map(|(port, _)| port);
        secure.unwrap_or(&self.plain).number()
    }

    /// Returns the port without TLS, which a server with TLS has as well.
    pub fn plain_port(&self) -> u16 {
        self.plain.number()
    }

    /// Returns the files of the certificates, if the server speaks TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.secure.as_ref().map(|(_, files)| files)
    }

    /// Returns the path of the Unix socket, if the server has one.
    pub fn socket(&self) -> Option<PathBuf> {
        self.options.unix_socket.then(|| self.folder().join(SOCKET))
    }

    /// Returns the server's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns what the server has written so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join(LOG)).unwrap_or_default()
    }

    /// Returns the server's process id, also after its end.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns whether the server runs; a frozen one does.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Returns whether the server runs and is not frozen.
    pub(super) fn is_awake(&self) -> bool {
        self.process.is_running() && !self.process.is_frozen()
    }

    /// Kills the server by `SIGKILL` and returns once it is gone.
    ///
    /// # Errors
    ///
    /// If the system does not tell of its end.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Asks the server to end by `SIGTERM` and returns once it has.
    ///
    /// # Errors
    ///
    /// If it was not running, or had to be killed.
    pub fn shutdown(&mut self) -> Result<()> {
        self.process.terminate()
    }

    /// Starts the server again after its end, on the same port and in the same folder; kills it first if it runs.
    ///
    /// # Errors
    ///
    /// Those of [`RedisBuilder::start`]; also if a stranger has taken the port.
    pub fn start_again(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = launch(self.folder.path(), &self.options)?;
        self.wait_until_ready()
    }

    /// Stops the server where it stands, by `SIGSTOP`; returns once it stands still.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Sets the server's wall clock so many milliseconds ahead of the machine's, or behind it; returns once the server
    /// says so. The server's next start finds the clock as it was left.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or was started without a
    /// [movable clock](RedisBuilder::movable_clock).
    pub fn move_clock(&self, ahead_ms: i64) -> Result<()> {
        self.leave_clock(ahead_ms)?;
        wait::until("the server's clock is moved", || {
            let before = wall_ms();
            let server = self.clock_ms().map_err(|error| format!("{error:?}"))?;
            let (ahead, late) = (server - before, wall_ms() - before);
            // Whole milliseconds are counted, so one may be missing or too many.
            match (ahead_ms - 1..=ahead_ms + late + 1).contains(&ahead) {
                true => Ok(()),
                false => Err(format!("it is {ahead} ms ahead, or {late} ms less")),
            }
        })
    }

    /// The same for a server that is not running: its next start finds the clock like that.
    ///
    /// # Errors
    ///
    /// If the server was started without a [movable clock](RedisBuilder::movable_clock).
    pub fn leave_clock(&self, ahead_ms: i64) -> Result<()> {
        match &self.clock {
            Some(clock) => clock.set(ahead_ms * 1000),
            None => Err(Error::Program {
                program: "redis-server".into(),
                log: "its clock cannot be moved: start it with movable_clock()".into(),
            }),
        }
    }

    /// The server's wall clock.
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

    /// Sends one command and returns the text of its answer.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or with an error: [`command`](Self::command) returns these.
    pub fn cli(&self, command: &[&str]) -> String {
        match self.command(command) {
            Ok(reply) => reply.to_string(),
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Sends one command, on a connection of its own that is allowed everything, and returns its answer.
    ///
    /// # Errors
    ///
    /// If the server does not answer within a few seconds, or answers with an error.
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
        // A value can be long, and the reader wants to see the answer.
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

    /// Returns a field of an answer that consists of lines `field:value`.
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

    /// Waits until a replica has all of its master's data and is told of new data.
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
        wait::until("redis-server answers", || {
            if !self.is_running() {
                let program = "redis-server".into();
                return Ok(Err(Error::Program {
                    program,
                    log: self.log(),
                }));
            }
            let pong = self
                .command(&["PING"])
                .and_then(|_| self.info("process_id"));
            match pong {
                Ok(pid) if pid == self.pid().to_string() => Ok(Ok(())),
                Ok(pid) => Err(format!("process {pid} has the port")),
                Err(error) => Err(format!("{error:?}\n{}", self.log())),
            }
        })?
    }
}

fn launch(folder: &Path, options: &RedisBuilder) -> Result<Process> {
    let program = process::find("redis-server", "redis-server")?;
    let sentinel = options.is_sentinel().then_some("--sentinel");
    let args: Vec<&str> = [CONFIG].into_iter().chain(sentinel).collect();
    if !options.movable_clock {
        return Process::start(&program, &args, folder, &folder.join(LOG));
    }
    // `env` becomes the server, so that the clock is the server's alone.
    let env = process::find("env", "coreutils")?;
    let environment = MovableClock::environment(folder);
    let program = program.display().to_string();
    let words = environment.iter().map(String::as_str);
    let args: Vec<&str> = words.chain([program.as_str()]).chain(args).collect();
    Process::start(&env, &args, folder, &folder.join(LOG))
}

/// This machine's wall clock.
fn wall_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 or so far ahead would be a machine's that runs no tests.
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// A user or a password as a part of a URL.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// How many ports are tried.
const TRIES: usize = 5;

/// The configuration's name in the server's folder.
const CONFIG: &str = "redis.conf";

/// The log's name in the server's folder.
const LOG: &str = "redis.log";
