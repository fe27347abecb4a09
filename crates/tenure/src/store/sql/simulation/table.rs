//! The lock table of a database as plain data: its statements, and what each of them does at one moment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::{Answer, Claim, Entry, Wait};
use crate::name::Name;
use crate::store::ledger::{Moment, Session};
use crate::store::sql::record::{
    ClockFences, Columns, Micros, Record, StoredRow, client_text, nanos,
};

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Takes a free name.
    Take {
        /// The lease, without a fence.
        lease: Lease,
        /// Whose claims hold together.
        owner: Option<String>,
        /// How many fences to set aside.
        fences: i32,
        /// Whether the client wants to know who else wants the name.
        tells: bool,
        /// The ttl in microseconds.
        ttl_us: i64,
        /// Who asks and why.
        about: String,
    },
    /// Frees a name whose only holder is a claim.
    Give(Lease),
    /// Extends leases of lone holders by so many microseconds each.
    Extend(Vec<(Lease, i64)>),
    /// Reads a row.
    Read(String),
    /// Reads some rows.
    ReadAll(Vec<String>),
    /// Writes a row if it still has the version that was read, or if there is still none.
    Write {
        /// The name.
        name: String,
        /// The version that was read.
        read: Option<i64>,
        /// The new row.
        row: Row,
        /// Whom to tell.
        letters: Vec<Post>,
    },
    /// Asks which clients can be reached.
    Presence(Vec<u128>),
    /// Reads rows behind a name that may be held or waited for.
    Page {
        /// The name; none for the first page.
        after: Option<String>,
        /// How many.
        limit: u32,
    },
    /// Deletes rows behind a name that nobody has used for so long.
    Sweep {
        /// The name; none for the first rows.
        after: Option<String>,
        /// How many rows to look at.
        limit: u32,
        /// For how long, in microseconds.
        idle_us: i64,
    },
}

/// A lease that a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The name.
    pub name: String,
    /// The claim.
    pub claim: String,
    /// The client; none for a lease by hand.
    pub client: Option<String>,
    /// The fence that it must have, if it matters.
    pub fence: Option<i64>,
}

/// A letter to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// The client.
    pub to: u128,
    /// The number of its connection, if it is known.
    pub at: Option<u64>,
    /// What it says.
    pub text: String,
}

/// The answer to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The name was taken, with this fence.
    Taken(i64),
    /// The name was freed.
    Given,
    /// There is more to decide, or the row was asked for.
    Seen(Seen),
    /// The fences of the leases that were extended.
    Extended(Vec<Option<i64>>),
    /// Some rows.
    Rows {
        /// The database's clock.
        now_us: i64,
        /// The rows, by name.
        rows: Vec<(String, Row)>,
    },
    /// Whether the row was written.
    Written(bool),
    /// Where clients are.
    Presence(Vec<Whereabouts>),
    /// The last name that was looked at, if there may be more.
    Swept(Option<String>),
}

/// A row as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The database's clock.
    pub now_us: i64,
    /// The row, if there is one.
    pub row: Option<Row>,
    /// Where the first client in line is, if there is one.
    pub next: Option<Whereabouts>,
}

/// Whether a client can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// It cannot.
    Gone,
    /// It can, on the connection of this number.
    Here(u64),
}

/// A row of the table; `docs/stores/postgres.md` says what the columns hold. Times are in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is a column, explained there")]
pub struct Row {
    pub version: i64,
    pub turn: i64,
    pub top: i64,
    pub evicted: i64,
    pub claim: Option<String>,
    pub owner: Option<String>,
    pub client: Option<String>,
    pub fence: i64,
    pub fences: i32,
    pub tells: bool,
    pub since: i64,
    pub ends: i64,
    pub about: Option<String>,
    pub next: Option<String>,
    pub more: Option<String>,
}

/// The table of locks. Each statement is decided at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The rows by name.
    pub rows: BTreeMap<String, Row>,
}

/// Where clients can be reached, as the database knows.
pub type Directory<'a> = &'a dyn Fn(u128) -> Whereabouts;

impl Table {
    /// Decides a statement at the time `now_us` of the database's clock; returns also the letters to send.
    pub fn decide(
        &mut self,
        statement: &Statement,
        now_us: i64,
        clients: Directory<'_>,
    ) -> (Reply, Vec<Post>) {
        let reply = match statement {
            Statement::Take { .. } => match self.take(statement, now_us) {
                Some(fence) => Reply::Taken(fence),
                None => Reply::Seen(self.seen(statement.name(), now_us, clients)),
            },
            Statement::Give(lease) => match self.give(lease, now_us) {
                true => Reply::Given,
                false => Reply::Seen(self.seen(&lease.name, now_us, clients)),
            },
            Statement::Extend(leases) => {
                let one = |(lease, ttl_us): &(Lease, i64)| self.extend(lease, *ttl_us, now_us);
                Reply::Extended(leases.iter().map(one).collect())
            }
            Statement::Read(name) => Reply::Seen(self.seen(name, now_us, clients)),
            Statement::ReadAll(names) => {
                let rows = names
                    .iter()
                    .filter_map(|name| Some((name.clone(), self.rows.get(name)?.clone())));
                let rows = rows.collect();
                Reply::Rows { now_us, rows }
            }
            Statement::Write {
                name,
                read,
                row,
                letters,
            } => {
                let is_same = self.rows.get(name).map(|row| row.version) == *read;
                if is_same {
                    self.rows.insert(name.clone(), row.clone());
                    return (Reply::Written(true), letters.clone());
                }
                Reply::Written(false)
            }
            Statement::Presence(of) => {
                Reply::Presence(of.iter().map(|client| clients(*client)).collect())
            }
            Statement::Page { after, limit } => {
                let rows = self.behind(after.as_deref());
                let rows = rows.filter(|(_, row)| row.claim.is_some() || row.more.is_some());
                let rows = rows.take(usize::try_from(*limit).unwrap_or(usize::MAX));
                let rows = rows.map(|(name, row)| (name.clone(), row.clone()));
                let rows = rows.collect();
                Reply::Rows { now_us, rows }
            }
            Statement::Sweep {
                after,
                limit,
                idle_us,
            } => {
                let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
                let seen = self.behind(after.as_deref()).take(limit);
                let seen: Vec<_> = seen.map(|(name, _)| name.clone()).collect();
                for name in &seen {
                    let row = &self.rows[name];
                    if row.ends < now_us - idle_us && row.top < now_us {
                        self.rows.remove(name);
                    }
                }
                Reply::Swept(seen.last().filter(|_| seen.len() == limit).cloned())
            }
        };
        (reply, Vec::new())
    }

    /// Lists who holds and who waits, also those in line that are gone.
    pub fn entries(&self, now_us: i64, only: Option<&Name>) -> Vec<Entry> {
        let rows = self.rows.iter();
        let rows = rows.filter(|(name, _)| only.is_none_or(|only| only.as_str() == name.as_str()));
        let entries = rows.filter_map(|(name, row)| {
            let record = Record::read(&row.columns()).ok()?;
            Some(record.ledger.entry(Name::new(name).ok()?, nanos(now_us)))
        });
        entries.filter(|entry| !entry.is_empty()).collect()
    }

    /// Looks whether a name can be had once clients in line that are gone have left it, and lets in whose turn
    /// it is. Returns when to look again if it cannot.
    pub fn probe(&mut self, name: &Name, now_us: i64, clients: Directory<'_>) -> Option<Duration> {
        let row = self.rows.get_mut(name.as_str())?;
        let mut record = Record::read(&row.columns()).ok()?;
        let waiting: Vec<_> = record.ledger.waiting_sessions().collect();
        for client in waiting {
            let text = client_text(client);
            let is_gone = match record.pollers.get(&text) {
                Some(seen) => now_us - seen > LONG_SILENCE_US,
                None => clients(client) == Whereabouts::Gone,
            };
            if is_gone {
                record.ledger.leave_line(client);
            }
        }
        let (mut fences, mut notices) = (fences(&record, now_us), Vec::new());
        let mut at = Moment {
            session: Session::MAX,
            now: nanos(now_us),
            fences: &mut fences,
            notices: &mut notices,
        };
        let claim = Claim::new(name.clone(), Duration::from_secs(60)).with_wait(Wait::No);
        let answer = record.ledger.acquire(&claim, &mut at);
        record.ledger.withdraw(&claim, &mut at);
        record.top = fences.top;
        let again = match answer {
            Ok(Answer::Granted(_)) => None,
            _ => {
                let ends = record.ledger.last_end().unwrap_or(0);
                Some(Duration::from_nanos(ends.saturating_sub(nanos(now_us))))
            }
        };
        let columns = record.columns(row.turn, now_us).ok()?;
        *row = Row::of(row.version + 1, &columns);
        again
    }

    /// Returns the largest fence that was given out or set aside.
    pub fn last_fence(&self) -> i64 {
        self.rows.values().map(|row| row.top).max().unwrap_or(0)
    }

    fn take(&mut self, statement: &Statement, now_us: i64) -> Option<i64> {
        let Statement::Take {
            lease,
            owner,
            fences,
            tells,
            ttl_us,
            about,
        } = statement
        else {
            return None;
        };
        let before = self.rows.get(&lease.name);
        let is_free = |row: &Row| row.more.is_none() && (row.claim.is_none() || row.ends <= now_us);
        if !before.is_none_or(is_free) {
            return None;
        }
        let fence = before.map_or(now_us, |row| (row.top + 1).max(now_us));
        let version = before.map_or(now_us, |row| row.version + 1);
        let row = Row {
            version,
            top: fence + i64::from(*fences) - 1,
            claim: Some(lease.claim.clone()),
            owner: owner.clone(),
            client: lease.client.clone(),
            fence,
            fences: *fences,
            tells: *tells,
            since: now_us,
            ends: now_us + ttl_us,
            about: Some(about.clone()),
            ..before.cloned().unwrap_or_default()
        };
        self.rows.insert(lease.name.clone(), row);
        Some(fence)
    }

    fn give(&mut self, lease: &Lease, now_us: i64) -> bool {
        let Some(row) = self.held_alone(lease, now_us) else {
            return false;
        };
        *row = Row {
            version: row.version + 1,
            turn: row.turn,
            top: row.top,
            evicted: row.evicted,
            fence: row.fence,
            since: now_us,
            ends: now_us,
            next: row.next.take(),
            ..Row::default()
        };
        true
    }

    fn extend(&mut self, lease: &Lease, ttl_us: i64, now_us: i64) -> Option<i64> {
        let row = self.held_alone(lease, now_us)?;
        row.version += 1;
        row.ends = now_us + ttl_us;
        Some(row.fence)
    }

    /// The row of a lease that nobody shares and nobody waits for.
    fn held_alone(&mut self, lease: &Lease, now_us: i64) -> Option<&mut Row> {
        self.rows.get_mut(&lease.name).filter(|row| {
            row.more.is_none()
                && row.claim.as_deref() == Some(lease.claim.as_str())
                && row.client == lease.client
                && lease.fence.is_none_or(|fence| fence == row.fence)
                && row.ends > now_us
        })
    }

    fn seen(&self, name: &str, now_us: i64, clients: Directory<'_>) -> Seen {
        let row = self.rows.get(name).cloned();
        let next = row.as_ref().and_then(|row| row.next.as_deref());
        let next = next.and_then(|next| Session::from_str_radix(next, 16).ok());
        Seen {
            now_us,
            next: next.map(clients),
            row,
        }
    }

    fn behind(&self, after: Option<&str>) -> impl Iterator<Item = (&String, &Row)> {
        let after = after.unwrap_or_default();
        self.rows
            .iter()
            .filter(move |(name, _)| name.as_str() > after)
    }
}

impl Statement {
    /// Returns the name that it is about; empty if it is about several.
    pub fn name(&self) -> &str {
        match self {
            Self::Take { lease, .. } | Self::Give(lease) => &lease.name,
            Self::Read(name) | Self::Write { name, .. } => name,
            Self::Extend(_)
            | Self::ReadAll(_)
            | Self::Presence(_)
            | Self::Page { .. }
            | Self::Sweep { .. } => "",
        }
    }
}

impl Row {
    pub(super) fn of(version: i64, columns: &Columns) -> Self {
        let of = columns.clone();
        Self {
            version,
            turn: of.turn,
            top: of.top,
            evicted: of.evicted,
            claim: of.claim,
            owner: of.owner,
            client: of.client,
            fence: of.fence,
            fences: of.fences,
            tells: of.tells,
            since: of.since,
            ends: of.ends,
            about: of.about,
            next: of.next,
            more: of.more,
        }
    }

    fn columns(&self) -> Columns {
        let of = self.clone();
        Columns {
            turn: of.turn,
            top: of.top,
            evicted: of.evicted,
            claim: of.claim,
            owner: of.owner,
            client: of.client,
            fence: of.fence,
            fences: of.fences,
            tells: of.tells,
            since: of.since,
            ends: of.ends,
            about: of.about,
            next: of.next,
            more: of.more,
        }
    }

    pub(super) fn stored(&self) -> StoredRow {
        StoredRow {
            version: self.version,
            columns: self.columns(),
        }
    }
}

fn fences(record: &Record, now: Micros) -> ClockFences {
    let top = record.top;
    ClockFences { top, now }
}

/// After how long without a sign of life a client that looks by itself is gone.
const LONG_SILENCE_US: Micros = 12_000_000;
