//! A database for unit tests that holds no rows.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use crate::driver::{Claim, Proof, RowKey};
use crate::name::{Fence, Name};
use crate::store::ledger::Session;
use crate::store::sql::database::{
    Bell, Connection, Database, Extension, Give, Letter, Take, Took, Write,
};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::pool::Pool;
use crate::store::sql::record::{Micros, Presence, Read, StoredRow};

/// Counts its bells.
#[derive(Debug, Default)]
pub(super) struct Stub {
    pub(super) bells: AtomicUsize,
}

/// What becomes of abandoned connections that this one is to end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Ends {
    #[default]
    AtOnce,
    /// They are told, but stay.
    Never,
    /// The server does not answer.
    Unanswered,
    /// The client lacks the right, which drivers report like a broken connection.
    Refused,
}

#[derive(Debug, Default)]
pub(super) struct StubConnection {
    pub(super) id: u32,
    pub(super) ends: Ends,
    /// The connections that were told to end.
    pub(super) told: Vec<u32>,
}

/// Says every two seconds that the rows have to be looked at.
#[derive(Debug)]
pub(super) struct StubBell;

#[async_trait]
impl Database for Stub {
    type Connection = StubConnection;
    type Bell = StubBell;

    const KIND: &'static str = "stub";
    const RELEASES_LAZILY: bool = false;

    async fn connect(&self) -> Outcome<StubConnection> {
        Ok(StubConnection::default())
    }

    async fn listen(&self, _session: Session) -> Outcome<Option<StubBell>> {
        self.bells.fetch_add(1, Ordering::Relaxed);
        Ok(Some(StubBell))
    }

    fn place(&self) -> String {
        "nowhere".to_owned()
    }

    fn proof(&self, _claim: &Claim, _fence: Fence) -> Proof {
        unreachable!("not asked for")
    }

    async fn row_key(&self, _pool: &Pool<Self>, _name: &Name) -> Outcome<RowKey> {
        unreachable!("not asked for")
    }
}

#[async_trait]
impl Bell for StubBell {
    async fn heard(&mut self, _watched: &[(Name, i64)]) -> Outcome<Option<Letter>> {
        sleep(Duration::from_secs(2)).await;
        Ok(None)
    }
}

#[async_trait]
impl Connection for StubConnection {
    type Id = u32;

    fn is_closed(&self) -> bool {
        false
    }

    fn id(&self) -> Option<u32> {
        Some(self.id)
    }

    async fn end(&mut self, abandoned: &[u32]) -> Outcome<usize> {
        self.told.extend(abandoned);
        match self.ends {
            Ends::AtOnce => Ok(0),
            Ends::Never => Ok(abandoned.len()),
            Ends::Unanswered => pending().await,
            Ends::Refused => {
                let fault = Fault::new(FaultKind::Lasting, "permission denied");
                Err(fault.on_a_broken_connection())
            }
        }
    }

    async fn take(&mut self, _take: &Take<'_>) -> Outcome<Took> {
        unreachable!("not asked for")
    }

    async fn give(&mut self, _give: &Give<'_>) -> Outcome<Option<Read>> {
        unreachable!("not asked for")
    }

    async fn extend(&mut self, _extensions: &[Extension<'_>]) -> Outcome<Vec<Option<Fence>>> {
        unreachable!("not asked for")
    }

    async fn unlocked(&mut self, _names: &[&Name]) -> Outcome<Vec<bool>> {
        unreachable!("not asked for")
    }

    async fn read(&mut self, _name: &Name) -> Outcome<Read> {
        unreachable!("not asked for")
    }

    async fn read_all(&mut self, _names: &[Name]) -> Outcome<(Micros, Vec<(Name, StoredRow)>)> {
        Ok((0, Vec::new()))
    }

    async fn write(&mut self, _write: &Write<'_>) -> Outcome<bool> {
        unreachable!("not asked for")
    }

    async fn presence(&mut self, _sessions: &[Session]) -> Outcome<Vec<Presence>> {
        unreachable!("not asked for")
    }

    async fn page(
        &mut self,
        _after: Option<&str>,
        _limit: u32,
    ) -> Outcome<(Micros, Vec<(String, StoredRow)>)> {
        unreachable!("not asked for")
    }

    async fn sweep(
        &mut self,
        _after: Option<&str>,
        _limit: u32,
        _idle: Duration,
    ) -> Outcome<Option<String>> {
        unreachable!("not asked for")
    }
}
