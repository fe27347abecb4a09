//! What clients are told to do with the lock and the resource.

use std::time::Instant;

use tenure_checker::What;

use super::{BEYOND, PATIENCE, Scene};
use crate::lab::NAME;
use crate::lab::upset::Result;
use crate::lab::wire::Step;

impl Scene {
    /// Lets a client ask for the lock, and returns once it has begun to.
    pub(in crate::lab) fn ask(&mut self, process: u32) -> Result<u64> {
        let claim = self.claims.len() as u64 + 1;
        self.claims.insert(claim, process);
        let name = NAME.to_owned();
        self.tell(process, &Step::Lock { claim, name })?;
        self.until("a client asks", |scene| {
            Ok(scene.noted(claim, |what| matches!(what, What::Asked { .. })))
        })?;
        Ok(claim)
    }

    /// Lets a client ask for the lock, and waits until it believes to have it.
    pub(in crate::lab) fn lock(&mut self, process: u32) -> Result<u64> {
        let claim = self.ask(process)?;
        self.granted(claim)?;
        Ok(claim)
    }

    /// Waits until the claim is granted.
    pub(in crate::lab) fn granted(&mut self, claim: u64) -> Result<()> {
        self.until("a client is granted the lock", |scene| {
            Ok(scene.is_granted(claim))
        })
    }

    pub(in crate::lab) fn is_granted(&self, claim: u64) -> bool {
        self.noted(claim, |what| matches!(what, What::Granted { .. }))
    }

    /// Waits until the claim has its answer, whatever it is.
    pub(in crate::lab) fn answered(&mut self, claim: u64) -> Result<()> {
        self.until("a client has its answer", |scene| {
            Ok(scene.is_answered(claim))
        })
    }

    /// Waits until the holder has noticed its loss.
    pub(in crate::lab) fn lost(&mut self, claim: u64) -> Result<()> {
        self.until("a holder notices its loss", |scene| {
            Ok(scene.noted(claim, |what| matches!(what, What::Lost { .. })))
        })
    }

    /// Lets a holder read the resource; one that has noticed its loss does not.
    pub(in crate::lab) fn read(&mut self, claim: u64) -> Result<()> {
        self.tell_holder(claim, &Step::Read { claim })?;
        self.done(claim)
    }

    /// Lets a holder write to the resource; one that has noticed its loss does not.
    pub(in crate::lab) fn write(&mut self, claim: u64) -> Result<()> {
        self.begin_write(claim)?;
        self.done(claim)
    }

    /// Lets a holder begin to write.
    pub(in crate::lab) fn begin_write(&mut self, claim: u64) -> Result<()> {
        self.tell_holder(claim, &Step::Write { claim })
    }

    /// Waits until the holder has done what it was told.
    pub(in crate::lab) fn done(&mut self, claim: u64) -> Result<()> {
        self.until("a holder has used the resource", |scene| {
            Ok(scene.did.contains_key(&claim))
        })?;
        self.did.remove(&claim);
        Ok(())
    }

    /// Lets a holder let go, and waits until it was told what came of it.
    pub(in crate::lab) fn release(&mut self, claim: u64) -> Result<()> {
        self.begin_release(claim)?;
        self.released(claim)
    }

    /// Lets a holder begin to let go.
    pub(in crate::lab) fn begin_release(&mut self, claim: u64) -> Result<()> {
        self.tell_holder(claim, &Step::Release { claim })?;
        self.until("a holder lets go", |scene| {
            Ok(scene.noted(claim, |what| matches!(what, What::Releasing { .. })))
        })
    }

    /// Waits until the holder was told what came of letting go.
    pub(in crate::lab) fn released(&mut self, claim: u64) -> Result<()> {
        self.until("a holder has let go", |scene| Ok(scene.is_released(claim)))
    }

    pub(in crate::lab) fn is_released(&self, claim: u64) -> bool {
        self.noted(claim, |what| matches!(what, What::Released { .. }))
    }

    /// Waits as long as a claim may take after the faults; one that is granted uses the resource and lets go.
    pub(in crate::lab) fn finish(&mut self, claim: u64) -> Result<()> {
        let since = self.healed.unwrap_or_else(Instant::now);
        while !self.is_granted(claim) && since.elapsed() < PATIENCE + BEYOND {
            self.hear()?;
        }
        if !self.is_granted(claim) {
            return Ok(());
        }
        self.read(claim)?;
        self.write(claim)?;
        self.release(claim)
    }
}
