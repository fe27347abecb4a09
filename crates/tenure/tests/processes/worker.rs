//! Another process: this program again, in a role that is controlled by the lines it reads.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::process::{Signal, set_parent_process_death_signal};
use tenure_testkit::{Child, Parent};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::timeout;

use crate::{PATIENCE, boot_time};

/// The directory of the store; set only in workers.
const FOLDER: &str = "TENURE_TEST_FOLDER";

/// A process that this test started, killed when dropped.
///
/// It also dies with the thread that started it, so only a test's own thread starts one.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    answers: UnboundedReceiver<String>,
}

impl Worker {
    /// Starts this program in a role, with the store in a directory.
    pub(crate) fn start(role: &str, folder: &Path) -> Self {
        let program = std::env::current_exe().expect("a running program has a file");
        Self::start_by(Command::new(program), role, folder)
    }

    /// Does the same with a command that runs its arguments, possibly as another user.
    pub(crate) fn start_by(mut command: Command, role: &str, folder: &Path) -> Self {
        command.args(["--exact", role, "--nocapture"]);
        let child = Child::start("a worker", command.env(FOLDER, folder));
        let mut child = child.expect("a worker starts");
        let (sender, answers) = mpsc::unbounded_channel();
        child.on_message(move |answer| {
            // Everything else was printed by the test harness.
            if let Ok(answer) = answer {
                // Nobody may be listening any more.
                let _ = sender.send(answer);
            }
        });
        Self { child, answers }
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

    /// Sends a command without waiting for the answer.
    pub(crate) fn tell(&mut self, command: &str) {
        self.child.send(&command).expect("a worker listens");
    }

    /// Waits for the next answer.
    pub(crate) async fn answer(&mut self) -> String {
        let answer = timeout(PATIENCE, self.answers.recv()).await;
        let answer = answer.expect("a worker answers in time");
        answer.expect("a worker answers before it ends")
    }

    /// Sends a command, and waits for the answer.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer().await
    }

    /// Sends a command that ends in a grant; returns its fence.
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

    /// Waits until it has given up waiting this many times, and waits again.
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

    /// Kills the process; returns a time at which it was still alive.
    pub(crate) fn kill(&mut self) -> u64 {
        let ended = self.child.wait_until(Instant::now());
        let ended = ended.expect("a child can be asked for");
        assert_eq!(ended, None, "a worker ends only when it is told to");
        let alive = boot_time();
        self.child.kill().expect("a child can be killed");
        alive
    }

    /// Kills the process without waiting for its end.
    pub(crate) fn kill_without_waiting(&self) {
        let killed = self.child.signal(Signal::KILL);
        killed.expect("a child can be killed");
    }

    /// Stops the process, and waits until all of its threads have stopped.
    pub(crate) fn stop(&self) {
        let stopped = self.child.stop().expect("a child can be stopped");
        assert!(stopped, "a worker ends only when it is told to");
    }

    pub(crate) fn go_on(&self) {
        self.child.resume().expect("a child can go on");
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(mut self) {
        self.child.close();
        // Its output ends with it.
        while timeout(PATIENCE, self.answers.recv())
            .await
            .expect("a worker ends in time")
            .is_some()
        {}
        let ended = self.child.wait_until(Instant::now() + PATIENCE);
        let status = ended.expect("a child can be waited for");
        let status = status.expect("a worker ends in time");
        assert!(status.success(), "{status}");
    }
}

/// Runs a role, if this process was started for it.
pub(crate) fn play<F: Future<Output = ()>>(role: impl FnOnce(PathBuf, Parent) -> F) {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).expect("Linux has it");
    let commands = Parent::listen_to_the_end("a worker", "cargo test");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(role(folder.into(), commands));
}

/// Answers a command on a separate line, whatever the harness has printed before.
pub(crate) fn answer(text: &str) {
    println!();
    Parent::send(&text).expect("the test listens");
}
