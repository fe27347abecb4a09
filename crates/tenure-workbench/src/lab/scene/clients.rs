//! Clients come and go.

use std::time::Duration;

use tenure_checker::What;

use super::Scene;
use crate::lab::player;
use crate::lab::upset::Result;
use crate::lab::wire::{Order, Step};

impl Scene {
    /// Starts a client on these servers, and waits until it has opened its lock.
    pub(in crate::lab) fn enter(&mut self, urls: &[String]) -> Result<u32> {
        self.enter_for(urls, self.ttl)
    }

    /// The same with a ttl of its own.
    pub(in crate::lab) fn enter_for(&mut self, urls: &[String], ttl: Duration) -> Result<u32> {
        let process = u32::try_from(self.players.len() + 1).unwrap_or(u32::MAX);
        let order = Order {
            process,
            who: self.who,
            urls: urls.to_vec(),
            ttl,
        };
        let player = player::start(&order, self.said.clone())?;
        self.players.insert(process, player);
        self.note_of(process, What::Started);
        self.until("a client is ready", |scene| {
            Ok(scene.ready.contains(&process))
        })?;
        Ok(process)
    }

    /// Ends all clients; returns whether none of them was still waiting.
    pub(in crate::lab) fn end(&mut self) -> Result<bool> {
        let numbers: Vec<_> = self.players.keys().copied().collect();
        let open = self.claims.iter().filter(|(claim, process)| {
            !self.closed.contains(process) && !self.is_answered(**claim)
        });
        let all_done = open.count() == 0;
        for process in numbers {
            self.leave(process)?;
        }
        Ok(all_done)
    }

    /// Lets a client end as it should.
    pub(in crate::lab) fn leave(&mut self, process: u32) -> Result<()> {
        if self.closed.contains(&process) {
            return Ok(());
        }
        self.tell(process, &Step::End)?;
        self.until("a client ends", |scene| Ok(scene.closed.contains(&process)))?;
        self.player_ended(process)?;
        self.note_of(process, What::Ended { crashed: false });
        Ok(())
    }

    /// Notes what was still found in the store.
    pub(in crate::lab) fn left(&mut self, found: &str) {
        let found = found.to_owned();
        self.note(What::Left { found });
    }
}
