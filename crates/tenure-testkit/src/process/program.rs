//! A server program that ends with us, however we end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};
use crate::process::Child;
use crate::wait::{self, PATIENCE};

/// A running server program, killed on drop.
///
/// A shell stands between us and the program. It holds the reading end of a pipe whose writing end only we have: when
/// the pipe closes, because we close it or because we are killed, the shell kills the program. The shell is in a process
/// group of its own, so that a signal to our group, by which test runners end a test, does not end the shell first.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    guardian: Child,
    is_killed: bool,
}

impl Process {
    /// Runs `program` in `folder`, a temporary one that goes when we are killed, and appends what it writes to `log`.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(program: &Path, args: &[&str], folder: &Path, log: &Path) -> Result<Self> {
        let action = || format!("start {}", program.display());
        let log_file = fs::File::options().create(true).append(true).open(log);
        let log_file = log_file.map_err(Error::io(action()))?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GUARDIAN, "guardian"])
            .arg(folder)
            .arg(program)
            .args(args)
            .current_dir(folder)
            .stderr(log_file);
        let mut guardian = Child::start("the guardian of a server", &mut command)?;
        let pid = guardian.messages().next().and_then(Result::ok);
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            return Err(Error::Program {
                program: program.display().to_string(),
                log: fs::read_to_string(log).unwrap_or_default(),
            });
        };
        Ok(Self {
            pid,
            guardian,
            is_killed: false,
        })
    }

    /// Returns the program's process id, also after its end.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns whether the program has neither ended nor been killed.
    pub fn is_running(&self) -> bool {
        !self.is_killed && !matches!(self.state(), None | Some('Z' | 'X'))
    }

    /// Returns whether the program was stopped by [`freeze`](Self::freeze).
    pub(crate) fn is_frozen(&self) -> bool {
        self.state() == Some('T')
    }

    /// Kills the program and returns once it is gone.
    ///
    /// # Errors
    ///
    /// If its end cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        self.is_killed = true;
        // It fails only if the guardian has ended, and then there is nobody to tell.
        let _ = self.guardian.send(&KEEP);
        self.guardian.close();
        match self.guardian.wait_until(Instant::now() + PATIENCE)? {
            Some(_) => Ok(()),
            None => Err(self.guardian.failed("it does not end")),
        }
    }

    /// Asks the program to end, waits until it has, and kills it if it does not.
    pub(crate) fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let ended = wait::until("the server ends", || match self.is_running() {
            true => Err("it runs".into()),
            false => Ok(()),
        });
        self.kill()?;
        ended
    }

    /// Stops the program where it stands, as a long pause would; returns once it stands still.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        self.wait_for_state("the server stands still", |state| state == 'T')
    }

    /// Lets a stopped program go on; returns once it does.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)?;
        self.wait_for_state("the server goes on", |state| state != 'T')
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        if !self.is_running() {
            return Err(Error::Program {
                program: format!("process {}", self.pid()),
                log: "it is not running".into(),
            });
        }
        let sent = kill_process(self.pid, signal);
        sent.map_err(|error| Error::io("signal a server")(error.into()))
    }

    fn wait_for_state(&self, what: &str, wanted: impl Fn(char) -> bool) -> Result<()> {
        wait::until(what, || match self.state() {
            Some(state) if wanted(state) => Ok(()),
            state => Err(format!("process {} is in state {state:?}", self.pid())),
        })
    }

    fn state(&self) -> Option<char> {
        super::state(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to tell; the guardian kills all the same.
        let _ = self.kill();
    }
}

/// Finds `program` on the `PATH`.
pub(crate) fn find(program: &'static str, package: &'static str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    let found = found.find(|file| file.is_file());
    found.ok_or(Error::Missing { program, package })
}

/// Starts the program, says its process id, waits for the pipe to close, and kills and reaps the program.
///
/// The id stays the program's own until then, since the shell reaps it only at the end. If the pipe closes without a
/// word, then nobody is left to remove the program's folder. Signals are caught, because the kernel sends a `SIGHUP`
/// to a group that has lost its last parent and has a frozen member; the shell then kills too.
const GUARDIAN: &str = r#"
folder=$1
shift
trap : HUP INT TERM
exec 3>&1 1>&2
{ exec "$@" </dev/null 3>&-; } &
echo $! >&3
exec 3>&-
read -r word
kill -9 $!
wait $!
[ -n "$word" ] || /bin/rm -rf -- "$folder"
"#;

/// Says that the folder is still in use.
const KEEP: &str = "keep";
