//! A server program that ends with us, however we end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};
use crate::process::{Child, children};
use crate::wait::{self, PATIENCE};

/// A running server program, killed on drop.
///
/// There is a shell between us and the program. It holds the read end of a pipe whose write end
/// only we have. When the pipe closes, because we close it or because we are killed, the shell
/// kills the program and its children. The shell is in its own process group, so that a signal to
/// our group, by which test runners end a test, does not end the shell first.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    guardian: Child,
    is_killed: bool,
}

impl Process {
    /// Runs `program` in `folder`, a temporary directory that is removed if we are killed, and
    /// appends its output to `log`.
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

    /// Returns the program's process id, even after its end.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns whether the program has neither ended nor been killed.
    pub fn is_running(&self) -> bool {
        !self.is_killed && self.state().is_some_and(|state| !has_ended(state))
    }

    /// Returns whether the program was stopped by [`freeze`](Self::freeze).
    pub(crate) fn is_frozen(&self) -> bool {
        self.state() == Some('T')
    }

    /// Kills the program and its children, and returns once they are gone.
    ///
    /// # Errors
    ///
    /// If its end cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        if self.is_running() {
            self.kill_children()?;
        }
        self.is_killed = true;
        // This fails only if the guardian has ended, and then there is nobody to tell.
        let _ = self.guardian.send(&KEEP);
        self.guardian.close();
        match self.guardian.wait_until(Instant::now() + PATIENCE)? {
            Some(_) => Ok(()),
            None => Err(self.guardian.failed("it does not end")),
        }
    }

    /// Asks the program to end with a signal, waits until it has, and kills it if it does not.
    pub(crate) fn terminate(&mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        let ended = wait::until("the server ends", || match self.is_running() {
            true => Err("it runs".into()),
            false => Ok(()),
        });
        self.kill()?;
        ended
    }

    /// Stops the program and its children, as a long pause would; returns once they have stopped.
    pub(crate) fn freeze(&self) -> Result<()> {
        for child in self.stop_and_list_children()? {
            signal_child(child, Signal::STOP)?;
            wait_for_threads(child, "a child of the server stands still", is_still)?;
        }
        Ok(())
    }

    /// Kills the children, and leaves the program stopped.
    fn kill_children(&self) -> Result<()> {
        let children = self.stop_and_list_children()?;
        for child in &children {
            signal_child(*child, Signal::KILL)?;
        }
        for child in children {
            wait_for_threads(child, "a child of the server is dead", has_ended)?;
        }
        Ok(())
    }

    /// Stops the program, and returns its children. A stopped program starts no children, and
    /// children that end keep their ids, because it does not reap them.
    fn stop_and_list_children(&self) -> Result<Vec<u32>> {
        self.signal(Signal::STOP)?;
        wait_for_threads(self.pid(), "the server stands still", is_still)?;
        Ok(children(self.pid()))
    }

    /// Makes a stopped program and its children continue; returns once they do.
    pub(crate) fn thaw(&self) -> Result<()> {
        let goes_on = |state| state != 'T';
        // The program comes last, because the ids of its children are certain only while it is
        // stopped.
        for child in children(self.pid()) {
            signal_child(child, Signal::CONT)?;
            wait_for_threads(child, "a child of the server goes on", goes_on)?;
        }
        self.signal(Signal::CONT)?;
        wait_for_threads(self.pid(), "the server goes on", goes_on)
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

    fn state(&self) -> Option<char> {
        super::state(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody left to report to; the guardian kills the program all the same.
        let _ = self.kill();
    }
}

fn is_still(state: char) -> bool {
    state == 'T' || has_ended(state)
}

fn has_ended(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}

fn signal_child(child: u32, signal: Signal) -> Result<()> {
    let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    kill_process(pid, signal).map_err(|error| Error::io("signal a child of a server")(error.into()))
}

fn wait_for_threads(pid: u32, what: &str, wanted: impl Fn(char) -> bool) -> Result<()> {
    wait::until(what, || {
        let states = super::thread_states(pid);
        match states.iter().all(|state| wanted(*state)) {
            true => Ok(()),
            false => Err(format!("threads of process {pid} are in states {states:?}")),
        }
    })
}

/// Finds `program` on the `PATH`, or in the `sbin` next to a `bin`, which only root has on the
/// path.
pub(crate) fn find(program: &'static str, package: &'static str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let mut found = folders.flat_map(|folder| {
        let other = beside_bin(&folder, "sbin");
        [Some(folder), other].into_iter().flatten()
    });
    let found = found.find(|folder| folder.join(program).is_file());
    let missing = Error::Missing { program, package };
    Ok(found.ok_or(missing)?.join(program))
}

/// Returns a path next to a directory `bin`.
pub(crate) fn beside_bin(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_bin = folder.file_name().is_some_and(|name| name == "bin");
    is_bin.then(|| folder.with_file_name(name))
}

/// Starts the program, prints its process id, waits for the pipe to close, and then kills and reaps
/// the program.
///
/// The id stays the program's own until then, because the shell reaps it only at the end. If the
/// pipe closes without a message, nobody else is left to kill the program's children and to remove
/// its directory. Signals are caught, because the kernel sends `SIGHUP` to a group that has lost
/// its last parent and has a stopped member; the shell then kills the program too.
///
/// The children are killed while the program is stopped, for the same reasons as in
/// [`stop_and_list_children`](Process::stop_and_list_children). It may have to be stopped twice,
/// because a stopped program continues when that `SIGHUP` arrives.
const GUARDIAN: &str = r#"
folder=$1
shift
trap : HUP INT TERM
exec 3>&1 1>&2
{ exec "$@" </dev/null 3>&-; } &
echo $! >&3
exec 3>&-
read -r word
alive=yes
while [ -z "$word" ] && [ -n "$alive" ]; do
  alive=
  for stat in /proc/[0-9]*/stat; do
    { read -r line <"$stat"; } 2>/dev/null || continue
    pid=${line%% *}
    set -- ${line##*) }
    case $1:$pid:$2 in
      [ZX]:* | T:$!:*) ;;
      *:$!:*) alive=yes; kill -STOP $! ;;
      *:$!) alive=yes; kill -9 "$pid" ;;
    esac
  done
done
kill -9 $!
wait $!
[ -n "$word" ] || /bin/rm -rf -- "$folder"
"#;

/// The message that the directory is still in use.
const KEEP: &str = "keep";
