//! The statements, one method each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use crate::name::{Fence, Name};
use crate::store::ledger::Session;
use crate::store::postgres::connect::PostgresSession;
use crate::store::postgres::fault;
use crate::store::postgres::listen::{channel, presence_key};
use crate::store::postgres::statements::Statements;
use crate::store::sql::database::{Connection, Extension, Give, Letter, Take, Took, Write};
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::sql::record::{Columns, Micros, Presence, Read, StoredRow};

/// A connection to PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresConnection {
    session: PostgresSession,
    statements: Statements,
    /// What was prepared, by its text; not used where each transaction may have another server.
    prepared: HashMap<Arc<str>, Statement>,
    /// None where sessions are shared.
    id: Option<PostgresId>,
    is_pooled: bool,
}

/// The process of a connection, and a random mark in its `application_name`.
///
/// The server uses process ids again, and a pooler gives the same process to the next client; neither has the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostgresId {
    pub(super) process: i32,
    pub(super) mark: u64,
}

/// The `application_name` of a connection with a mark.
pub(super) fn application_name(mark: u64) -> String {
    format!("tenure-{mark:016x}")
}

/// A parameter and its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl PostgresConnection {
    /// Makes a connection of a session; one without an id is shared with others.
    pub(super) fn new(
        session: PostgresSession,
        statements: Statements,
        id: Option<PostgresId>,
    ) -> Self {
        Self {
            session,
            statements,
            prepared: HashMap::new(),
            id,
            is_pooled: id.is_none(),
        }
    }

    async fn query(&mut self, text: &Arc<str>, parameters: &[Parameter<'_>]) -> Outcome<Vec<Row>> {
        let rows = match self.is_pooled {
            true => self.session.client.query_typed(text, parameters).await,
            false => {
                let statement = self.prepared(text, parameters).await?;
                let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
                self.session.client.query(&statement, &values).await
            }
        };
        rows.map_err(fault::of)
    }

    /// Runs a statement that returns exactly one row.
    async fn query_one(&mut self, text: &Arc<str>, parameters: &[Parameter<'_>]) -> Outcome<Row> {
        let mut rows = self.query(text, parameters).await?;
        rows.pop()
            .ok_or_else(|| Fault::damaged("the server returned no row"))
    }

    async fn prepared(
        &mut self,
        text: &Arc<str>,
        parameters: &[Parameter<'_>],
    ) -> Outcome<Statement> {
        if let Some(statement) = self.prepared.get(text) {
            return Ok(statement.clone());
        }
        let types: Vec<_> = parameters.iter().map(|(_, of)| of.clone()).collect();
        let statement = self.session.client.prepare_typed(text, &types).await;
        let statement = statement.map_err(fault::of)?;
        self.prepared.insert(Arc::clone(text), statement.clone());
        Ok(statement)
    }

    /// Writes a row, and tells whom it concerns without waiting for the answer.
    async fn write_and_tell(
        &mut self,
        text: &Arc<str>,
        parameters: &[Parameter<'_>],
        write: &Write<'_>,
    ) -> Outcome<bool> {
        if write.letters.is_empty() {
            return Ok(self.affected(text, parameters).await? == 1);
        }
        let letters = Letters::of(write.letters)?;
        let (name, version) = (write.name.as_str(), Some(write.version));
        if self.is_pooled {
            let written = self.affected(text, parameters).await? == 1;
            if written {
                self.notify(name, None, &letters).await;
            }
            return Ok(written);
        }
        let (update, notify) = (
            self.prepared(text, parameters).await?,
            self.prepared(
                &self.statements.notify.clone(),
                &letters.parameters(&name, &version),
            )
            .await?,
        );
        let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
        let told: [&(dyn ToSql + Sync); 4] = [&name, &version, &letters.channels, &letters.texts];
        let client = &self.session.client;
        // The one behind the other, in one go: the server reads both before this client reads anything.
        let (written, told) = tokio::join!(
            client.execute(&update, &values),
            client.execute(&notify, &told),
        );
        let written = written.map_err(fault::of)? == 1;
        let was_told = told.is_ok_and(|told| told > 0);
        if written && !was_told {
            // Somebody has written the row again at once.
            self.notify(name, None, &letters).await;
        }
        Ok(written)
    }

    /// Tells whom a row concerns that is written, whether they can be told or not.
    async fn notify(&mut self, name: &str, version: Option<i64>, letters: &Letters) {
        let text = Arc::clone(&self.statements.notify);
        let told = self
            .query(&text, &letters.parameters(&name, &version))
            .await;
        // Whoever is not told looks by itself before long.
        if let Err(fault) = told {
            tracing::debug!(error = %fault.source, "clients in line are not told");
        }
    }

    async fn affected(&mut self, text: &Arc<str>, parameters: &[Parameter<'_>]) -> Outcome<u64> {
        let affected = match self.is_pooled {
            true => self.session.client.execute_typed(text, parameters).await,
            false => {
                let statement = self.prepared(text, parameters).await?;
                let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
                self.session.client.execute(&statement, &values).await
            }
        };
        affected.map_err(fault::of)
    }
}

#[async_trait]
impl Connection for PostgresConnection {
    type Id = PostgresId;

    fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    fn id(&self) -> Option<PostgresId> {
        self.id
    }

    async fn end(&mut self, abandoned: &[PostgresId]) -> Outcome<usize> {
        let text = Arc::clone(&self.statements.end);
        let processes: Vec<_> = abandoned.iter().map(|id| id.process).collect();
        let names: Vec<_> = abandoned
            .iter()
            .map(|id| application_name(id.mark))
            .collect();
        let parameters: [Parameter<'_>; 2] =
            [(&processes, Type::INT4_ARRAY), (&names, Type::TEXT_ARRAY)];
        Ok(self.query(&text, &parameters).await?.len())
    }

    async fn take(&mut self, take: &Take<'_>) -> Outcome<Took> {
        let text = Arc::clone(&self.statements.take);
        let owner = take.claim.owner.as_ref().map(|owner| owner.as_str());
        let row = self
            .query_one(
                &text,
                &[
                    (&take.claim.name.as_str(), Type::TEXT),
                    (&take.claim.id.as_str(), Type::TEXT),
                    (&owner, Type::TEXT),
                    (&take.client, Type::TEXT),
                    (&take.fences, Type::INT4),
                    (&take.claim.tell_if_wanted, Type::BOOL),
                    (&take.ttl, Type::INT8),
                    (&take.about, Type::TEXT),
                ],
            )
            .await?;
        match get::<Option<i64>>(&row, 0)? {
            Some(number) => Ok(Took::Granted(fence(number)?)),
            None => Ok(Took::Undecided(Box::new(read(&row, 1)?))),
        }
    }

    async fn give(&mut self, give: &Give<'_>) -> Outcome<Option<Read>> {
        let text = Arc::clone(&self.statements.give);
        let number = give.fence.map(number);
        let row = self
            .query_one(
                &text,
                &[
                    (&give.name.as_str(), Type::TEXT),
                    (&give.claim.as_str(), Type::TEXT),
                    (&give.client, Type::TEXT),
                    (&number, Type::INT8),
                ],
            )
            .await?;
        match get::<Option<i32>>(&row, 0)? {
            Some(_) => Ok(None),
            None => read(&row, 1).map(Some),
        }
    }

    async fn extend(&mut self, extensions: &[Extension<'_>]) -> Outcome<Vec<Option<Fence>>> {
        let text = Arc::clone(&self.statements.extend);
        let names: Vec<_> = extensions.iter().map(|of| of.name.as_str()).collect();
        let claims: Vec<_> = extensions.iter().map(|of| of.claim.as_str()).collect();
        let clients: Vec<_> = extensions.iter().map(|of| of.client).collect();
        let fences: Vec<_> = extensions.iter().map(|of| of.fence.map(number)).collect();
        let ttls: Vec<_> = extensions.iter().map(|of| of.ttl).collect();
        let rows = self
            .query(
                &text,
                &[
                    (&names, Type::TEXT_ARRAY),
                    (&claims, Type::TEXT_ARRAY),
                    (&clients, Type::TEXT_ARRAY),
                    (&fences, Type::INT8_ARRAY),
                    (&ttls, Type::INT8_ARRAY),
                ],
            )
            .await?;
        let mut extended = vec![None; extensions.len()];
        for row in rows {
            let place = usize::try_from(get::<i64>(&row, 0)? - 1).map_err(Fault::damaged)?;
            if let Some(place) = extended.get_mut(place) {
                *place = Some(fence(get(&row, 1)?)?);
            }
        }
        Ok(extended)
    }

    async fn unlocked(&mut self, names: &[&Name]) -> Outcome<Vec<bool>> {
        let text = Arc::clone(&self.statements.unlocked);
        let wanted: Vec<_> = names.iter().map(|name| name.as_str()).collect();
        let rows = self.query(&text, &[(&wanted, Type::TEXT_ARRAY)]).await?;
        let found: Outcome<HashSet<String>> = rows.iter().map(|row| get(row, 0)).collect();
        let found = found?;
        Ok(wanted.iter().map(|name| found.contains(*name)).collect())
    }

    async fn read(&mut self, name: &Name) -> Outcome<Read> {
        let text = Arc::clone(&self.statements.read);
        let row = self
            .query_one(&text, &[(&name.as_str(), Type::TEXT)])
            .await?;
        read(&row, 0)
    }

    async fn read_all(&mut self, names: &[Name]) -> Outcome<(Micros, Vec<(Name, StoredRow)>)> {
        let text = Arc::clone(&self.statements.read_all);
        let wanted: Vec<_> = names.iter().map(Name::as_str).collect();
        let (now, rows) = named(self.query(&text, &[(&wanted, Type::TEXT_ARRAY)]).await?)?;
        let name = |text: String| names.iter().find(|name| name.as_str() == text).cloned();
        let rows = rows.into_iter();
        let rows = rows.filter_map(|(text, row)| Some((name(text)?, row)));
        Ok((now, rows.collect()))
    }

    async fn write(&mut self, write: &Write<'_>) -> Outcome<bool> {
        let of = write.columns;
        let name = write.name.as_str();
        let columns: [Parameter<'_>; 14] = [
            (&of.turn, Type::INT8),
            (&of.top, Type::INT8),
            (&of.evicted, Type::INT8),
            (&of.claim, Type::TEXT),
            (&of.owner, Type::TEXT),
            (&of.client, Type::TEXT),
            (&of.fence, Type::INT8),
            (&of.fences, Type::INT4),
            (&of.tells, Type::BOOL),
            (&of.since, Type::INT8),
            (&of.ends, Type::INT8),
            (&of.about, Type::TEXT),
            (&of.next, Type::TEXT),
            (&of.more, Type::TEXT),
        ];
        let mut parameters: Vec<Parameter<'_>> = vec![(&name, Type::TEXT)];
        let text = match &write.read {
            Some(read) => {
                parameters.push((read, Type::INT8));
                match write.is_shared {
                    true => Arc::clone(&self.statements.update_shared),
                    false => Arc::clone(&self.statements.update),
                }
            }
            None => Arc::clone(&self.statements.insert),
        };
        parameters.push((&write.version, Type::INT8));
        parameters.extend(columns);
        self.write_and_tell(&text, &parameters, write).await
    }

    async fn presence(&mut self, sessions: &[Session]) -> Outcome<Vec<Presence>> {
        let text = Arc::clone(&self.statements.presence);
        let keys: Vec<_> = sessions
            .iter()
            .map(|session| presence_key(*session))
            .collect();
        let rows = self.query(&text, &[(&keys, Type::INT8_ARRAY)]).await?;
        let presence = |row: &Row| Ok(presence(get(row, 0)?));
        rows.iter().map(presence).collect()
    }

    async fn page(
        &mut self,
        after: Option<&str>,
        limit: u32,
    ) -> Outcome<(Micros, Vec<(String, StoredRow)>)> {
        let text = Arc::clone(&self.statements.page);
        let (after, limit) = (after.unwrap_or_default(), i64::from(limit));
        let parameters: [Parameter<'_>; 2] = [(&after, Type::TEXT), (&limit, Type::INT8)];
        named(self.query(&text, &parameters).await?)
    }

    async fn sweep(
        &mut self,
        after: Option<&str>,
        limit: u32,
        idle: Duration,
    ) -> Outcome<Option<String>> {
        let text = Arc::clone(&self.statements.sweep);
        let (after, limit) = (after.unwrap_or_default(), i64::from(limit));
        let idle = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
        let row = self
            .query_one(
                &text,
                &[
                    (&after, Type::TEXT),
                    (&limit, Type::INT8),
                    (&idle, Type::INT8),
                ],
            )
            .await?;
        get(&row, 0)
    }
}

/// Letters as two arrays.
struct Letters {
    channels: Vec<String>,
    texts: Vec<String>,
}

impl Letters {
    fn of(letters: &[Letter]) -> Outcome<Self> {
        let channels = letters.iter().map(|letter| channel(letter.to)).collect();
        let texts: Result<_, _> = letters.iter().map(serde_json::to_string).collect();
        let texts = texts.map_err(Fault::damaged)?;
        Ok(Self { channels, texts })
    }

    fn parameters<'a>(&'a self, name: &'a &'a str, version: &'a Option<i64>) -> [Parameter<'a>; 4] {
        [
            (name, Type::TEXT),
            (version, Type::INT8),
            (&self.channels, Type::TEXT_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
        ]
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

/// What `read.sql` returns, from this column on.
fn read(row: &Row, from: usize) -> Outcome<Read> {
    Ok(Read {
        now: get(row, from)?,
        next: get::<Option<bool>>(row, from + 1)?.map(presence),
        row: stored(row, from + 2)?,
    })
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

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, column: usize) -> Outcome<T> {
    row.try_get(column).map_err(Fault::damaged)
}

fn presence(is_there: bool) -> Presence {
    match is_there {
        true => Presence::Here(0),
        false => Presence::Gone,
    }
}

fn fence(number: i64) -> Outcome<Fence> {
    let number = u64::try_from(number).map_err(Fault::damaged)?;
    Fence::new(number).ok_or_else(|| Fault::damaged("a fence that is 0"))
}

fn number(fence: Fence) -> i64 {
    i64::try_from(fence.get()).unwrap_or(i64::MAX)
}
