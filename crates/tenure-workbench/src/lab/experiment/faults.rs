//! Faults, each recorded once it has visibly happened.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_checker::What;

use super::Experiment;
use crate::history;
use crate::lab::error::{Error, Result};

impl Experiment {
    /// Kills a client, and records it once it is dead.
    pub(in crate::lab) fn kill(&mut self, process: u32) -> Result<()> {
        self.child(process)?.signal(Signal::KILL)?;
        self.until("a client is killed", |lab| {
            Ok(lab.closed.contains(&process))
        })?;
        self.ended(process)?;
        self.fault("kill", Some(process));
        Ok(())
    }

    /// Stops a client, and records it once it has stopped.
    pub(in crate::lab) fn pause(&mut self, process: u32) -> Result<()> {
        if !self.child(process)?.stop()? {
            return Err(Error::Step("a client ended before its pause".to_owned()));
        }
        self.fault("pause", Some(process));
        Ok(())
    }

    /// Makes a stopped client continue.
    pub(in crate::lab) fn resume(&mut self, process: u32) -> Result<()> {
        if self.child(process)?.state() != Some('T') {
            return Err(Error::Step("a client did not stand still".to_owned()));
        }
        // Recorded first, so that everything that the client records from here on comes after the
        // pause.
        self.note(history::over("pause", Some(process)));
        Ok(self.child(process)?.resume()?)
    }

    /// Records a fault that has visibly happened.
    pub(in crate::lab) fn fault(&mut self, kind: &str, target: Option<u32>) {
        self.note(history::fault(kind, target));
    }

    /// Marks the end of all faults.
    pub(in crate::lab) fn heal(&mut self) {
        self.note(What::Healed);
        self.healed = Some(Instant::now());
    }

    /// Waits until a client has crashed by itself, for at most `longest`; returns whether it has.
    pub(in crate::lab) fn crashes(&mut self, process: u32, longest: Duration) -> Result<bool> {
        let crashed = self.within(longest, |lab| lab.closed.contains(&process))?;
        if crashed {
            let crashed = !self.ended(process)?.success();
            self.note_of(process, What::Ended { crashed });
        }
        Ok(crashed)
    }

    /// Lets time pass while the holder works, for `longest` or until another claim is granted.
    pub(in crate::lab) fn hold(&mut self, other: u64, longest: Duration) -> Result<()> {
        self.within(longest, |lab| lab.is_granted(other)).map(drop)
    }
}
