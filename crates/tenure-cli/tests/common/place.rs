//! Drives the built command in its own directory.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tenure_testkit::RedisServer;

/// A directory with a store, in which commands run.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Writes an executable shell script.
    pub(crate) fn script(&self, file: &str, lines: &str) {
        let path = self.path(file);
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the lines of a file.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(file)).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the URL of the store.
    pub(crate) fn store(&self) -> String {
        format!("local:{}", self.path("store").display())
    }

    /// Returns `tenure` with this store and these arguments.
    pub(crate) fn tenure(&self, arguments: &[&str]) -> Command {
        let mut command = bare(arguments);
        command
            .current_dir(self.folder.path())
            .env("TENURE_STORE", self.store());
        command
    }

    /// Runs `tenure` to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        end(&mut self.tenure(arguments))
    }

    /// Starts `tenure run` with flags and a shell script as its command.
    pub(crate) fn start(&self, flags: &[&str], script: &str) -> Running {
        let mut command = self.tenure(&["run"]);
        command.args(flags).args(["--", "sh", "-c", script]);
        Running::start(&mut command)
    }

    /// Starts a process that holds a name until the file `end` exists.
    pub(crate) fn hold(&self, name: &str, flags: &[&str]) -> Running {
        let flags: Vec<_> = [name].iter().chain(flags).copied().collect();
        let running = self.start(&flags, "until [ -e end ]; do sleep 0.02; done");
        let pid = running.id();
        wait_for("the holder to hold", || {
            self.pids(name, "holders").contains(&pid)
        });
        running
    }

    /// Makes all holders end.
    pub(crate) fn end_holders(&self) {
        fs::write(self.path("end"), "").unwrap();
    }

    pub(crate) fn ls(&self) -> Value {
        let listed = self.run(&["ls", "--json"]);
        assert_eq!(listed.code, 0, "{}", listed.err);
        serde_json::from_str(&listed.out).unwrap()
    }

    /// Returns the process ids of the holders or waiters of a name.
    pub(crate) fn pids(&self, name: &str, which: &str) -> Vec<u32> {
        let all = self.ls();
        let lock = all
            .as_array()
            .unwrap()
            .iter()
            .find(|lock| lock["name"] == name);
        let Some(lock) = lock else {
            return Vec::new();
        };
        let found = lock[which].as_array().unwrap().iter();
        found
            .map(|one| one["pid"].as_u64().unwrap().try_into().unwrap())
            .collect()
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        self.run(&["run", name, "--no-wait", "--", "true"]).code == 0
    }

    /// Waits until a file has content, and returns it.
    pub(crate) fn content(&self, file: &str) -> String {
        let path = self.path(file);
        let mut content = String::new();
        wait_for(&format!("{file} to be written"), || {
            content = fs::read_to_string(&path).unwrap_or_default();
            content.ends_with('\n')
        });
        content.trim().to_owned()
    }
}

/// Returns `tenure` with the default store and without our own environment.
pub(crate) fn bare(arguments: &[&str]) -> Command {
    let mut command = Command::new(super::PROGRAM);
    command.args(arguments);
    let variables = ["NAME", "OWNER", "CLAIM", "FENCE", "TTL_MS", "STORE", "LOG"];
    for variable in [&variables[..], &["PASSWORD", "PASSWORD_FILE"]].concat() {
        command.env_remove(format!("TENURE_{variable}"));
    }
    command
}

/// Returns a `PATH` that contains `tenure`, as users have it.
pub(crate) fn path_with_tenure() -> String {
    let program = std::path::Path::new(super::PROGRAM);
    let folder = program.parent().unwrap().display();
    format!("{folder}:{}", std::env::var("PATH").unwrap())
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// As shells report it: 128 plus the number of the signal.
    pub(crate) code: i32,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    pub(crate) dumped_core: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command to its end.
pub(crate) fn end(command: &mut Command) -> Ended {
    Ended::from(command.stdin(Stdio::null()).output().unwrap())
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: code(output.status),
            signal: output.status.signal(),
            dumped_core: output.status.core_dumped(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap()
}

/// A running `tenure`, killed when dropped.
pub(crate) struct Running(Option<Child>);

impl Running {
    /// Starts a command without input, and captures its output.
    pub(crate) fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(self.id()), signal).unwrap();
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> Ended {
        let child = self.0.as_mut().unwrap();
        let mut status = None;
        wait_for("tenure to end", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        Ended::from(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a condition, with a deadline that only a broken program misses.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < give_up, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn pid(number: u32) -> Pid {
    Pid::from_raw(number.try_into().unwrap()).unwrap()
}

/// Returns whether a process is running. A zombie is not.
pub(crate) fn is_alive(number: &str) -> bool {
    stat(number, 0).is_some_and(|state| state != "Z" && state != "X")
}

/// Kills a command while one of its child processes is stopped; the child must not outlive it.
pub(crate) fn assert_no_stopped_child_is_left(command: &mut Command) {
    let command = command.stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut parent = command.spawn().unwrap();
    let mut stopped = None;
    wait_for("a process to be stopped", || {
        let mut all = children(parent.id()).into_iter();
        stopped = all.find(|pid| stat(pid, 0).as_deref() == Some("T"));
        stopped.is_some()
    });
    parent.kill().unwrap();
    parent.wait().unwrap();
    let stopped = stopped.unwrap();
    wait_for("the process to end", || !is_alive(&stopped));
}

/// Returns the child processes of a process.
pub(crate) fn children(parent: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    numbers
        .filter(|pid| stat(pid, 1) == Some(parent.to_string()))
        .collect()
}

/// Returns a field of a process's `stat`, counted from after its name.
fn stat(pid: &str, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(field).map(str::to_owned)
}

/// Returns the URL of a store in which these servers vote.
pub(crate) fn redlock(servers: &[RedisServer], options: &str) -> String {
    let nodes = servers.iter();
    let nodes: Vec<_> = nodes
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect();
    format!("redlock://{}{options}", nodes.join(","))
}

/// Returns the ids of all descendants of a process.
pub(crate) fn descendants(of: u32) -> Vec<String> {
    let mut found = vec![of.to_string()];
    let mut next = 0;
    while next < found.len() {
        let threads = Path::new("/proc").join(&found[next]).join("task");
        let threads = fs::read_dir(threads).into_iter().flatten().flatten();
        for thread in threads {
            let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in list.split_whitespace() {
                if !found.iter().any(|known| known == child) {
                    found.push(child.to_owned());
                }
            }
        }
        next += 1;
    }
    found.split_off(1)
}

/// Returns whether the command line of a process contains this word.
pub(crate) fn runs(pid: &str, word: &str) -> bool {
    let line = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    line.contains(word) && !line.contains("guardian")
}
