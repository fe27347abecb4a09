//! The statements, one method each.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Params, Row, Value};
use tokio::time::Instant;

use crate::name::{Fence, Name};
use crate::store::ledger::Session;
use crate::store::mysql::statements::Statements;
use crate::store::mysql::{doorbell, fault};
use crate::store::sql::database::{Connection, Extension, Give, Letter, Take, Took, Write};
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::sql::record::{Columns, Micros, Presence, Read, StoredRow};

/// A connection to MySQL or MariaDB.
#[derive(Debug)]
pub(crate) struct MysqlConnection {
    pub(super) connection: Conn,
    statements: Statements,
    /// When the server started.
    started: Instant,
    id: Option<MysqlId>,
}

/// A named lock that a connection holds until it ends, with a random name.
///
/// Numbers of connections are no ids, since they begin again when the server does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MysqlId {
    pub(super) lock: String,
}

impl MysqlConnection {
    pub(super) fn new(
        connection: Conn,
        statements: Statements,
        started: Instant,
        id: Option<MysqlId>,
    ) -> Self {
        Self {
            connection,
            statements,
            started,
            id,
        }
    }

    /// Runs a statement, and returns how many rows it affected.
    async fn affected(&mut self, text: &str, values: Vec<Value>) -> Outcome<u64> {
        let ran = self.connection.exec_drop(text, Params::Positional(values));
        ran.await.map_err(fault::of)?;
        Ok(self.connection.affected_rows())
    }

    async fn rows(&mut self, text: &str, values: Vec<Value>) -> Outcome<Vec<Row>> {
        let rows = self.connection.exec(text, Params::Positional(values));
        rows.await.map_err(fault::of)
    }

    /// Where a client is, as the server says.
    fn presence_of(&self, connection: Option<u64>) -> Presence {
        match connection {
            Some(connection) => Presence::Here(connection),
            // Nobody is taken for gone who has not had the time to come back since the server started.
            None if self.started.elapsed() < COME_BACK => Presence::Here(0),
            None => Presence::Gone,
        }
    }

    /// Interrupts the sleep of those who are to be told.
    async fn ring(&mut self, letters: &[Letter]) -> Outcome<()> {
        let mut known: Vec<_> = letters.iter().filter_map(|letter| letter.at).collect();
        let mut unknown: Vec<_> = letters
            .iter()
            .filter(|letter| letter.at.is_none())
            .collect();
        unknown.sort_by_key(|letter| letter.to);
        unknown.dedup_by_key(|letter| letter.to);
        let sessions: Vec<_> = unknown.iter().map(|letter| letter.to).collect();
        for presence in self.presence(&sessions).await? {
            if let Presence::Here(connection) = presence {
                known.push(connection);
            }
        }
        known.sort_unstable();
        known.dedup();
        for connection in known.into_iter().filter(|connection| *connection != 0) {
            // Refused if the client is another user's, or gone: it looks by itself before long.
            if let Err(error) = self
                .connection
                .query_drop(format!("KILL QUERY {connection}"))
                .await
            {
                let fault = fault::of(error);
                if fault.broken {
                    return Err(fault);
                }
                tracing::debug!(error = %fault.source, "a client in line is not woken");
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Connection for MysqlConnection {
    type Id = MysqlId;

    fn is_closed(&self) -> bool {
        self.connection.is_disconnected()
    }

    fn id(&self) -> Option<MysqlId> {
        self.id.clone()
    }

    async fn end(&mut self, abandoned: &[MysqlId]) -> Outcome<usize> {
        let mut left = 0;
        for id in abandoned {
            let Some(number) = doorbell::holder(&mut self.connection, &id.lock).await? else {
                continue;
            };
            left += 1;
            let killed = self.connection.query_drop(format!("KILL {number}"));
            match killed.await.map_err(fault::of) {
                Err(fault) if fault.broken => return Err(fault),
                // It may be gone by now; the next look says so.
                _ => {}
            }
        }
        Ok(left)
    }

    async fn take(&mut self, take: &Take<'_>) -> Outcome<Took> {
        let text = self.statements.take.clone();
        let owner = take.claim.owner.as_ref().map(|owner| owner.as_str());
        let values = vec![
            take.fences.into(),
            take.fences.into(),
            take.claim.id.as_str().into(),
            owner.into(),
            take.client.into(),
            take.claim.tell_if_wanted.into(),
            take.ttl.into(),
            take.about.into(),
            take.claim.name.as_str().into(),
        ];
        if self.affected(&text, values).await? == 1 {
            let number = self.connection.last_insert_id().unwrap_or(0);
            return Ok(Took::Granted(fence(number)?));
        }
        let read = self.read(&take.claim.name).await?;
        Ok(Took::Undecided(Box::new(read)))
    }

    async fn give(&mut self, give: &Give<'_>) -> Outcome<Option<Read>> {
        let text = self.statements.give.clone();
        let number = give.fence.map(Fence::get);
        let values = vec![
            give.name.as_str().into(),
            give.claim.as_str().into(),
            give.client.into(),
            number.into(),
            number.into(),
        ];
        match self.affected(&text, values).await? {
            1 => Ok(None),
            _ => self.read(give.name).await.map(Some),
        }
    }

    async fn extend(&mut self, extensions: &[Extension<'_>]) -> Outcome<Vec<Option<Fence>>> {
        let mut extended = vec![None; extensions.len()];
        // One statement for all that last equally long and name their grant, which is all of one watchdog's.
        let mut order: Vec<_> = (0..extensions.len()).collect();
        order.retain(|index| extensions[*index].fence.is_some());
        order.sort_by_key(|index| extensions[*index].ttl);
        for group in order.chunk_by(|one, other| extensions[*one].ttl == extensions[*other].ttl) {
            for part in group.chunks(MOST_AT_ONCE) {
                // As few texts as possible, because each is prepared.
                let size = part.len().next_power_of_two();
                let mut values = vec![Value::from(extensions[part[0]].ttl)];
                let padded = part.iter().chain(std::iter::repeat(&part[0]));
                for index in padded.take(size) {
                    let of = &extensions[*index];
                    values.extend([
                        of.name.as_str().into(),
                        of.claim.as_str().into(),
                        of.client.into(),
                        of.fence.map(Fence::get).into(),
                    ]);
                }
                let text = self.statements.extend(size);
                let affected = self.affected(&text, values).await?;
                if usize::try_from(affected).is_ok_and(|affected| affected == part.len()) {
                    for index in part {
                        extended[*index] = extensions[*index].fence;
                    }
                }
            }
        }
        Ok(extended)
    }

    async fn unlocked(&mut self, names: &[&Name]) -> Outcome<Vec<bool>> {
        let mut found = HashSet::new();
        for part in names.chunks(MOST_AT_ONCE) {
            let size = part.len().next_power_of_two();
            let padded = part.iter().chain(std::iter::repeat(&part[0]));
            let values = padded.take(size).map(|name| name.as_str().into());
            let text = self.statements.unlocked(size);
            for row in self.rows(&text, values.collect()).await? {
                found.insert(get::<String>(&row, 0)?);
            }
        }
        Ok(names
            .iter()
            .map(|name| found.contains(name.as_str()))
            .collect())
    }

    async fn read(&mut self, name: &Name) -> Outcome<Read> {
        let text = self.statements.read.clone();
        let mut rows = self.rows(&text, vec![name.as_str().into()]).await?;
        let row = rows
            .pop()
            .ok_or_else(|| Fault::damaged("the server returned no row"))?;
        let stored = stored(&row, 2)?;
        let has_line = stored
            .as_ref()
            .is_some_and(|row| row.columns.next.is_some());
        let next: Option<u64> = get(&row, 1)?;
        Ok(Read {
            now: get(&row, 0)?,
            next: has_line.then(|| self.presence_of(next)),
            row: stored,
        })
    }

    async fn read_all(&mut self, names: &[Name]) -> Outcome<(Micros, Vec<(Name, StoredRow)>)> {
        let (mut now, mut found) = (0, Vec::new());
        for part in names.chunks(MOST_AT_ONCE) {
            let size = part.len().next_power_of_two();
            let padded = part.iter().chain(std::iter::repeat(&part[0]));
            let values = padded.take(size).map(|name| name.as_str().into());
            let text = self.statements.read_all(size);
            let (at, rows) = named(self.rows(&text, values.collect()).await?)?;
            now = at.max(now);
            let name = |text: &str| part.iter().find(|name| name.as_str() == text).cloned();
            found.extend(
                rows.into_iter()
                    .filter_map(|(text, row)| Some((name(&text)?, row))),
            );
        }
        Ok((now, found))
    }

    async fn write(&mut self, write: &Write<'_>) -> Outcome<bool> {
        let of = write.columns;
        let text = |text: &Option<String>| Value::from(text.as_deref());
        let mut values = vec![
            write.version.into(),
            of.turn.into(),
            of.top.into(),
            of.evicted.into(),
            text(&of.claim),
            text(&of.owner),
            text(&of.client),
            of.fence.into(),
            of.fences.into(),
            of.tells.into(),
            of.since.into(),
            of.ends.into(),
            text(&of.about),
            text(&of.next),
            text(&of.more),
            write.name.as_str().into(),
        ];
        let statement = match write.read {
            Some(read) => {
                values.push(read.into());
                self.statements.update.clone()
            }
            None => self.statements.insert.clone(),
        };
        let ran = self
            .connection
            .exec_drop(statement.as_ref(), Params::Positional(values));
        match ran.await {
            Ok(()) if self.connection.affected_rows() == 1 => {}
            Ok(()) => return Ok(false),
            Err(error) if fault::is_duplicate(&error) => return Ok(false),
            Err(error) => return Err(fault::of(error)),
        }
        if !write.letters.is_empty() {
            // What is written is written; whoever is not told looks by itself before long.
            if let Err(fault) = self.ring(write.letters).await {
                tracing::debug!(error = %fault.source, "clients in line are not woken");
            }
        }
        Ok(true)
    }

    async fn presence(&mut self, sessions: &[Session]) -> Outcome<Vec<Presence>> {
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        let each = sessions
            .iter()
            .map(|session| format!("IS_USED_LOCK('{}')", doorbell::lock(*session)));
        let each: Vec<_> = each.collect();
        let row: Option<Row> = self
            .connection
            .query_first(format!("SELECT {}", each.join(", ")))
            .await
            .map_err(fault::of)?;
        let row = row.ok_or_else(|| Fault::damaged("the server returned no row"))?;
        let presence = |index| Ok(self.presence_of(get(&row, index)?));
        (0..sessions.len()).map(presence).collect()
    }

    async fn page(
        &mut self,
        after: Option<&str>,
        limit: u32,
    ) -> Outcome<(Micros, Vec<(String, StoredRow)>)> {
        let text = self.statements.page.clone();
        let values = vec![after.unwrap_or_default().into(), limit.into()];
        named(self.rows(&text, values).await?)
    }

    async fn sweep(
        &mut self,
        after: Option<&str>,
        limit: u32,
        idle: Duration,
    ) -> Outcome<Option<String>> {
        let after = after.unwrap_or_default();
        let text = self.statements.sweep_range.clone();
        let range = self.rows(&text, vec![after.into(), limit.into()]).await?;
        let Some(range) = range.first() else {
            return Ok(None);
        };
        let (count, last): (u32, Option<String>) = (get(range, 0)?, get(range, 1)?);
        let Some(last) = last else {
            return Ok(None);
        };
        let idle = u64::try_from(idle.as_micros()).unwrap_or(u64::MAX);
        let text = self.statements.sweep.clone();
        let values = vec![after.into(), last.as_str().into(), idle.into()];
        self.affected(&text, values).await?;
        Ok((count == limit).then_some(last))
    }
}

/// Rows of names, and the time; 0 if there are none.
fn named(rows: Vec<Row>) -> Outcome<(Micros, Vec<(String, StoredRow)>)> {
    let now = rows.first().map_or(Ok(0), |row| get(row, 0))?;
    let stored = |row: &Row| {
        let name = get(row, row.len() - 1)?;
        let stored = stored(row, 2)?.ok_or_else(|| Fault::damaged("a row without a version"))?;
        Ok((name, stored))
    };
    let rows: Outcome<Vec<_>> = rows.iter().map(stored).collect();
    Ok((now, rows?))
}

fn stored(row: &Row, from: usize) -> Outcome<Option<StoredRow>> {
    let Some(version) = get(row, from)? else {
        return Ok(None);
    };
    let columns = Columns {
        turn: get(row, from + 1)?,
        top: get(row, from + 2)?,
        evicted: get(row, from + 3)?,
        claim: get(row, from + 4)?,
        owner: get(row, from + 5)?,
        client: get(row, from + 6)?,
        fence: get(row, from + 7)?,
        fences: get(row, from + 8)?,
        tells: get(row, from + 9)?,
        since: get(row, from + 10)?,
        ends: get(row, from + 11)?,
        about: get(row, from + 12)?,
        next: get(row, from + 13)?,
        more: get(row, from + 14)?,
    };
    Ok(Some(StoredRow { version, columns }))
}

fn get<T: FromValue>(row: &Row, column: usize) -> Outcome<T> {
    let value = row.get_opt(column);
    let value = value.ok_or_else(|| Fault::damaged("a column is missing"))?;
    value.map_err(|error| Fault::damaged(error.to_string()))
}

fn fence(number: u64) -> Outcome<Fence> {
    Fence::new(number).ok_or_else(|| Fault::damaged("a fence that is 0"))
}

/// How many names one statement has.
const MOST_AT_ONCE: usize = 256;

/// How long after the start of a server clients that do not show themselves are not taken for gone.
const COME_BACK: Duration = Duration::from_secs(10);
