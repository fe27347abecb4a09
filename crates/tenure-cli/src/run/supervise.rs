//! Supervises the command while it runs: passes signals on, and ends the command in time if the lock is lost.
//!
//! A lease that cannot be renewed ends at a moment that is known beforehand, so the command is
//! asked to end (TERM) while the grace is left and killed when the lease ends: it is gone before
//! another can hold the lock. The grace is at most a third of the lease: a renewal is due when two
//! thirds are left, and has a third to succeed before anybody is asked to end.
//!
//! An eviction comes without warning, and others may hold the lock at once: the command is asked
//! at once, and killed after the grace.

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use tenure::{Guard, Loss};
use tokio::time::{Instant, sleep};

use crate::cli::RunArgs;
use crate::run::JOB_CONTROL;
use crate::run::child::{Change, Child, Exit};
use crate::run::guardian::Guardian;
use crate::signals::Signals;

/// Watches over a command and its lock.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    guard: &'a Guard,
    child: Child,
    guardian: Guardian,
    grace: Duration,
    /// How long before the end of the lease the command is asked to end.
    notice: Duration,
    /// How much later than us the guardian acts, so that it does so only if we do not.
    slack: Duration,
    /// When the lock has been held for as long as it may be.
    max_hold: Option<Instant>,
    ending: Option<Ending>,
}

/// The command has been asked to end.
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
    /// Because the lock was lost, and why.
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
            max_hold: args.max_hold.map(|longest| Instant::now() + longest),
            ending: None,
        }
    }

    /// Watches until the command has ended, and its whole group if we ended it.
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

    /// Does what is due now, and returns when to look again.
    fn look(&mut self) -> Duration {
        let now = Instant::now();
        let left = self.guard.time_left();
        // A lock that was lost at once is told by `lost`, with its own grace.
        if self.ending.is_none() && !left.is_zero() {
            self.guardian.end_after(left + self.slack);
            if left <= self.notice {
                self.ask_to_end(self.why_now(now), now + left);
            }
        }
        match &mut self.ending {
            // A renewal that succeeds late must reach the guardian before it acts, so the looks
            // become frequent towards the end.
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

    /// Why the lease comes to its end, as far as is known before it does.
    fn why_now(&self, now: Instant) -> String {
        let nearly = self.notice + self.slack * 10;
        match self.max_hold {
            Some(end) if end.saturating_duration_since(now) <= nearly => Loss::MaxHold.to_string(),
            _ => "the lease could not be renewed in time".to_owned(),
        }
    }

    /// Ends the command because the lock is lost.
    fn lost(&mut self, loss: Loss) {
        let now = Instant::now();
        let kill_at = match loss {
            // The time was known, and the command has been asked before.
            Loss::Expired | Loss::MaxHold | Loss::Unreachable => now,
            _ => now + self.grace,
        };
        match &mut self.ending {
            Some(ending) => {
                ending.why = loss.to_string();
                ending.kill_at = ending.kill_at.min(kill_at);
            }
            None => self.ask_to_end(loss.to_string(), kill_at),
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

const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_secs(5);
