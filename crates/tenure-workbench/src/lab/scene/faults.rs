//! Faults, each noted once it was seen to have landed.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_checker::What;

use super::Scene;
use crate::lab::upset::{Result, Upset};

impl Scene {
    /// Kills a client, and notes it once it is dead.
    pub(in crate::lab) fn kill(&mut self, process: u32) -> Result<()> {
        self.player(process)?.signal(Signal::KILL)?;
        self.until("a client is killed", |scene| {
            Ok(scene.closed.contains(&process))
        })?;
        self.player_ended(process)?;
        self.fault("kill", Some(process));
        Ok(())
    }

    /// Stops a client where it stands, and notes it once it stands still.
    pub(in crate::lab) fn pause(&mut self, process: u32) -> Result<()> {
        self.player(process)?.signal(Signal::STOP)?;
        self.until("a client stands still", |scene| {
            Ok(scene.player_state(process) == Some('T'))
        })?;
        self.fault("pause", Some(process));
        Ok(())
    }

    /// Lets a stopped client go on.
    pub(in crate::lab) fn resume(&mut self, process: u32) -> Result<()> {
        if self.player_state(process) != Some('T') {
            return Err(Upset::Play("a client did not stand still".to_owned()));
        }
        let (kind, target) = ("pause".to_owned(), Some(process));
        // Noted first: what the client notes from here on comes after the pause.
        self.note(What::Over { kind, target });
        Ok(self.player(process)?.signal(Signal::CONT)?)
    }

    /// Notes a fault that was seen to have landed.
    pub(in crate::lab) fn fault(&mut self, kind: &str, target: Option<u32>) {
        let kind = kind.to_owned();
        self.note(What::Fault { kind, target });
    }

    /// From here on there are no more faults.
    pub(in crate::lab) fn heal(&mut self) {
        self.note(What::Healed);
        self.healed = Some(Instant::now());
    }

    /// Waits until a client has crashed by itself, for `longest` at most; returns whether it has.
    pub(in crate::lab) fn crashes(&mut self, process: u32, longest: Duration) -> Result<bool> {
        let since = Instant::now();
        while !self.closed.contains(&process) && since.elapsed() < longest {
            self.hear()?;
        }
        let crashed = self.closed.contains(&process);
        if crashed {
            let crashed = !self.player_ended(process)?.success();
            self.note_of(process, What::Ended { crashed });
        }
        Ok(crashed)
    }

    /// Lets time pass while the holder works, for `longest` or until somebody else is granted the lock.
    pub(in crate::lab) fn hold(&mut self, other: u64, longest: Duration) -> Result<()> {
        let since = Instant::now();
        while !self.is_granted(other) && since.elapsed() < longest {
            self.hear()?;
        }
        Ok(())
    }
}
