//! Locks in a database: one row per name, decided by the rules of the ledger, written if it is still as it was read.
//!
//! | file | content |
//! |---|---|
//! | `settings` | what a URL says: server, access, table, times |
//! | `database` | what differs between databases; `postgres` and `mysql` implement it |
//! | `record` | a row of the table, and the ledger that it stands for |
//! | `change` | read, decide, write if nothing has changed, and ring for whom it concerns |
//! | `mailbox` | how a client hears that its turn has come |
//! | `turns` | one change of a name at a time in each client |
//! | `pool`, `fault` | connections, and what goes wrong on them |
//! | `abandoned` | connections on which a statement may still be in flight |
//! | `doctor` | how the doctors of both databases ask, and the checks that they share |
//! | `lazy` | releases that a crash of the server may undo |
//! | `sweep` | deletes rows of names that are not used any more |
//!
//! A free name is taken by one statement, and a lone holder frees it by one. Everything else reads the row,
//! decides by `store/ledger`, and writes the row back if its version is still the same. No transaction is open in
//! between, so that a client that stands still blocks nobody. The database's clock decides.

mod abandoned;
mod change;
pub(crate) mod database;
#[cfg(feature = "doctor")]
pub(crate) mod doctor;
pub(crate) mod fault;
mod lazy;
mod mailbox;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod settings;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(test)]
mod stub;
mod sweep;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, timeout, timeout_at};

use crate::driver::{
    About, Answer, Capabilities, Claim, Clock, Driver, Entry, Grant, Holder, Life, Loss, Mode,
    News, Proof, Release, Released, Renewal, Renewed, Reopening, RowKey,
};
use crate::error::Result;
use crate::name::Name;
use crate::random::random_u128;
use crate::store::ledger::{NOBODY, Session};
use crate::store::sql::change::retried;
use crate::store::sql::database::{Connection, Database, Extension, Give, Take, Took};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::mailbox::Mailbox;
use crate::store::sql::pool::Pool;
use crate::store::sql::record::{Micros, Read, about_text, client_text};
use crate::store::sql::settings::Settings;
use crate::store::sql::sweep::Sweeper;
use crate::store::sql::turns::Turns;

/// The format of the table that this version reads and writes.
pub(crate) const FORMAT: u32 = 1;

/// One client of the locks in a database.
#[derive(Debug)]
pub(crate) struct Sql<D: Database> {
    database: Arc<D>,
    settings: Arc<Settings>,
    session: Session,
    /// The same as text.
    client: String,
    /// Who most leases are for: this process, with no reason given.
    usual: (About, String),
    pool: Arc<Pool<D>>,
    mailbox: Mailbox<D>,
    news: Mutex<mpsc::UnboundedReceiver<News>>,
    sweeper: Sweeper,
    turns: Turns,
}

impl<D: Database> Sql<D> {
    /// Opens a client, and makes its first connection.
    pub(crate) async fn open(database: D, settings: Settings) -> Result<Self> {
        let session = random_u128().max(NOBODY + 1);
        let opened = Self::start(Arc::new(database), Arc::new(settings), session);
        let lent = opened.pool.lend().await;
        lent.and_then(|lent| lent.ended(Ok(Ok(()))))
            .map_err(|fault| fault.error(D::KIND))?;
        Ok(opened)
    }

    fn start(database: Arc<D>, settings: Arc<Settings>, session: Session) -> Self {
        let pool = Arc::new(Pool::new(
            Arc::clone(&database),
            settings.connections,
            settings.timeout,
            settings.connect_timeout,
        ));
        let (mailbox, news) = Mailbox::new(
            Arc::clone(&database),
            Arc::clone(&pool),
            session,
            settings.connect_timeout,
        );
        let usual = About::this_process(None);
        Self {
            sweeper: Sweeper::start(Arc::clone(&pool), settings.fence_memory),
            database,
            settings,
            session,
            client: client_text(session),
            usual: (usual.clone(), about_text(&usual)),
            pool,
            mailbox,
            news: Mutex::new(news),
            turns: Turns::default(),
        }
    }

    /// The client of a lease: none for one that belongs to nobody.
    fn client(&self, life: Life) -> Option<&str> {
        (life == Life::Client).then_some(self.client.as_str())
    }

    /// Takes a free name, if it can be had by one statement; returns the row otherwise.
    async fn take(&self, claim: &Claim) -> Outcome<Took> {
        let named;
        let about = match claim.about == self.usual.0 {
            true => &self.usual.1,
            false => {
                named = about_text(&claim.about);
                &named
            }
        };
        let take = Take {
            claim,
            client: self.client(claim.life),
            about,
            fences: i32::try_from(claim.fences.max(1)).unwrap_or(i32::MAX),
            ttl: micros(claim.ttl),
        };
        let mark = self.pool.releases.mark();
        let mut lent = self.pool.lend().await?;
        let took = timeout(self.pool.timeout(), lent.take(&take)).await;
        let took = lent.ended(took);
        if matches!(took, Ok(Took::Granted(_))) {
            self.pool.releases.forget_before(mark);
        }
        took
    }

    /// Takes a free name by one statement, or else does what the ledger says.
    async fn take_or_queue(&self, claim: &Claim) -> Result<Answer> {
        self.sweeper.count();
        let mut read = None;
        if claim.mode == Mode::Exclusive {
            match retried!(self, self.take(claim))? {
                Took::Granted(fence) => {
                    let grant = Grant::new(fence, claim.ttl).with_fences(claim.fences.max(1));
                    self.granted(claim, fence, claim.tell_if_wanted.then_some(0));
                    return Ok(Answer::Granted(grant));
                }
                Took::Undecided(found) => read = Some(*found),
            }
        }
        self.queue_or_enter(claim, read).await
    }

    async fn give(&self, release: &Release) -> Outcome<Option<Read>> {
        let give = Give {
            name: &release.name,
            claim: &release.claim,
            client: self.client(release.life),
            fence: release.fence,
        };
        let mut lent = self.pool.lend_for_leases().await?;
        let gave = timeout(self.pool.timeout(), lent.give(&give)).await;
        let gave = lent.ended(gave);
        if D::RELEASES_LAZILY && matches!(gave, Ok(None)) {
            self.pool.releases.note(&give);
        }
        gave
    }

    /// Extends leases of lone holders by one statement.
    async fn extend(&self, renewals: &[&Renewal]) -> Outcome<Vec<Option<crate::Fence>>> {
        let extensions = renewals.iter().map(|renewal| Extension {
            name: &renewal.name,
            claim: &renewal.claim,
            client: self.client(renewal.life),
            fence: renewal.fence,
            ttl: micros(renewal.ttl),
        });
        let extensions: Vec<_> = extensions.collect();
        let mut lent = self.pool.lend_for_leases().await?;
        let extended = timeout(self.pool.timeout(), lent.extend(&extensions)).await;
        lent.ended(extended)
    }

    /// Renews some leases, all of them by one statement if it can be.
    async fn renew_batch(&self, renewals: &[&Renewal]) -> Result<Vec<Result<Renewed>>> {
        let extended = match self.extend(renewals).await {
            Ok(extended) => extended,
            // Somebody keeps some of them locked, which must not take the others with them.
            Err(fault) if fault.kind == FaultKind::Conflict && renewals.len() > 1 => {
                return self.renew_unlocked(renewals).await;
            }
            Err(fault) if fault.kind == FaultKind::Conflict => vec![None],
            Err(fault) => return Err(fault.error(D::KIND)),
        };
        Ok(self.renew_the_rest(renewals, extended).await)
    }

    /// Renews those of some leases that nobody keeps locked, without waiting for the others.
    async fn renew_unlocked(&self, renewals: &[&Renewal]) -> Result<Vec<Result<Renewed>>> {
        let names: Vec<_> = renewals.iter().map(|renewal| &renewal.name).collect();
        let are_free: Vec<bool> = retried!(self, async {
            let mut lent = self.pool.lend_for_leases().await?;
            let unlocked = timeout(self.pool.timeout(), lent.unlocked(&names)).await;
            lent.ended(unlocked)
        })?;
        let both = renewals.iter().zip(&are_free);
        let free: Vec<_> = both.filter(|(_, free)| **free).map(|(it, _)| *it).collect();
        let extended = match self.extend(&free).await {
            Ok(extended) => extended,
            Err(fault) if fault.kind == FaultKind::Conflict => vec![None; free.len()],
            Err(fault) => return Err(fault.error(D::KIND)),
        };
        let mut renewed = self.renew_the_rest(&free, extended).await.into_iter();
        let answers = are_free.iter().map(|free| {
            let locked = || Fault::new(FaultKind::Refused, "somebody else keeps its row locked");
            let renewed = free.then(|| renewed.next()).flatten();
            renewed.unwrap_or_else(|| Err(locked().error(D::KIND)))
        });
        Ok(answers.collect())
    }

    /// Renews one by one what could not be extended by one statement, for as long as one request may take: those that
    /// were extended must not wait for others whose rows are locked.
    async fn renew_the_rest(
        &self,
        renewals: &[&Renewal],
        extended: Vec<Option<crate::Fence>>,
    ) -> Vec<Result<Renewed>> {
        let end = Instant::now() + self.settings.timeout;
        let (mut answers, mut rest) = (Vec::with_capacity(renewals.len()), Vec::new());
        for (index, (renewal, fence)) in renewals.iter().zip(extended).enumerate() {
            answers.push(match fence {
                Some(fence) => Ok(Renewed::Extended {
                    fence,
                    valid: renewal.ttl,
                }),
                None => {
                    rest.push(index);
                    Ok(Renewed::Unknown)
                }
            });
        }
        // Not always the same ones first: of those that are left over, each gets its turn in time.
        fastrand::shuffle(&mut rest);
        for index in rest {
            let Ok(answer) = timeout_at(end, self.renew_one(renewals[index])).await else {
                break;
            };
            answers[index] = answer;
        }
        answers
    }

    /// Renews one lease that others wait for, or that is one of several.
    async fn renew_one(&self, renewal: &Renewal) -> Result<Renewed> {
        let changed = self.change(&renewal.name, None, |record, at| {
            (record.ledger.renew(renewal, at), record.evicted)
        });
        Ok(match changed.await? {
            (Renewed::Lost(loss), evicted) => Renewed::Lost(why_lost(loss, renewal.fence, evicted)),
            (renewed, _) => renewed,
        })
    }
}

#[async_trait]
impl<D: Database> Driver for Sql<D> {
    fn kind(&self) -> &'static str {
        D::KIND
    }

    fn clock(&self) -> Clock {
        Clock::Boot
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sees_clients_end: false,
            tells_evictions: false,
            timeout: Some(self.settings.timeout),
            most_fences: MOST_FENCES,
            ..Capabilities::all()
        }
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        // It may be in line from an earlier request.
        let was_known = self.mailbox.has(&claim.name, &claim.id);
        if claim.tell_if_wanted {
            self.mailbox.expect(&claim.name, &claim.id);
            self.mailbox.open().await;
        }
        let answer = self.take_or_queue(claim).await;
        if !was_known && matches!(&answer, Err(error) if error.nothing_changed()) {
            self.mailbox.remove(&claim.name, &claim.id);
        }
        answer
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.mailbox.remove(&claim.name, &claim.id);
        // Also if nothing is to be seen of it: a statement from before may not be committed yet, and a write waits for it.
        self.write(&claim.name, None, true, |record, at| {
            record.ledger.withdraw(claim, at);
        })
        .await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let mut sorted: Vec<_> = renewals.iter().enumerate().collect();
        sorted.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        let mut answers = vec![Renewed::Unknown; renewals.len()];
        let mut failed = None;
        for batch in sorted.chunks(BATCH) {
            let of_batch: Vec<_> = batch.iter().map(|(_, renewal)| *renewal).collect();
            let renewed = match self.renew_batch(&of_batch).await {
                Ok(renewed) => renewed,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            for ((index, _), renewed) in batch.iter().zip(renewed) {
                match renewed {
                    Ok(renewed) => answers[*index] = renewed,
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed {
            Some(error) if answers.iter().all(|answer| *answer == Renewed::Unknown) => Err(error),
            _ => Ok(answers),
        }
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.mailbox.remove(&release.name, &release.claim);
        let mut read = None;
        if release.stays_taken.is_zero() {
            match retried!(self, self.give(release))? {
                None => return Ok(Released::Freed { left: 0 }),
                undecided => read = undecided,
            }
        }
        let changed = self.change(&release.name, read, |record, at| {
            (record.ledger.release(release, at), record.evicted)
        });
        Ok(match changed.await? {
            (Released::NotHeld(loss), evicted) => {
                Released::NotHeld(why_lost(loss, release.fence, evicted))
            }
            (released, _) => released,
        })
    }

    async fn news(&self) -> News {
        match self.news.lock().await.recv().await {
            Some(news) => news,
            // The sender is the mailbox's, which this client keeps.
            None => std::future::pending().await,
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        if let Some(name) = only {
            let read = self.read(name).await?;
            let (now, row) = (read.now, read.row);
            let found: Vec<_> = row.map(|row| (name.clone(), row)).into_iter().collect();
            return self.entries(now, found).await;
        }
        let (mut entries, mut after) = (Vec::new(), None::<String>);
        loop {
            let after_name = after.take();
            let (now, rows) = retried!(self, self.page(after_name.as_deref()))?;
            let full = rows.len() == BATCH;
            after = rows.last().map(|(name, _)| name.clone()).filter(|_| full);
            // A name that is none was not written by us.
            let named = rows
                .into_iter()
                .filter_map(|(name, row)| Some((Name::new(&name).ok()?, row)));
            entries.extend(self.entries(now, named.collect()).await?);
            if after.is_none() {
                return Ok(entries);
            }
        }
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.change(name, None, |record, at| {
            // Among them may be one who was let in just now.
            let evicted = record.ledger.evict(at);
            let fences = evicted.iter().map(|holder| holder.fence.get());
            record.evicted = fences.fold(record.evicted, u64::max);
            evicted
        })
        .await
    }

    async fn settled(&self) {
        // Each request ends by itself in time.
        let _ = timeout(self.settings.timeout, self.pool.settled()).await;
    }

    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        Some(Box::pin(async move {
            let (database, settings) = (Arc::clone(&self.database), Arc::clone(&self.settings));
            Ok(Arc::new(Self::start(database, settings, self.session)) as Arc<dyn Driver>)
        }))
    }

    fn proof(&self, claim: &Claim, fence: crate::Fence) -> Option<Proof> {
        Some(self.database.proof(claim, fence))
    }

    async fn row_lock(&self, name: &Name) -> Result<Option<RowKey>> {
        retried!(self, self.database.row_key(&self.pool, name)).map(Some)
    }
}

/// Why a lease is over: the ledger knows only that it is.
fn why_lost(loss: Loss, fence: Option<crate::Fence>, evicted: u64) -> Loss {
    match fence {
        Some(fence) if fence.get() <= evicted => Loss::Evicted,
        _ => loss,
    }
}

/// A time as the database counts it, rounded up.
fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(Micros::MAX)
}

/// How many names one statement reads or renews.
const BATCH: usize = 1_000;

/// So few that a column of 32 bits has room for them.
const MOST_FENCES: u32 = 1 << 20;
