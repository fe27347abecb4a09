//! A few connections for the statements of one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{error::Elapsed, timeout};

use crate::store::sql::abandoned::Abandoned;
use crate::store::sql::database::{Connection, Database};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::lazy::LazyReleases;
use crate::sync::Mutex;

/// Connections that are made when they are needed, and kept for the next request.
#[derive(Debug)]
pub(crate) struct Pool<D: Database> {
    database: Arc<D>,
    free: Semaphore,
    /// All but one, for requests that do not keep leases: if the row of a busy name is locked, they must not take all
    /// connections while leases run out.
    for_claims: Semaphore,
    size: u32,
    idle: Mutex<Vec<D::Connection>>,
    /// Whether a connection was lost, and with it maybe what a server has not written to disk.
    lost: AtomicBool,
    pub(super) releases: LazyReleases,
    abandoned: Abandoned<D::Connection>,
    timeout: Duration,
    connect_timeout: Duration,
}

/// A connection of one's own, for one request.
#[derive(Debug)]
pub(crate) struct Lent<'a, D: Database> {
    pool: &'a Pool<D>,
    /// Taken out at the end.
    connection: Option<D::Connection>,
    _turns: (Option<SemaphorePermit<'a>>, SemaphorePermit<'a>),
}

impl<D: Database> Pool<D> {
    /// Makes a pool of at most `size` connections.
    pub(crate) fn new(
        database: Arc<D>,
        size: u32,
        timeout: Duration,
        connect_timeout: Duration,
    ) -> Self {
        Self {
            database,
            free: Semaphore::new(usize::try_from(size).unwrap_or(1)),
            for_claims: Semaphore::new(usize::try_from(size).unwrap_or(1).saturating_sub(1).max(1)),
            size,
            idle: Mutex::new(Vec::new()),
            lost: AtomicBool::new(false),
            releases: LazyReleases::default(),
            abandoned: Abandoned::default(),
            timeout,
            connect_timeout,
        }
    }

    /// Returns how long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Lends a connection: an idle one, or a new one if there are not too many.
    pub(crate) async fn lend(&self) -> Outcome<Lent<'_, D>> {
        let turn = self.turn(&self.for_claims).await?;
        self.lend_as(Some(turn)).await
    }

    /// Lends a connection for the renewal or the release of leases, even if claims wait for all others.
    pub(crate) async fn lend_for_leases(&self) -> Outcome<Lent<'_, D>> {
        self.lend_as(None).await
    }

    /// Waits for a turn, no longer than for an answer.
    async fn turn<'a>(&self, of: &'a Semaphore) -> Outcome<SemaphorePermit<'a>> {
        let Ok(turn) = timeout(self.timeout, of.acquire()).await else {
            let why = format!(
                "all {} connections to {} were busy for {:?}",
                self.size,
                self.database.place(),
                self.timeout
            );
            return Err(Fault::new(FaultKind::Refused, why));
        };
        turn.map_err(|closed| Fault::new(FaultKind::Refused, closed))
    }

    async fn lend_as<'a>(&'a self, claims: Option<SemaphorePermit<'a>>) -> Outcome<Lent<'a, D>> {
        let turns = (claims, self.turn(&self.free).await?);
        let mut connection = match self.idle() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        if let Err(fault) = self.abandoned.end(&mut connection, self.timeout).await {
            self.met_its_end();
            return Err(unconnected(fault, &self.database.place()));
        }
        Ok(Lent {
            pool: self,
            connection: Some(connection),
            _turns: turns,
        })
    }

    /// Waits until no request is in flight.
    pub(crate) async fn settled(&self) {
        // Closed only with the pool.
        let _ = self.free.acquire_many(self.size).await;
    }

    /// Takes in that a connection is of no use any more: the others may have met the same end, and new ones are made soon enough.
    fn met_its_end(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.idle.lock().clear();
    }

    fn idle(&self) -> Option<D::Connection> {
        let mut idle = self.idle.lock();
        let before = idle.len();
        idle.retain(|connection| !connection.is_closed());
        if idle.len() < before {
            self.lost.store(true, Ordering::Relaxed);
        }
        idle.pop()
    }

    /// Says once more what a crash may have undone, if a connection was lost.
    async fn release_again(&self, mut connection: D::Connection) -> D::Connection {
        if !self.lost.swap(false, Ordering::Relaxed) {
            return connection;
        }
        for given in self.releases.all() {
            let again = timeout(self.timeout, connection.give(&given.again())).await;
            let Ok(Ok(again)) = again else {
                self.lost.store(true, Ordering::Relaxed);
                break;
            };
            self.releases.said_again(&given, again.is_none());
        }
        connection
    }

    async fn connect(&self) -> Outcome<D::Connection> {
        let place = self.database.place();
        match timeout(self.connect_timeout, self.database.connect()).await {
            Ok(Ok(connection)) => Ok(self.release_again(connection).await),
            Ok(Err(fault)) => Err(unconnected(fault, &place)),
            Err(_) => {
                let why = format!("no connection to {place} in {:?}", self.connect_timeout);
                Err(Fault::new(FaultKind::Refused, why))
            }
        }
    }
}

impl<D: Database> Lent<'_, D> {
    /// Takes in how a request on this connection ended, and gives the connection back if it is well.
    pub(crate) fn ended<T>(mut self, outcome: Result<Outcome<T>, Elapsed>) -> Outcome<T> {
        let (is_broken, is_known) = match &outcome {
            Ok(Ok(_)) => (false, true),
            Ok(Err(fault)) => (fault.broken, fault.kind != FaultKind::Unknown),
            Err(_) => (true, false),
        };
        if is_broken {
            self.pool.met_its_end();
        }
        if is_known || !is_broken {
            let connection = self.connection.take();
            let well = connection.filter(|_| !is_broken);
            self.pool.idle.lock().extend(well);
        }
        let late = || format!("no answer in {:?}", self.pool.timeout);
        outcome.unwrap_or_else(|_| Err(Fault::new(FaultKind::Unknown, late())))
    }
}

impl<D: Database> Drop for Lent<'_, D> {
    fn drop(&mut self) {
        // A request that was cut short, or whose outcome is unknown.
        if let Some(connection) = self.connection.take() {
            self.pool.abandoned.add(&connection);
        }
    }
}

impl<D: Database> std::ops::Deref for Lent<'_, D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        match &self.connection {
            Some(connection) => connection,
            None => unreachable!("it is taken out at the end alone"),
        }
    }
}

impl<D: Database> std::ops::DerefMut for Lent<'_, D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        match &mut self.connection {
            Some(connection) => connection,
            None => unreachable!("it is taken out at the end alone"),
        }
    }
}

/// What to say when a connection cannot be made: nothing was asked yet.
fn unconnected(fault: Fault, place: &str) -> Fault {
    let kind = match fault.kind {
        FaultKind::Unknown | FaultKind::Conflict => FaultKind::Refused,
        kind => kind,
    };
    Fault::new(kind, format!("no connection to {place}: {}", fault.source))
}
