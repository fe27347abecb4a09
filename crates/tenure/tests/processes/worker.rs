//! Another process: this program once more, in a role that it plays by the lines it reads.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, set_parent_process_death_signal, waitid,
};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::timeout;

use crate::{PATIENCE, boot_time};

/// The folder of the store; set only in workers.
const FOLDER: &str = "TENURE_TEST_FOLDER";

/// How answers begin, so that they are told from what the test harness prints.
const ANSWER: &str = "> ";

/// A process of ours, which is killed when dropped.
///
/// It also dies with the thread that started it, so only a test's own thread starts one.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    /// Closed to let it end.
    input: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Worker {
    /// Starts a process in a role of this program, with the store in a folder.
    pub(crate) fn start(role: &str, folder: &Path) -> Self {
        let program = std::env::current_exe().expect("a running program has a file");
        Self::start_by(Command::new(program), role, folder)
    }

    /// The same by a command that runs what is given to it, maybe as another user.
    pub(crate) fn start_by(mut command: Command, role: &str, folder: &Path) -> Self {
        command
            .args(["--exact", role, "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("a worker starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, answers) = mpsc::channel(1000);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(answer) = line.strip_prefix(ANSWER)
                    && sender.blocking_send(answer.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            answers,
            child,
        }
    }

    /// Starts a hand, and waits until it has opened the store.
    pub(crate) async fn hand(folder: &Path) -> Self {
        let mut hand = Self::start("hand", folder);
        assert_eq!(hand.answer().await, "ready");
        hand
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives a command without waiting for the answer.
    pub(crate) fn tell(&mut self, command: &str) {
        let input = self.input.as_mut().expect("it has not been ended");
        writeln!(input, "{command}").expect("a worker listens");
    }

    /// Waits for the next answer.
    pub(crate) async fn answer(&mut self) -> String {
        let answer = timeout(PATIENCE, self.answers.recv()).await;
        let answer = answer.expect("a worker answers in time");
        answer.expect("a worker answers before it ends")
    }

    /// Gives a command, and waits for the answer.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer().await
    }

    /// Gives a command that ends in a grant; returns its fence.
    pub(crate) async fn granted(&mut self, command: &str) -> u64 {
        self.tell(command);
        self.told_granted().await
    }

    /// Waits for a grant; returns its fence.
    pub(crate) async fn told_granted(&mut self) -> u64 {
        let answer = self.answer().await;
        let fence = answer.strip_prefix("granted ");
        fence.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
    }

    /// Waits until it has given up waiting so many times, and waits again.
    pub(crate) async fn gives_up(&mut self, times: usize) {
        for _ in 0..times {
            assert_eq!(self.answer().await, "too short");
        }
    }

    /// Waits for a grant, however often it gives up before; returns its fence.
    pub(crate) async fn insists(&mut self) -> u64 {
        loop {
            let answer = self.answer().await;
            if let Some(fence) = answer.strip_prefix("granted ") {
                return fence.parse().unwrap();
            }
            assert_eq!(answer, "too short");
        }
    }

    /// Kills the process; returns a moment at which it was still alive.
    pub(crate) fn kill(&mut self) -> u64 {
        let ended = self.child.try_wait().expect("a child can be asked for");
        assert_eq!(ended, None, "a worker ends only when it is told to");
        let alive = boot_time();
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
        alive
    }

    /// Kills the process, and leaves it to the kernel when it ends.
    pub(crate) fn kill_without_waiting(&mut self) {
        self.child.kill().expect("a child can be killed");
    }

    /// Stops the process, and waits until none of its threads runs any more.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let id = WaitId::Pid(Pid::from_child(&self.child));
        let stopped = waitid(id, WaitIdOptions::STOPPED);
        stopped.expect("a child can be stopped");
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(mut self) {
        self.input = None;
        // Its output ends with it.
        while timeout(PATIENCE, self.answers.recv())
            .await
            .expect("a worker ends in time")
            .is_some()
        {}
        let status = self.child.wait().expect("a child can be waited for");
        assert!(status.success(), "{status}");
    }

    fn signal(&self, signal: Signal) {
        // Not reaped yet, so the number is still its own.
        kill_process(Pid::from_child(&self.child), signal).expect("a child can be told");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a worker is told to do, line by line; the end of it is the end of the worker.
#[derive(Debug)]
pub(crate) struct Commands(Receiver<String>);

impl Commands {
    fn listen() -> Self {
        let (sender, commands) = mpsc::channel(1000);
        thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self(commands)
    }

    /// Waits for the next command; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.0.recv().await
    }

    /// Whether another command has come, or the end.
    pub(crate) fn are_waiting(&self) -> bool {
        !self.0.is_empty() || self.0.is_closed()
    }
}

/// Plays a role, if this process was started for that.
pub(crate) fn play<F: Future<Output = ()>>(role: impl FnOnce(PathBuf, Commands) -> F) {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).expect("Linux has it");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(role(folder.into(), Commands::listen()));
}

/// Answers a command; on a line of its own, whatever the harness has printed before.
pub(crate) fn answer(text: &str) {
    println!("\n{ANSWER}{text}");
}
