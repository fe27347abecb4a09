//! Supervises the running command: forwards signals, and ends the command in time if the lock is
//! lost.
//!
//! The end of a lease that cannot be renewed is known in advance. The command is sent TERM when
//! only the grace period is left, and KILL when the lease ends, so that it is gone before somebody
//! else can hold the lock. The grace period is at most a third of the lease: a renewal is due when
//! two thirds are left, and so it has a third of the lease to succeed before the command is asked
//! to end.
//!
//! An eviction comes without warning, and others may hold the lock at once. The command is
//! therefore sent TERM at once, and KILL after the grace period.

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use tenure::{Guard, Loss};
use tokio::time::{Instant, sleep};

use crate::cli::RunArgs;
use crate::duration::Rounded;
use crate::run::JOB_CONTROL;
use crate::run::child::{Change, Child, Exit};
use crate::run::guardian::Guardian;
use crate::signals::Signals;

/// Supervises a command and its lock.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    guard: &'a Guard,
    child: Child,
    guardian: Guardian,
    grace: Duration,
    /// How long before the end of the lease the command is sent TERM.
    notice: Duration,
    /// How much later than this process the guardian acts, so that it acts only if this process
    /// does not.
    slack: Duration,
    /// Whether the lease ends by `max_hold` although its renewals succeed.
    has_max_hold: bool,
    ending: Option<Ending>,
}

/// The command has been sent TERM.
#[derive(Debug)]
struct Ending {
    why: String,
    kill_at: Instant,
    killed: bool,
}

/// How the command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself.
    ByItself(Exit),
    /// Because the lock was lost, with the reason.
    Early(String),
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(guard: &'a Guard, child: Child, guardian: Guardian, args: &RunArgs) -> Self {
        let lease = args
            .max_hold
            .map_or(args.ask.ttl, |hold| hold.min(args.ask.ttl));
        Self {
            guard,
            child,
            guardian,
            grace: args.grace,
            notice: args.grace.min(lease / 3),
            slack: lease / 200,
            has_max_hold: args.max_hold.is_some(),
            ending: None,
        }
    }

    /// Supervises until the command has ended; if it was ended early, until its whole group has.
    pub(super) async fn keep(mut self, signals: &mut Signals) -> io::Result<Ended> {
        for signal in JOB_CONTROL {
            signals.also(signal)?;
        }
        let mut lost = std::pin::pin!(self.guard.lost());
        let mut told = false;
        let exit = loop {
            let nap = self.look();
            tokio::select! {
                change = self.child.changed() => match change {
                    Change::Ended(exit) => break exit,
                    Change::Stopped(signal) => self.child.stopped_by(signal),
                },
                signal = signals.next() => self.child.signal(signal),
                loss = &mut lost, if !told => {
                    told = true;
                    self.lost(loss);
                }
                () = sleep(nap) => {}
            }
        };
        if let Some(ending) = &self.ending {
            self.child.rest_ended(ending.kill_at).await;
        }
        self.guardian.dismiss();
        self.child.take_back_terminal();
        Ok(match self.ending {
            Some(ending) => Ended::Early(ending.why),
            None => Ended::ByItself(exit),
        })
    }

    /// Does what is due now, and returns the time until the next check.
    fn look(&mut self) -> Duration {
        let now = Instant::now();
        let left = self.guard.time_left();
        // A lock that was lost without warning is handled by `lost`, which grants its own grace
        // period.
        if self.ending.is_none() && !left.is_zero() {
            self.guardian.end_after(left + self.slack);
            if left <= self.notice {
                self.ask_to_end(self.why_now(), now + left);
            }
        }
        match &mut self.ending {
            // A renewal that succeeds late must reach the guardian before it acts, so the checks
            // become more frequent towards the end.
            None => (left / 4)
                .clamp(SHORTEST_NAP, LONGEST_NAP)
                .min(left.saturating_sub(self.notice).max(SHORTEST_NAP)),
            Some(ending) if ending.killed => LONGEST_NAP,
            Some(ending) if now >= ending.kill_at => {
                ending.killed = true;
                self.child.signal(Signal::KILL);
                LONGEST_NAP
            }
            Some(ending) => ending.kill_at - now,
        }
    }

    /// Returns why the lease is about to end, as far as this is known in advance.
    fn why_now(&self) -> String {
        if self.has_max_hold && self.guard.renewal_failure().is_none() {
            return Loss::MaxHold.to_string();
        }
        self.with_cause("the lease could not be renewed in time")
    }

    /// Adds why renewals fail, and for how long they have.
    fn with_cause(&self, why: &str) -> String {
        cause(self.guard).map_or_else(|| why.to_owned(), |cause| format!("{why}: {cause}"))
    }

    /// Ends the command because the lock is lost.
    fn lost(&mut self, loss: Loss) {
        let now = Instant::now();
        let kill_at = match loss {
            // The end was known in advance, and the command has already been asked to end.
            Loss::Expired | Loss::MaxHold | Loss::Unreachable => now,
            _ => now + self.grace,
        };
        let why = match loss {
            Loss::Expired | Loss::Unreachable => self.with_cause(&loss.to_string()),
            _ => loss.to_string(),
        };
        match &mut self.ending {
            Some(ending) => {
                ending.why = why;
                ending.kill_at = ending.kill_at.min(kill_at);
            }
            None => self.ask_to_end(why, kill_at),
        }
    }

    fn ask_to_end(&mut self, why: String, kill_at: Instant) {
        self.child.ask_to_end();
        let left = kill_at.saturating_duration_since(Instant::now());
        self.guardian.end_after(left + self.slack);
        self.ending = Some(Ending {
            why,
            kill_at,
            killed: false,
        });
    }
}

/// Returns why the lock is not renewed, and since when.
pub(super) fn cause(guard: &Guard) -> Option<String> {
    let failure = guard.renewal_failure()?;
    let lasts = Rounded(failure.lasts);
    Some(format!("no renewal for {lasts}, {}", failure.reason))
}

const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_secs(5);
