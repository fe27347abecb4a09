//! A row of the lock table, and the ledger that it stands for.

use std::collections::BTreeMap;

use crate::driver::About;
use crate::error::{BoxError, Result};
use crate::name::Fence;
use crate::store::ledger::{Fences, Ledger, LoneHolder, NOBODY, Nanos, Session};

/// Microseconds on the database's clock, since 1970.
pub(crate) type Micros = i64;

/// A row as it was read, and when.
#[derive(Debug)]
pub(crate) struct Read {
    /// The database's clock as the statement began.
    pub(crate) now: Micros,
    /// The row, unless there is none.
    pub(crate) row: Option<StoredRow>,
    /// Where the first client in line can be reached, if there is one and it was looked for.
    pub(crate) next: Option<Presence>,
}

/// Whether a client that stands in line is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is not connected.
    Gone,
    /// It is, and this is the number of its connection where the database has use for one.
    Here(u64),
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct StoredRow {
    /// Changes with every write, and is never the same again.
    pub(crate) version: i64,
    pub(crate) columns: Columns,
}

/// What a row says besides its name and version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Changes with every write that somebody in line has to hear of.
    pub(crate) turn: i64,
    /// The largest fence that was given out or set aside.
    pub(crate) top: i64,
    /// The largest fence that an operator has taken away.
    pub(crate) evicted: i64,
    /// The first holder, for people, and the only one if `more` is empty.
    pub(crate) claim: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) fence: i64,
    pub(crate) fences: i32,
    pub(crate) tells: bool,
    pub(crate) since: Micros,
    /// When the last lease ends.
    pub(crate) ends: Micros,
    pub(crate) about: Option<String>,
    /// The client that is first in line.
    pub(crate) next: Option<String>,
    /// The whole ledger, if it is more than one exclusive holder.
    pub(crate) more: Option<String>,
}

/// Who holds one name and who waits for it, with its fences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) ledger: Ledger,
    pub(crate) top: u64,
    pub(crate) evicted: u64,
    /// Clients that cannot be told and so look by themselves, with when they last did.
    pub(crate) pollers: BTreeMap<String, Micros>,
}

/// The text in `more`.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct More {
    ledger: Ledger,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pollers: BTreeMap<String, Micros>,
}

impl Record {
    /// Reads a row.
    ///
    /// # Errors
    ///
    /// If its columns make no sense.
    pub(crate) fn read(columns: &Columns) -> Result<Self, BoxError> {
        let (ledger, pollers) = match (&columns.more, &columns.claim) {
            (Some(more), _) => {
                let more: More = serde_json::from_str(more)?;
                (more.ledger, more.pollers)
            }
            (None, Some(claim)) => {
                let ledger = Ledger::of_lone_holder(columns.lone_holder(claim)?);
                (ledger, BTreeMap::new())
            }
            (None, None) => Default::default(),
        };
        Ok(Self {
            ledger,
            top: columns.top.unsigned_abs(),
            evicted: columns.evicted.unsigned_abs(),
            pollers,
        })
    }

    /// Writes a row that was last told of at `turn`.
    ///
    /// # Errors
    ///
    /// If a number is out of range.
    pub(crate) fn columns(&self, turn: i64, now: Micros) -> Result<Columns, BoxError> {
        let holder = self.ledger.first_holder();
        let next = self.ledger.waiting_sessions().next();
        let is_simple = self.ledger.is_empty() || self.ledger.lone_holder().is_some();
        let more = match is_simple {
            true => None,
            false => Some(serde_json::to_string(&More {
                ledger: self.ledger.clone(),
                pollers: self.pollers.clone(),
            })?),
        };
        let mut columns = Columns {
            turn,
            top: i64::try_from(self.top)?,
            evicted: i64::try_from(self.evicted)?,
            since: now,
            ends: self.ledger.last_end().map_or(now, micros),
            next: next.map(client_text),
            more,
            ..Columns::default()
        };
        if let Some(holder) = holder {
            columns.claim = Some(holder.claim.into());
            columns.owner = holder.owner.map(Into::into);
            columns.client = (holder.session != NOBODY).then(|| client_text(holder.session));
            columns.fence = i64::try_from(holder.fence)?;
            columns.fences = i32::try_from(holder.fences)?;
            columns.tells = holder.tells;
            columns.since = micros(holder.since);
            columns.about = Some(about_text(&holder.about));
        }
        Ok(columns)
    }
}

impl Columns {
    fn lone_holder(&self, claim: &str) -> Result<LoneHolder, BoxError> {
        let session = match &self.client {
            Some(client) => Session::from_str_radix(client, 16)?,
            None => NOBODY,
        };
        Ok(LoneHolder {
            claim: claim.into(),
            owner: self.owner.as_deref().map(Into::into),
            session,
            fence: u64::try_from(self.fence)?,
            fences: u32::try_from(self.fences)?,
            since: nanos(self.since),
            ends: nanos(self.ends),
            tells: self.tells,
            about: read_about(self.about.as_deref().unwrap_or_default()),
        })
    }
}

/// The fences of one name: ahead of all before, and of the database's clock.
#[derive(Debug)]
pub(crate) struct ClockFences {
    pub(crate) top: u64,
    pub(crate) now: Micros,
}

impl Fences for ClockFences {
    fn reserve(&mut self, count: u32) -> Fence {
        let first = (self.top + 1).max(self.now.unsigned_abs());
        self.top = first + u64::from(count.max(1)) - 1;
        Fence::new(first).unwrap_or_else(|| unreachable!("at least 1"))
    }
}

/// A client as it is written in the table.
pub(crate) fn client_text(session: Session) -> String {
    format!("{session:032x}")
}

/// Who asks and why, as people read it in the table: `1234@host reason`.
pub(crate) fn about_text(about: &About) -> String {
    let who = format!("{}@{}", about.pid, about.host);
    match &about.reason {
        Some(reason) => format!("{who} {reason}"),
        None => who,
    }
}

fn read_about(text: &str) -> About {
    let (pid, rest) = text.split_once('@').unwrap_or(("0", text));
    let (host, reason) = match rest.split_once(' ') {
        Some((host, reason)) => (host, Some(reason)),
        None => (rest, None),
    };
    let about = About::new(host, pid.parse().unwrap_or(0));
    match reason {
        Some(reason) => about.with_reason(reason),
        None => about,
    }
}

pub(crate) fn nanos(micros: Micros) -> Nanos {
    u64::try_from(micros).unwrap_or(0).saturating_mul(1000)
}

/// Rounded up: a lease must not end in the database before its holder thinks so.
pub(crate) fn micros(nanos: Nanos) -> Micros {
    i64::try_from(nanos.div_ceil(1000)).unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::driver::{Claim, Mode};
    use crate::name::Name;
    use crate::store::ledger::Moment;

    const NOW: Micros = 1_700_000_000_000_000;

    fn record(claims: &[Claim]) -> Record {
        let mut record = Record::default();
        let (mut fences, mut notices) = (ClockFences { top: 0, now: NOW }, Vec::new());
        for (number, claim) in claims.iter().enumerate() {
            let mut at = Moment {
                session: 7 + Session::try_from(number).unwrap(),
                now: nanos(NOW),
                fences: &mut fences,
                notices: &mut notices,
            };
            record.ledger.acquire(claim, &mut at).unwrap();
        }
        record.top = fences.top;
        record
    }

    fn claim() -> Claim {
        let about = About::new("host", 12).with_reason("a reason");
        Claim::new(Name::new("a").unwrap(), Duration::from_secs(30))
            .with_fences(8)
            .with_about(about)
    }

    #[test]
    fn a_lone_holder_is_columns_and_everything_else_is_text() {
        let alone = record(&[claim().with_owner(crate::Owner::named("ann").unwrap())]);
        let columns = alone.columns(1, NOW).unwrap();
        assert_eq!(columns.more, None);
        assert_eq!(columns.owner.as_deref(), Some("ann"));
        assert_eq!(columns.about.as_deref(), Some("12@host a reason"));
        assert_eq!(columns.ends - columns.since, 30_000_000);
        assert_eq!(columns.top, columns.fence + 7);
        let shared = claim().with_mode(Mode::Shared);
        for claims in [
            vec![shared.clone()],
            vec![claim(), shared.with_id(crate::ClaimId::unique())],
        ] {
            assert!(record(&claims).columns(1, NOW).unwrap().more.is_some());
        }
        let free = Record::default().columns(1, NOW).unwrap();
        assert_eq!((free.claim, free.more, free.ends), (None, None, NOW));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let waiting = claim().with_id(crate::ClaimId::unique());
        for claims in [vec![], vec![claim()], vec![claim(), waiting]] {
            let mut record = record(&claims);
            if claims.len() > 1 {
                record.pollers.insert(client_text(8), NOW);
                let columns = record.columns(1, NOW).unwrap();
                assert_eq!(columns.next, Some(client_text(8)));
            }
            let columns = record.columns(3, NOW).unwrap();
            assert_eq!(Record::read(&columns).unwrap(), record);
        }
    }

    #[test]
    fn fences_are_ahead_of_the_clock_and_of_each_other() {
        let mut fences = ClockFences { top: 0, now: 100 };
        assert_eq!(fences.reserve(8).get(), 100);
        assert_eq!(fences.reserve(1).get(), 108);
        let mut back = ClockFences {
            top: fences.top,
            now: 50,
        };
        assert_eq!(back.reserve(1).get(), 109);
    }
}
