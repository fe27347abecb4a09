//! One claim of a client, from the question to the release.

use std::sync::Arc;

use tenure_checker::{Event, Freed, Mode, What};
use tokio::sync::mpsc;

use crate::lab::clock::now_us;
use crate::lab::wire::{Did, Say};
use crate::lab::{BEFORE_WRITE, owner_of};
use crate::parent::tell;
use crate::recipes::{Held, Recipe, Stage};
use tenure_cli::error::Result;

/// What a holder is told to do.
#[derive(Debug)]
pub(super) enum Deed {
    Read,
    Version(u64),
    Write,
    Written,
    Release,
}

/// One claim, and what its holder knows.
#[derive(Debug)]
pub(super) struct Claim {
    number: u64,
    process: u32,
    name: String,
    lost: bool,
    /// What it has read.
    read: u64,
}

impl Claim {
    pub(super) fn new(number: u64, process: u32, name: String) -> Self {
        Self {
            number,
            process,
            name,
            lost: false,
            read: 0,
        }
    }

    /// Asks, does what it is told, and lets go.
    ///
    /// An error means that the lab is gone; this process ends with it.
    pub(super) async fn play(
        self,
        recipe: Arc<dyn Recipe>,
        deeds: mpsc::UnboundedReceiver<Deed>,
    ) -> Result<()> {
        let claim = self.number;
        let (name, owner) = (self.name.clone(), owner_of(self.process));
        let mode = Mode::Exclusive;
        self.note(What::Asked {
            claim,
            name,
            mode,
            owner,
        })?;
        match recipe.lock(&self.name).await {
            Ok(held) => {
                let fence = held.fence;
                self.note(What::Granted { claim, fence })?;
                self.hold(recipe.as_ref(), held, deeds).await
            }
            Err(trouble) if trouble.nothing_changed() => self.note(What::Refused { claim }),
            Err(trouble) => {
                let error = trouble.to_string();
                self.note(What::Unknown { claim, error })
            }
        }
    }

    async fn hold(
        mut self,
        recipe: &dyn Recipe,
        held: Held,
        mut deeds: mpsc::UnboundedReceiver<Deed>,
    ) -> Result<()> {
        let claim = self.number;
        loop {
            let deed = tokio::select! {
                deed = deeds.recv() => deed,
                () = held.lost(), if !self.lost => {
                    self.lost = true;
                    self.note(What::Lost { claim })?;
                    continue;
                }
            };
            match deed {
                None => return Ok(()),
                Some(Deed::Release) => break,
                Some(deed) => self.act(deed, held.fence).await?,
            }
        }
        self.note(What::Releasing { claim })?;
        let freed = recipe.unlock(held).await.unwrap_or(Freed::Unknown);
        self.note(What::Released { claim, freed })
    }

    /// Uses the resource, unless it has noticed that it must not any more.
    async fn act(&mut self, deed: Deed, fence: Option<u64>) -> Result<()> {
        let (claim, read) = (self.number, self.read);
        match deed {
            Deed::Read | Deed::Write if self.lost => {
                let did = Did::Declined;
                tell(&Say::Done { claim, did })
            }
            Deed::Read => tell(&Say::Read { claim }),
            Deed::Version(version) => {
                self.read = version;
                let did = Did::Read;
                tell(&Say::Done { claim, did })
            }
            Deed::Write => {
                // However late the check above is made, a pause can fall between it and the write.
                Stage::reach(BEFORE_WRITE).await;
                tell(&Say::Write { claim, fence, read })
            }
            Deed::Written => {
                let did = Did::Wrote;
                tell(&Say::Done { claim, did })
            }
            Deed::Release => Ok(()),
        }
    }

    fn note(&self, what: What) -> Result<()> {
        let (at_us, process) = (now_us(), self.process);
        tell(&Say::Noted(Event {
            at_us,
            process,
            what,
        }))
    }
}
