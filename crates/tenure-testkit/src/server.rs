//! What all kinds of servers have in common: a program in its own directory that can be killed,
//! restarted and frozen.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::statvfs;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::clock::MovableClock;
use crate::error::{Error, Result};
use crate::process::{self, Process};
use crate::user::User;
use crate::wait;

/// A server program and its directory; killed on drop.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: first the program, then what it uses.
    process: Process,
    launch: Launch,
    /// The length of the log when the program was last started.
    log_length: usize,
    folder: TempDir,
}

/// How to start a server program, and how to ask it to end.
#[derive(Debug)]
pub struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The name of the log in the directory.
    pub(crate) log: &'static str,
    pub(crate) shutdown: Signal,
    /// The user that runs it, if not ours.
    pub(crate) user: Option<User>,
    pub(crate) clock: Option<MovableClock>,
    /// Names of files in the directory that a killed program leaves behind and that its next start
    /// could misinterpret.
    pub(crate) leftovers: Vec<String>,
}

impl Server {
    /// Starts the program in a directory that already has everything it needs.
    pub(crate) fn start(folder: TempDir, launch: Launch) -> Result<Self> {
        Ok(Self {
            process: launch.run(folder.path())?,
            launch,
            log_length: 0,
            folder,
        })
    }

    /// Calls `start` until it finds a port that nobody else has taken in the meantime.
    pub(crate) fn on_free_port<T>(start: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 1..TRIES {
            match start() {
                // A process that does not use this kit was faster.
                Err(Error::Program { log, .. }) if log.contains("Address already in use") => {}
                result => return result,
            }
        }
        start()
    }

    /// Creates the directory of a server.
    pub(crate) fn make_folder(kind: &str) -> Result<TempDir> {
        Self::make_folder_in(&std::env::temp_dir(), kind)
    }

    /// Creates the directory of a server with many files that need not survive a reboot. It is in
    /// memory if there is room and nobody has chosen a place for temporary files. Creating files on
    /// a busy disk takes longer than everything else.
    pub(crate) fn make_folder_in_memory(kind: &str) -> Result<TempDir> {
        let memory = Path::new("/dev/shm");
        let is_roomy = statvfs(memory).is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= ROOM);
        match is_roomy && std::env::var_os("TMPDIR").is_none() {
            true => Self::make_folder_in(memory, kind),
            false => Self::make_folder(kind),
        }
    }

    fn make_folder_in(place: &Path, kind: &str) -> Result<TempDir> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("tenure-{kind}-"))
            .tempdir_in(place);
        folder.map_err(Error::io(format!("make a folder for {kind}")))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.folder().join(self.launch.log));
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }

    /// Returns what the program has written since its last start.
    pub(crate) fn log_since_start(&self) -> String {
        let log = self.log();
        log.get(self.log_length..).unwrap_or_default().to_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Returns whether the program runs and is not frozen.
    pub(crate) fn is_awake(&self) -> bool {
        self.process.is_running() && !self.process.is_frozen()
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    pub(crate) fn shutdown(&mut self) -> Result<()> {
        self.process.terminate(self.launch.shutdown)
    }

    /// Starts the program again, and kills it first if it runs; does not wait until it is ready.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.process.kill()?;
        for name in &self.launch.leftovers {
            // A program that ended regularly has left none.
            let _ = fs::remove_file(self.folder().join(name));
        }
        self.log_length = self.log().len();
        self.process = self.launch.run(self.folder.path())?;
        Ok(())
    }

    pub(crate) fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Waits until `probe` finds the program ready; if it ends instead, its log is the error.
    pub(crate) fn wait_until_ready(
        &self,
        mut probe: impl FnMut() -> Result<(), String>,
    ) -> Result<()> {
        wait::until(format!("{} is ready", self.launch.name()), || {
            if !self.is_running() {
                return Ok(Err(self.failed(&self.log())));
            }
            match probe() {
                Ok(()) => Ok(Ok(())),
                Err(last) => Err(format!("{last}\n{}", self.log())),
            }
        })?
    }

    /// Returns the clock, if it can be moved.
    pub(crate) fn clock(&self) -> Result<&MovableClock> {
        let clock = self.launch.clock.as_ref();
        clock.ok_or_else(|| self.failed("its clock cannot be moved: start it with movable_clock()"))
    }

    /// Sets the clock this many milliseconds ahead of the machine's; returns once `read` finds the
    /// server's clock there.
    pub(crate) fn move_clock(&self, ahead_ms: i64, read: impl Fn() -> Result<i64>) -> Result<()> {
        self.clock()?.set(ahead_ms * 1000)?;
        wait::until("the server's clock is moved", || {
            let before = wall_ms();
            let server = read().map_err(|error| format!("{error:?}"))?;
            let (ahead, late) = (server - before, wall_ms() - before);
            // Whole milliseconds are counted, so the result may be off by one.
            match (ahead_ms - 1..=ahead_ms + late + 1).contains(&ahead) {
                true => Ok(()),
                false => Err(format!("it is {ahead} ms ahead, or {late} ms less")),
            }
        })
    }

    /// Returns the error that the program failed for this reason.
    pub(crate) fn failed(&self, log: &str) -> Error {
        Error::Program {
            program: self.launch.name(),
            log: log.to_owned(),
        }
    }
}

impl Launch {
    fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Starts the program through wrapper programs that exec it, so that user and clock apply only
    /// to the server.
    fn run(&self, folder: &Path) -> Result<Process> {
        let mut words = vec![];
        if let Some(user) = self.user {
            let setpriv = process::find("setpriv", "util-linux")?;
            words.push(setpriv.display().to_string());
            words.extend(user.setpriv_args());
        }
        if self.clock.is_some() {
            let env = process::find("env", "coreutils")?;
            words.push(env.display().to_string());
            words.extend(MovableClock::environment(folder));
        }
        words.push(self.program.display().to_string());
        words.extend(self.args.iter().cloned());
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        Process::start(Path::new(&words[0]), &args, folder, &folder.join(self.log))
    }
}

/// Gives a type with a field `server: Server` and a method `wait_until_ready` the methods of all
/// servers.
macro_rules! server_methods {
    ($($header:tt)+) => {
        $($header)+ {
            /// Returns the server's directory.
            pub fn folder(&self) -> &std::path::Path {
                self.server.folder()
            }

            /// Returns what the server has written so far.
            pub fn log(&self) -> String {
                self.server.log()
            }

            /// Returns the server's process id, even after its end.
            pub fn pid(&self) -> u32 {
                self.server.pid()
            }

            /// Returns whether the server runs; this includes a frozen one.
            pub fn is_running(&self) -> bool {
                self.server.is_running()
            }

            /// Kills the server and its children with `SIGKILL` and returns once they are gone.
            ///
            /// # Errors
            ///
            /// If the system does not report its end.
            pub fn kill(&mut self) -> $crate::error::Result<()> {
                self.server.kill()
            }

            /// Asks the server to end without waiting for its clients, and returns once it has.
            ///
            /// # Errors
            ///
            /// If it was not running, or had to be killed.
            pub fn shutdown(&mut self) -> $crate::error::Result<()> {
                self.server.shutdown()
            }

            /// Starts the server again on the same port and in the same directory; kills it first
            /// if it runs.
            ///
            /// # Errors
            ///
            /// If it does not start, with its log; also if another program has taken the port.
            pub fn start_again(&mut self) -> $crate::error::Result<()> {
                self.server.start_again()?;
                self.wait_until_ready()
            }

            /// Stops the server and its children with `SIGSTOP`; returns once they have stopped.
            ///
            /// # Errors
            ///
            /// If it is not running.
            pub fn freeze(&self) -> $crate::error::Result<()> {
                self.server.freeze()
            }

            /// Makes a frozen server continue.
            ///
            /// # Errors
            ///
            /// If it is not running.
            pub fn thaw(&self) -> $crate::error::Result<()> {
                self.server.thaw()
            }
        }
    };
}
pub(crate) use server_methods;

/// Returns this machine's wall clock.
fn wall_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // A machine whose clock is before 1970 or that far ahead runs no tests.
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// How many bytes must be free in memory: enough for tens of servers. Containers often have far
/// less.
const ROOM: u64 = 1 << 30;

/// How many ports to try.
const TRIES: usize = 5;
