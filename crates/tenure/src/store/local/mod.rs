//! Locks of one machine, with no server: processes share a directory.
//!
//! # The directory
//!
//! | file | content |
//! |---|---|
//! | `format` | `tenure local 2`: the layout of this directory |
//! | `lock` | empty; every reader and writer of the state holds an exclusive file lock on it |
//! | `fence` | an upper bound of all fences issued so far, synced to disk, with a checksum |
//! | `state-<boot>.mdb` | an LMDB file for one boot of the machine: a ledger for each name that is held or waited for, and the next fence |
//! | `clients/<session>` | one per client, which holds a file lock on it as long as it lives |
//! | `clients/<session>.sock` | the client's inbox, a Unix datagram socket |
//! | `*.tmp` | a file that is being created, or was left by a process that was killed |
//!
//! The default directory is `tenure` in `$XDG_STATE_HOME`, or in `~/.local/state`, for its user
//! only. In another directory, files get the permissions of the directory: everybody who may write to
//! it may lock, so a group shares locks in a directory that the group may write to.
//!
//! # What it promises
//!
//! - Each change is one LMDB transaction, made while the file lock keeps all others out. A process
//!   that is killed in the middle of it has changed nothing, and the kernel releases its file lock.
//! - The state need not survive a power cut, because no holder on the machine does. A new boot starts
//!   with a new state, and with fences above the upper bound.
//! - The file lock of a client shows that it is alive. A waiting client watches the processes ahead
//!   of it, so that it proceeds within milliseconds after one of them dies. If it cannot see them
//!   (another pid namespace, a child that inherited the files), the ttl is the backstop.
//! - The clock is the machine's boot time, which advances while the machine is suspended. It is the
//!   same in every time namespace.
//!
//! Network file systems, and those that a machine shares with its guests, are refused: their file
//! locks and memory mappings are not reliable.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Release, Released, Renewal,
    Renewed,
};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::random::random_u128;
use crate::store::ledger::{Ledger, NOBODY, Session};

mod boot_clock;
#[cfg(feature = "doctor")]
mod doctor;
mod fault;
mod fence;
mod folder;
mod gate;
mod inbox;
mod lmdb_check;
mod presence;
mod raw;
mod recall;
mod safe_dir;
mod state;
mod transaction;
mod watch;

use fault::KIND;
use inbox::Inbox;
use presence::Presence;
use state::State;
use transaction::Transaction;
use watch::Watches;

#[cfg(feature = "doctor")]
pub use doctor::doctor;

/// One client of the locks in a directory.
///
/// Dropping it ends its leases, as the end of its process does. The copy in a forked child returns
/// errors, and dropping that ends nothing; the child can open the directory itself.
///
/// If the directory is deleted, moved or replaced, the next request that notices it fails with
/// [`Damaged`](Error::Damaged), and the client is told that it has lost all its leases. The engine
/// renews each lease after a third of its ttl, so it notices by then.
#[derive(Debug)]
pub struct Local {
    session: Session,
    state: Arc<State>,
    inbox: Inbox,
    watches: Watches,
}

impl Local {
    /// Opens the locks of a directory, and creates it if needed; without one, the user's own.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](Error::InvalidUrl) if no directory is given and there is no default, or if
    /// it is on a network file system; [`Unavailable`](Error::Unavailable) if it is not writable;
    /// [`Damaged`](Error::Damaged) if its files are damaged; [`Version`](Error::Version) if they are
    /// from a newer version.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime with I/O and time enabled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call removes what a dropped one has created in the directory.
    pub async fn open(folder: Option<&Path>) -> Result<Self> {
        let folder = folder::choose(folder)?;
        let opened = tokio::task::spawn_blocking(move || State::open(&folder)).await;
        let state = opened.map_err(|error| fault::unavailable(error.to_string()))??;
        let session = random_u128().max(NOBODY + 1);
        let section = state.enter().await?;
        let failed = |error| fault::io(&state.folder.path().join("clients"), &error);
        let dead = presence::sessions(&state.folder).map_err(failed)?;
        let dead = state.dead_among(dead.into_iter());
        let presence = Presence::show(&state.folder, session).map_err(failed)?;
        let inbox = Inbox::open(&state, session, presence).map_err(failed)?;
        let client = Self {
            session,
            watches: Watches::new(inbox.recalls()),
            inbox,
            state: Arc::clone(&state),
        };
        if !dead.is_empty() {
            let forget = |change: &mut Transaction<'_>| state.forget(change, &dead);
            let ((), letters) = state.change(section, session, forget)?;
            state.send(letters).await;
        }
        Ok(client)
    }

    /// Makes one change, and notifies every client that it concerns.
    async fn change<T>(&self, change: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let section = self.state.enter().await?;
        let (answer, letters) = self.state.change(section, self.session, change)?;
        if !letters.is_empty() {
            self.state.send(letters).await;
        }
        Ok(answer)
    }

    /// Decides a claim; also returns the sessions ahead of it.
    fn decide(
        &self,
        claim: &Claim,
        change: &mut Transaction<'_>,
    ) -> Result<(Answer, Vec<Session>)> {
        let mut before = Vec::new();
        let answer = change.name(&claim.name, |ledger, at| {
            let answer = ledger.acquire(claim, at);
            if matches!(answer, Ok(Answer::Busy | Answer::Queued { .. })) {
                let others: BTreeSet<_> = ledger.sessions_but(self.session).collect();
                before.extend(others);
            }
            answer
        })?;
        match answer {
            Ok(answer) => Ok((answer, before)),
            Err(_) => Err(Error::ModeConflict {
                name: claim.name.clone(),
            }),
        }
    }
}

#[async_trait]
impl Driver for Local {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn clock(&self) -> Clock {
        Clock::Boot
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let section = self.state.enter().await?;
        let (answer, before, letters) = {
            let mut change = Transaction::begin(&self.state, &section, self.session)?;
            let (mut answer, mut before) = self.decide(claim, &mut change)?;
            let unwatched = before.iter().copied();
            let unwatched = unwatched.filter(|session| !self.watches.has(*session));
            let dead = self.state.dead_among(unwatched);
            if !dead.is_empty() {
                // The transaction is restarted, so that the claim is decided as if they had never
                // been there.
                drop(change);
                change = Transaction::begin(&self.state, &section, self.session)?;
                self.state.forget(&mut change, &dead)?;
                (answer, before) = self.decide(claim, &mut change)?;
            }
            (answer, before, change.commit()?)
        };
        if let Answer::Queued { .. } = answer {
            self.watches.add(&self.state, before, &claim.name);
        }
        drop(section);
        if !letters.is_empty() {
            self.state.send(letters).await;
        }
        Ok(answer)
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.change(|change| change.name(&claim.name, |ledger, at| ledger.withdraw(claim, at)))
            .await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let mut sorted: Vec<_> = renewals.iter().enumerate().collect();
        sorted.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        // Renewals are rare enough for a check that is too slow for every change.
        self.state.refuse_moved()?;
        let mut answers = Vec::with_capacity(renewals.len());
        // Other clients get their turn between two batches.
        for batch in sorted.chunks(BATCH) {
            let renewed = self.change(|change| {
                let renew = |(at, renewal): &(usize, &Renewal)| {
                    let renewed =
                        change.name(&renewal.name, |ledger, at| ledger.renew(renewal, at));
                    renewed.map(|renewed| (*at, renewed))
                };
                batch.iter().map(renew).collect::<Result<Vec<_>>>()
            });
            answers.extend(renewed.await?);
        }
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, renewed)| renewed).collect())
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.change(|change| change.name(&release.name, |ledger, at| ledger.release(release, at)))
            .await
    }

    async fn news(&self) -> News {
        self.inbox.next().await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        if let Some(name) = only {
            let entry = |change: &mut Transaction<'_>| {
                change.name(name, |ledger, at| entry(name.clone(), ledger, at.now))
            };
            return Ok(self.change(entry).await?.into_iter().collect());
        }
        let mut entries = Vec::new();
        let mut after = None;
        loop {
            let read = |change: &mut Transaction<'_>| {
                let page = change.page(after.as_ref(), BATCH, |_| true)?;
                Ok((page, change.now()))
            };
            let (page, now) = self.change(read).await?;
            let found = page.found.into_iter();
            entries.extend(found.filter_map(|(name, ledger)| entry(name, &ledger, now)));
            after = page.next;
            if after.is_none() {
                return Ok(entries);
            }
        }
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.change(|change| change.name(name, Ledger::evict)).await
    }

    /// No request runs in the background.
    async fn settled(&self) {}
}

impl Drop for Local {
    fn drop(&mut self) {
        // In a forked child, the client belongs to the parent.
        if self.state.is_inherited() {
            return;
        }
        match self.state.bury_within(FAREWELL, self.session) {
            Ok(()) => self.state.folder.remove_client(self.session),
            // Others notice by the file lock, which ends with this client.
            Err(error) => tracing::debug!(%error, "a client ends without saying so"),
        }
    }
}

/// How many names one transaction reads or renews.
const BATCH: usize = 1_000;

/// How long the end of a client may take.
const FAREWELL: Duration = Duration::from_millis(100);

/// Returns the entry of a ledger, unless it is empty.
fn entry(name: Name, ledger: &Ledger, now: u64) -> Option<Entry> {
    let entry = ledger.entry(name, now);
    (!entry.is_empty()).then_some(entry)
}

#[cfg(test)]
mod tests;
