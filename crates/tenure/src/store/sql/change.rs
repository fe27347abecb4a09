//! Read, decide, and write if nothing has changed meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::driver::{Answer, Claim, Entry, Life};
use crate::error::{Error, Result};
use crate::name::{Fence, Name};
use crate::random::random_u128;
use crate::store::ledger::{ModeConflict, Moment, Notice, Session, Standing, What};
use crate::store::sql::database::{Connection, Database, Letter, Write};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::mailbox::{Interest, Reach};
use crate::store::sql::record::{
    ClockFences, Micros, Presence, Read, Record, StoredRow, client_text, nanos,
};
use crate::store::sql::turns::Turn;
use crate::store::sql::{BATCH, Sql};

/// Does something again that the database undid because of others, and turns what else goes wrong into an error.
macro_rules! retried {
    ($sql:expr, $attempt:expr) => {{
        let begun = tokio::time::Instant::now();
        loop {
            match $attempt.await {
                Ok(value) => break Ok(value),
                Err(fault) if $sql.is_worth_another_try(&fault, begun).await => {}
                Err(fault) => break Err(fault.error(D::KIND)),
            }
        }
    }};
}
pub(super) use retried;

/// What is to be written, and who is to be told.
#[derive(Debug)]
struct Decision<T> {
    answer: T,
    record: Record,
    letters: Vec<Letter>,
    is_new: bool,
}

/// Which clients in line are there, as far as it was asked.
type Known = BTreeMap<Session, Presence>;

impl<D: Database> Sql<D> {
    /// Lets a claim stand in line, or grants it if its turn has come.
    pub(super) async fn queue_or_enter(
        &self,
        claim: &Claim,
        mut read: Option<Read>,
    ) -> Result<Answer> {
        let mut mine = self.turn(&claim.name, &mut read).await;
        let begun = Instant::now();
        let (mut known, mut tries) = (Known::new(), 0);
        loop {
            let found = self.found(&claim.name, &mut read).await?;
            let mut decide = |record: &mut Record, at: &mut Moment<'_>| {
                let answer = record.ledger.acquire(claim, at);
                if let Ok(Answer::Queued { .. }) = answer {
                    self.note_reach(record, found.now);
                }
                answer
            };
            let decision = self.decide(&claim.name, &found, &mut known, &mut decide);
            let decision = decision.await?;
            let turn = decision.turn(&found);
            match &decision.answer {
                Ok(Answer::Queued { ask_again }) => {
                    // First of all, so that the mailbox does not close at this moment.
                    self.mailbox.expect(&claim.name, &claim.id);
                    let is_open = !matches!(self.mailbox.reach(), Reach::Closed | Reach::Opening);
                    if !is_open {
                        // That may take a while.
                        drop(mine);
                        self.mailbox.open().await;
                        mine = self.turn(&claim.name, &mut read).await;
                        continue;
                    }
                    let asks = ask_again.map_or(Duration::MAX, |ask_again| ask_again);
                    let asked = nanos(found.now);
                    let asks = asked.saturating_add(asks.as_nanos().try_into().unwrap_or(u64::MAX));
                    let waits = Interest::Waits {
                        asked,
                        asks,
                        tells: claim.tell_if_wanted,
                        turn,
                    };
                    self.mailbox.add(&claim.name, &claim.id, waits);
                }
                Ok(Answer::Granted(_)) => {}
                _ => self.mailbox.remove(&claim.name, &claim.id),
            }
            if !self.apply(&claim.name, &found, &decision).await? {
                self.pause(&mut tries, begun, &claim.name).await?;
                continue;
            }
            return match decision.answer {
                Ok(Answer::Granted(grant)) => {
                    let standing = decision.record.ledger.standing(&claim.id, self.session);
                    let tells = matches!(standing, Standing::Holds { tells: true, .. });
                    if !tells && claim.life == Life::Client {
                        // Maybe it was granted before, and called back since.
                        self.mailbox.call_back_unheard(claim, grant.fence);
                    }
                    self.granted(claim, grant.fence, tells.then_some(turn));
                    Ok(Answer::Granted(grant))
                }
                Ok(Answer::Queued { ask_again }) if self.mailbox.reach() == Reach::Polls => {
                    let ask_again = Some(ask_again.unwrap_or(SIGN_OF_LIFE).min(SIGN_OF_LIFE));
                    Ok(Answer::Queued { ask_again })
                }
                Ok(answer) => Ok(answer),
                Err(ModeConflict) => Err(Error::ModeConflict {
                    name: claim.name.clone(),
                }),
            };
        }
    }

    /// Notes that a claim is granted: only one that is still to be called back wants to hear more, from
    /// this turn of its row on.
    pub(super) fn granted(&self, claim: &Claim, fence: Fence, tells: Option<i64>) {
        if let Some(turn) = tells {
            let keeps = Interest::Keeps { fence, turn };
            self.mailbox.add(&claim.name, &claim.id, keeps);
        } else {
            self.mailbox.remove(&claim.name, &claim.id);
        }
    }

    /// Changes what is written of one name, and tells everybody whom the change concerns.
    pub(super) async fn change<T: Send>(
        &self,
        name: &Name,
        read: Option<Read>,
        change: impl Fn(&mut Record, &mut Moment<'_>) -> T + Send + Sync,
    ) -> Result<T> {
        self.write(name, read, false, change).await
    }

    /// Changes what is written of one name, which is written again even if nothing has changed if it has to be.
    pub(super) async fn write<T: Send>(
        &self,
        name: &Name,
        mut read: Option<Read>,
        has_to_be: bool,
        change: impl Fn(&mut Record, &mut Moment<'_>) -> T + Send + Sync,
    ) -> Result<T> {
        let _turn = self.turn(name, &mut read).await;
        let begun = Instant::now();
        let (mut known, mut tries) = (Known::new(), 0);
        loop {
            let found = self.found(name, &mut read).await?;
            let mut decide = |record: &mut Record, at: &mut Moment<'_>| change(record, at);
            let mut decision = self.decide(name, &found, &mut known, &mut decide).await?;
            decision.is_new |= has_to_be;
            if self.apply(name, &found, &decision).await? {
                return Ok(decision.answer);
            }
            self.pause(&mut tries, begun, name).await?;
        }
    }

    /// Reads a row.
    pub(super) async fn read(&self, name: &Name) -> Result<Read> {
        retried!(self, async {
            let mut lent = self.pool.lend().await?;
            let read = timeout(self.pool.timeout(), lent.read(name)).await;
            lent.ended(read)
        })
    }

    /// Reads the rows behind a name.
    pub(super) async fn page(
        &self,
        after: Option<&str>,
    ) -> Outcome<(Micros, Vec<(String, StoredRow)>)> {
        let mut lent = self.pool.lend().await?;
        let limit = u32::try_from(BATCH).unwrap_or(u32::MAX);
        let page = timeout(self.pool.timeout(), lent.page(after, limit)).await;
        lent.ended(page)
    }

    /// Lists who holds and who waits, without those in line that are gone.
    pub(super) async fn entries(
        &self,
        now: Micros,
        rows: Vec<(Name, StoredRow)>,
    ) -> Result<Vec<Entry>> {
        let (mut records, mut waiting) = (Vec::new(), Vec::new());
        for (name, row) in rows {
            let record = self.record(Some(&row))?;
            waiting.extend(record.ledger.waiting_sessions());
            records.push((name, record));
        }
        let mut known = Known::new();
        self.look_for(waiting, &mut known).await?;
        let entries = records.into_iter().map(|(name, mut record)| {
            record.let_go_of_the_gone(now, self.session, &known);
            record.ledger.entry(name, nanos(now))
        });
        Ok(entries.filter(|entry| !entry.is_empty()).collect())
    }

    /// Whether to do something again that the database undid because of others: for as long as a request may
    /// take.
    pub(super) async fn is_worth_another_try(&self, fault: &Fault, begun: Instant) -> bool {
        let again = fault.kind == FaultKind::Conflict && begun.elapsed() < self.settings.timeout;
        if again {
            sleep(SHORT_PAUSE.mul_f64(fastrand::f64())).await;
        }
        again
    }

    /// Waits until no other request of this client changes a name; what was read before is old then.
    async fn turn(&self, name: &Name, read: &mut Option<Read>) -> Turn<'_> {
        let (turn, has_waited) = self.turns.wait(name, self.settings.timeout).await;
        if has_waited {
            *read = None;
        }
        turn
    }

    /// The row that was read already, or is read now.
    async fn found(&self, name: &Name, read: &mut Option<Read>) -> Result<Read> {
        match read.take() {
            Some(read) => Ok(read),
            None => self.read(name).await,
        }
    }

    fn record(&self, row: Option<&StoredRow>) -> Result<Record> {
        let record = row.map(|row| Record::read(&row.columns)).transpose();
        let record = record.map_err(|error| Fault::damaged(error).error(D::KIND))?;
        Ok(record.unwrap_or_default())
    }

    /// Decides what becomes of a row. Clients in line that are gone get nothing.
    async fn decide<T>(
        &self,
        name: &Name,
        found: &Read,
        known: &mut Known,
        change: &mut (impl FnMut(&mut Record, &mut Moment<'_>) -> T + Send),
    ) -> Result<Decision<T>> {
        let before = self.record(found.row.as_ref())?;
        let first = before.ledger.waiting_sessions().next();
        if let (Some(first), Some(presence)) = (first, found.next) {
            known.insert(first, presence);
        }
        loop {
            let mut record = before.clone();
            let (answer, notices) = self.try_out(&mut record, found.now, known, change);
            let granted = notices.iter().filter(|notice| notice.is_grant());
            let strangers = granted
                .map(|notice| notice.session)
                .filter(|session| *session != self.session && !known.contains_key(session))
                .filter(|session| !before.pollers.contains_key(&client_text(*session)));
            let strangers: Vec<_> = strangers.collect();
            if !strangers.is_empty() {
                self.look_for(strangers, known).await?;
                continue;
            }
            let letters = self.letters(name, &mut record, notices, found.now, known);
            return Ok(Decision {
                answer,
                is_new: record != before,
                record,
                letters,
            });
        }
    }

    /// Decides as if it were known who in line is there.
    fn try_out<T>(
        &self,
        record: &mut Record,
        now: Micros,
        known: &Known,
        change: &mut impl FnMut(&mut Record, &mut Moment<'_>) -> T,
    ) -> (T, Vec<Notice>) {
        record.let_go_of_the_gone(now, self.session, known);
        let mut fences = ClockFences {
            top: record.top,
            now,
        };
        let mut notices = Vec::new();
        let mut at = Moment {
            session: self.session,
            now: nanos(now),
            fences: &mut fences,
            notices: &mut notices,
        };
        let answer = change(record, &mut at);
        record.top = fences.top;
        record.forget_pollers();
        (answer, notices)
    }

    /// Asks which of these clients are there.
    async fn look_for(&self, mut sessions: Vec<Session>, known: &mut Known) -> Result<()> {
        sessions.sort_unstable();
        sessions.dedup();
        sessions.retain(|session| *session != self.session);
        if sessions.is_empty() {
            return Ok(());
        }
        let found: Result<_> = retried!(self, async {
            let mut lent = self.pool.lend().await?;
            let presence = timeout(self.pool.timeout(), lent.presence(&sessions)).await;
            lent.ended(presence)
        });
        known.extend(sessions.iter().copied().zip(found?));
        Ok(())
    }

    /// Turns notices into letters. What is handed over lasts for a short while until it is renewed, so
    /// that a client that died just now does not have it for long.
    fn letters(
        &self,
        name: &Name,
        record: &mut Record,
        notices: Vec<Notice>,
        now: Micros,
        known: &Known,
    ) -> Vec<Letter> {
        let at_first = HAND_OVER.max(self.settings.timeout * 3);
        let at_first = u64::try_from(at_first.as_nanos()).unwrap_or(u64::MAX);
        let letter = |mut notice: Notice| {
            if let What::Granted { valid, .. } = &mut notice.what
                && notice.session != self.session
                && record.ledger.shorten(
                    &notice.claim,
                    notice.session,
                    nanos(now).saturating_add(at_first),
                )
            {
                *valid = (*valid).min(at_first);
            }
            Letter {
                to: notice.session,
                at: match known.get(&notice.session) {
                    Some(Presence::Here(at)) => Some(*at),
                    _ => None,
                },
                name: name.as_str().to_owned(),
                claim: notice.claim.into(),
                what: notice.what,
            }
        };
        notices.into_iter().map(letter).collect()
    }

    /// Writes what was decided, unless the row has changed since it was read.
    async fn apply<T>(&self, name: &Name, found: &Read, decision: &Decision<T>) -> Result<bool> {
        let (own, others): (Vec<_>, Vec<_>) = decision
            .letters
            .iter()
            .cloned()
            .partition(|letter| letter.to == self.session);
        if decision.is_new {
            let columns = decision.record.columns(decision.turn(found), found.now);
            let columns = columns.map_err(|error| Fault::damaged(error).error(D::KIND))?;
            let write = Write {
                name,
                read: found.row.as_ref().map(|row| row.version),
                is_shared: found
                    .row
                    .as_ref()
                    .is_some_and(|row| row.columns.more.is_some()),
                version: version(),
                columns: &columns,
                letters: &others,
            };
            let written = async {
                let mut lent = self.pool.lend().await?;
                let written = timeout(self.pool.timeout(), lent.write(&write)).await;
                lent.ended(written)
            };
            let mark = self.pool.releases.mark();
            match written.await {
                Ok(true) => self.pool.releases.forget_before(mark),
                Ok(false) => return Ok(false),
                Err(fault) if fault.kind == FaultKind::Conflict => return Ok(false),
                Err(fault) => return Err(fault.error(D::KIND)),
            }
        }
        for letter in &own {
            self.mailbox.tell(letter);
        }
        Ok(true)
    }

    /// Waits a little before a row is read again that others keep changing.
    async fn pause(&self, tries: &mut u32, begun: Instant, name: &Name) -> Result<()> {
        *tries += 1;
        if begun.elapsed() >= self.settings.timeout {
            let why = format!("{name} was changed by others {tries} times while it was decided");
            return Err(Fault::new(FaultKind::Refused, why).error(D::KIND));
        }
        // Most conflicts are over by the time the row is read again.
        if *tries > 2 {
            sleep(SHORT_PAUSE.mul_f64(fastrand::f64())).await;
        }
        Ok(())
    }

    /// Notes in a row whether this client, which stands in line, can be told.
    fn note_reach(&self, record: &mut Record, now: Micros) {
        match self.mailbox.reach() {
            Reach::Polls => {
                let seen = record.pollers.entry(self.client.clone()).or_insert(now);
                if now.saturating_sub(*seen) >= SIGN_OF_LIFE_US / 2 {
                    *seen = now;
                }
            }
            Reach::Bell | Reach::Closed | Reach::Opening => {
                record.pollers.remove(&self.client);
            }
        }
    }
}

impl<T> Decision<T> {
    /// The turn of the row after it is written.
    fn turn(&self, found: &Read) -> i64 {
        let before = found.row.as_ref().map_or(0, |row| row.columns.turn);
        match self.letters.is_empty() {
            true => before,
            false => before.wrapping_add(1),
        }
    }
}

impl Record {
    /// Takes clients out of the line that are gone: those that are not connected, and those that look by
    /// themselves and have not for a while.
    fn let_go_of_the_gone(&mut self, now: Micros, own: Session, known: &Known) {
        let mut waiting: Vec<_> = self.ledger.waiting_sessions().collect();
        waiting.sort_unstable();
        waiting.dedup();
        for session in waiting {
            let is_gone = match self.pollers.get(&client_text(session)) {
                _ if session == own => false,
                Some(seen) => now.saturating_sub(*seen) > 4 * SIGN_OF_LIFE_US,
                None => known.get(&session) == Some(&Presence::Gone),
            };
            if is_gone {
                self.ledger.leave_line(session);
            }
        }
    }

    /// Forgets pollers that do not stand in line any more.
    fn forget_pollers(&mut self) {
        if self.pollers.is_empty() {
            return;
        }
        let waiting: Vec<_> = self.ledger.waiting_sessions().map(client_text).collect();
        self.pollers.retain(|client, _| waiting.contains(client));
    }
}

impl Notice {
    fn is_grant(&self) -> bool {
        matches!(self.what, What::Granted { .. })
    }
}

/// A version that no row has had.
fn version() -> i64 {
    // The upper half of the range stays free for the statements that add one.
    i64::try_from(random_u128() >> 66).unwrap_or_default()
}

/// How long a lease lasts at first that was handed over, at least.
const HAND_OVER: Duration = Duration::from_secs(5);

/// How often a client in line that cannot be told asks again, so that others know that it is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);
const SIGN_OF_LIFE_US: Micros = 3_000_000;

/// The longest pause before something that others have undone is done again.
const SHORT_PAUSE: Duration = Duration::from_millis(4);
