//! The planted bugs of a database: in its table, or on the way to it.

use tenure::store::sql::simulation::{Lease, Reply as Answer, Row, Seen, Statement, Whereabouts};

use super::{Bug, Planted};
use crate::contract::{Ask, Reply, Request, Told};
use crate::store::Store;

impl Planted {
    /// Sweeps a table, or sweeps it wrongly.
    pub(crate) fn sweep(&self, store: &Store, sweep: &Statement) {
        store.with_sql(|server, now_us| {
            if self.is(Bug::SqlSweepHeld) {
                server.table.rows.clear();
            }
            server.execute(sweep, now_us);
        });
    }

    /// Has a database execute a statement, or executes it wrongly.
    pub(super) fn decide_statement(
        &self,
        store: &Store,
        link: usize,
        request: &Request,
    ) -> Option<Reply> {
        let Request::Sql(Ask::Execute(asked)) = request else {
            return store.decide(link, request);
        };
        let mut statement = asked.clone();
        match &mut *statement {
            Statement::Take { lease, .. } if self.is(Bug::SqlTakeIgnoresEnd) => {
                with_row(store, lease, |row, now_us| row.ends = row.ends.min(now_us));
            }
            Statement::Give(lease) if self.is(Bug::SqlGiveIgnoresClaim) => {
                let held = with_row(store, lease, |row, _| {
                    (row.claim.clone(), row.client.clone())
                });
                if let Some((Some(claim), client)) = held {
                    (lease.claim, lease.client, lease.fence) = (claim, client, None);
                }
            }
            Statement::Extend(leases) if self.is(Bug::SqlExtendRevives) => {
                for (lease, _) in leases {
                    with_row(store, lease, |row, now_us| {
                        (row.claim, row.client) = (Some(lease.claim.clone()), lease.client.clone());
                        row.fence = lease.fence.unwrap_or(row.fence);
                        row.ends = row.ends.max(now_us + 1);
                    });
                }
            }
            Statement::Write {
                name,
                read,
                row,
                letters,
            } => {
                let before = store.with_sql(|server, _| server.table.rows.get(name).cloned());
                let before = before.flatten();
                let version = before.as_ref().map(|row| row.version);
                if self.is(Bug::SqlVersionIgnored)
                    || (self.is(Bug::SqlInsertOverwrites) && read.is_none())
                {
                    *read = version;
                }
                if self.is(Bug::SqlTurnNotCounted) {
                    row.turn = before.map_or(0, |row| row.turn);
                }
                if self.is(Bug::SqlLetterLost) {
                    letters.clear();
                }
                if self.is(Bug::SqlLetterWithoutWrite) && *read != version {
                    store.with_sql(|server, _| server.post(letters));
                }
            }
            _ => {}
        }
        let mut reply = store.decide(link, &Request::Sql(Ask::Execute(statement)))?;
        if let Reply::Sql(Told::Executed(answer)) = &mut reply {
            self.misplace(answer);
        }
        if self.is(Bug::SqlTopForgotten) {
            store.with_sql(|server, _| {
                let rows = server.table.rows.values_mut();
                let free = rows.filter(|row| row.claim.is_none());
                free.for_each(|row| row.top = 0);
            });
        }
        Some(reply)
    }

    /// Reports wrong whereabouts of clients.
    fn misplace(&self, answer: &mut Answer) {
        if !self.is(Bug::SqlPresenceGone) {
            return;
        }
        let wrong = Whereabouts::Gone;
        match answer {
            Answer::Presence(all) => all.fill(wrong),
            Answer::Seen(Seen {
                next: Some(next), ..
            }) => *next = wrong,
            _ => {}
        }
    }
}

/// Calls `act` with the row of a lease that nobody waits for.
fn with_row<T>(store: &Store, lease: &Lease, act: impl FnOnce(&mut Row, i64) -> T) -> Option<T> {
    let acted = store.with_sql(|server, now_us| {
        let row = server.table.rows.get_mut(&lease.name);
        let row = row.filter(|row| row.more.is_none())?;
        Some(act(row, now_us))
    });
    acted.flatten()
}
