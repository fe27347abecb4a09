//! One claim of a client, from the request to the release.

use std::sync::Arc;

use tenure_checker::{Freed, Mode, What};
use tenure_testkit::Parent;
use tokio::sync::mpsc;

use crate::history;
use crate::lab::messages::{Action, Message};
use crate::lab::{BEFORE_WRITE, owner_of};
use crate::recipes::{AnyLock, Held, breakpoint};
use tenure_cli::Result;

/// One claim, and what its holder knows.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) number: u64,
    pub(super) process: u32,
    pub(super) name: String,
}

impl Claim {
    /// Asks, follows the steps of the lab, and releases.
    ///
    /// An error means that the lab is gone; this process ends with it.
    pub(super) async fn run(
        self,
        lock: Arc<AnyLock>,
        actions: mpsc::UnboundedReceiver<Action>,
    ) -> Result<()> {
        let claim = self.number;
        self.note(What::Asked {
            claim,
            name: self.name.clone(),
            mode: Mode::Exclusive,
            owner: owner_of(self.process),
        })?;
        match lock.lock(&self.name).await {
            Ok(held) => {
                let fence = held.fence;
                self.note(What::Granted { claim, fence })?;
                self.hold(&lock, held, actions).await
            }
            Err(error) if error.nothing_changed() => self.note(What::Refused { claim }),
            Err(error) => {
                let error = error.to_string();
                self.note(What::Unknown { claim, error })
            }
        }
    }

    async fn hold(
        &self,
        lock: &AnyLock,
        held: Held,
        mut actions: mpsc::UnboundedReceiver<Action>,
    ) -> Result<()> {
        let (claim, fence) = (self.number, held.fence);
        let mut is_lost = false;
        loop {
            let action = tokio::select! {
                action = actions.recv() => action,
                () = held.lost(), if !is_lost => {
                    is_lost = true;
                    self.note(What::Lost { claim })?;
                    continue;
                }
            };
            match action {
                None => return Ok(()),
                Some(Action::Release) => break,
                Some(_) if is_lost => Parent::send(&Message::Declined { claim })?,
                Some(Action::Read) => Parent::send(&Message::Read { claim })?,
                Some(Action::Write) => {
                    // However late the check above is made, a pause can always fall between it and
                    // the write.
                    breakpoint(BEFORE_WRITE).await;
                    Parent::send(&Message::Write { claim, fence })?;
                }
            }
        }
        self.note(What::Releasing { claim })?;
        let freed = lock.unlock(held).await.unwrap_or(Freed::Unknown);
        self.note(What::Released { claim, freed })
    }

    fn note(&self, what: What) -> Result<()> {
        let event = history::now(self.process, what);
        Ok(Parent::send(&Message::Noted(event))?)
    }
}
