//! What clients do with the lock and the resource.

use std::time::Instant;

use tenure_checker::What;

use super::{BEYOND, Experiment, PATIENCE};
use crate::lab::NAME;
use crate::lab::error::{Error, Result};
use crate::lab::messages::{Action, Step};

impl Experiment {
    /// Makes a client ask for the lock, and returns once it has started to.
    pub(in crate::lab) fn ask(&mut self, process: u32) -> Result<u64> {
        let claim = self.claims.len() as u64 + 1;
        self.claims.insert(claim, process);
        let name = NAME.to_owned();
        self.send(process, &Step::Lock { claim, name })?;
        self.until_noted("a client asks", claim, |what| {
            matches!(what, What::Asked { .. })
        })?;
        Ok(claim)
    }

    /// Makes a client ask for the lock, and waits until it believes that it has it.
    pub(in crate::lab) fn lock(&mut self, process: u32) -> Result<u64> {
        let claim = self.ask(process)?;
        self.granted(claim)?;
        Ok(claim)
    }

    /// Waits until the claim is granted.
    pub(in crate::lab) fn granted(&mut self, claim: u64) -> Result<()> {
        self.until("a client is granted the lock", |lab| {
            Ok(lab.is_granted(claim))
        })
    }

    pub(in crate::lab) fn is_granted(&self, claim: u64) -> bool {
        self.noted(claim, |what| matches!(what, What::Granted { .. }))
    }

    /// Waits until the claim has its answer, whatever it is.
    pub(in crate::lab) fn answered(&mut self, claim: u64) -> Result<()> {
        self.until("a client has its answer", |lab| Ok(lab.is_answered(claim)))
    }

    /// Waits until the holder has noticed its loss.
    pub(in crate::lab) fn lost(&mut self, claim: u64) -> Result<()> {
        self.until_noted("a holder notices its loss", claim, |what| {
            matches!(what, What::Lost { .. })
        })
    }

    /// Makes a holder read the resource, unless it has noticed its loss.
    pub(in crate::lab) fn read(&mut self, claim: u64) -> Result<()> {
        self.tell(claim, Action::Read)?;
        self.done(claim)
    }

    /// Makes a holder write to the resource, unless it has noticed its loss.
    pub(in crate::lab) fn write(&mut self, claim: u64) -> Result<()> {
        self.begin_write(claim)?;
        self.done(claim)
    }

    /// Makes a holder start to write.
    pub(in crate::lab) fn begin_write(&mut self, claim: u64) -> Result<()> {
        self.tell(claim, Action::Write)
    }

    /// Waits until the holder has followed the last step.
    pub(in crate::lab) fn done(&mut self, claim: u64) -> Result<()> {
        self.until("a holder has used the resource", |lab| {
            Ok(lab.done.contains(&claim))
        })?;
        self.done.remove(&claim);
        Ok(())
    }

    /// Makes a holder release, and waits until it knows the outcome.
    pub(in crate::lab) fn release(&mut self, claim: u64) -> Result<()> {
        self.begin_release(claim)?;
        self.released(claim)
    }

    /// Makes a holder start to release.
    pub(in crate::lab) fn begin_release(&mut self, claim: u64) -> Result<()> {
        self.tell(claim, Action::Release)?;
        self.until_noted("a holder begins to release", claim, |what| {
            matches!(what, What::Releasing { .. })
        })
    }

    /// Waits until the holder knows the outcome of its release.
    pub(in crate::lab) fn released(&mut self, claim: u64) -> Result<()> {
        self.until("a holder has released", |lab| Ok(lab.is_released(claim)))
    }

    pub(in crate::lab) fn is_released(&self, claim: u64) -> bool {
        self.noted(claim, |what| matches!(what, What::Released { .. }))
    }

    /// Waits as long as a claim may take after the faults. If it is granted, it uses the resource
    /// and releases.
    pub(in crate::lab) fn finish(&mut self, claim: u64) -> Result<()> {
        let since = self.healed.unwrap_or_else(Instant::now);
        let left = (PATIENCE + BEYOND).saturating_sub(since.elapsed());
        if !self.within(left, |lab| lab.is_granted(claim))? {
            return Ok(());
        }
        self.read(claim)?;
        self.write(claim)?;
        self.release(claim)
    }

    fn until_noted(&mut self, what: &str, claim: u64, like: fn(&What) -> bool) -> Result<()> {
        self.until(what, |lab| Ok(lab.noted(claim, like)))
    }

    fn tell(&mut self, claim: u64, action: Action) -> Result<()> {
        match self.claims.get(&claim) {
            Some(process) => self.send(*process, &Step::Hold { claim, action }),
            None => Err(Error::Step(format!("nobody has made claim {claim}"))),
        }
    }
}
