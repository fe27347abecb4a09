//! The query on which a client sleeps until its turn has come.
//!
//! MySQL cannot tell a client anything that it has not asked for. So a client that waits sleeps in a query, and
//! whoever decides for it interrupts that query. A named lock leads from the client to its connection, and shows
//! that it is there. An interruption may come between two queries; so each begins with a look at the rows.

use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};
use tokio::time::timeout;

use crate::name::Name;
use crate::store::ledger::Session;
use crate::store::mysql::fault;
use crate::store::mysql::statements::{SLEEP, Statements};
use crate::store::sql::database::{Bell, Letter};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::record::client_text;

/// A connection that can be interrupted.
#[derive(Debug)]
pub(crate) struct Doorbell {
    connection: Conn,
    statements: Statements,
    /// How long an answer may take, besides the sleep.
    timeout: Duration,
}

impl Doorbell {
    /// Shows that a client is there; `None` if it could not be found: behind a proxy that shares connections, or
    /// in a cluster whose nodes do not know each other's locks.
    pub(super) async fn start(
        mut connection: Conn,
        statements: Statements,
        session: Session,
        timeout: Duration,
    ) -> Outcome<Option<Self>> {
        let cluster: Option<(String, String)> = connection
            .query_first("SHOW VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON'")
            .await
            .map_err(fault::of)?;
        let lock = lock(session);
        let own = connection.id();
        let mut taken = take(&mut connection, &lock, 0).await?;
        if taken == Some((0, own)) {
            end_the_one_before(&mut connection, &lock).await?;
            taken = take(&mut connection, &lock, 1).await?;
        }
        if taken == Some((0, own)) {
            let why = "the server has not noticed the end of the connection before";
            return Err(Fault::new(FaultKind::Refused, why));
        }
        let is_found =
            taken == Some((1, own)) && holder(&mut connection, &lock).await? == Some(own);
        if cluster.is_some() || !is_found {
            return Ok(None);
        }
        Ok(Some(Self {
            connection,
            statements,
            timeout,
        }))
    }
}

/// Takes a named lock; returns 1 if it was had, 0 if not, and on which connection.
pub(super) async fn take(
    connection: &mut Conn,
    lock: &str,
    seconds: u32,
) -> Outcome<Option<(i64, u32)>> {
    let taken: Option<(Option<i64>, u32)> = connection
        .query_first(format!(
            "SELECT GET_LOCK('{lock}', {seconds}), CONNECTION_ID()"
        ))
        .await
        .map_err(fault::of)?;
    Ok(taken.and_then(|(taken, on)| Some((taken?, on))))
}

/// The connection that has a named lock.
pub(super) async fn holder(connection: &mut Conn, lock: &str) -> Outcome<Option<u32>> {
    let holder: Option<Option<u32>> = connection
        .query_first(format!("SELECT IS_USED_LOCK('{lock}')"))
        .await
        .map_err(fault::of)?;
    Ok(holder.flatten())
}

/// Ends a connection of this client that broke while it slept: the server would not notice before it wakes.
async fn end_the_one_before(connection: &mut Conn, lock: &str) -> Outcome<()> {
    let Some(before) = holder(connection, lock).await? else {
        return Ok(());
    };
    let ended = connection.query_drop(format!("KILL {before}")).await;
    match ended.map_err(fault::of) {
        Err(fault) if fault.broken => Err(fault),
        // It may be gone already.
        _ => Ok(()),
    }
}

#[async_trait]
impl Bell for Doorbell {
    async fn heard(&mut self, watched: &[(Name, i64)]) -> Outcome<Option<Letter>> {
        let watched = &watched[..watched.len().min(MOST_WATCHED)];
        let mut parameters = Vec::with_capacity(2 * watched.len());
        for (name, turn) in watched {
            parameters.push(Value::from(name.as_str()));
            parameters.push(Value::from(*turn));
        }
        let text = self.statements.sleep(watched.len());
        let parameters = match parameters.is_empty() {
            true => Params::Empty,
            false => Params::Positional(parameters),
        };
        let slept = self.connection.exec_first(text, parameters);
        let Ok(slept) = timeout(SLEEP + self.timeout, slept).await else {
            return Err(Fault::new(FaultKind::Unknown, "the sleep does not end"));
        };
        let slept: Result<Option<Option<i64>>, _> = slept;
        match slept {
            Ok(Some(_)) => Ok(None),
            Ok(None) => Err(Fault::new(FaultKind::Unknown, "the sleep gave no answer")),
            Err(error) if fault::is_interrupted(&error) => Ok(None),
            Err(error) => Err(fault::of(error)),
        }
    }
}

/// The named lock by which a client is found.
pub(super) fn lock(session: Session) -> String {
    format!("tenure:{}", client_text(session))
}

/// How many rows are looked at before a sleep; the others are looked at after it.
const MOST_WATCHED: usize = 64;
