//! Databases, compared with what their users write by hand: two updates of a row, and session
//! locks.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tenure::url::StoreUrl;
use tokio::sync::Semaphore;

use super::prelude::*;
use crate::sql::{self, Waiter};

mod mysql;
mod postgres;

pub(super) const MYSQL: Kind = Kind {
    schemes: sql::mysql::SCHEMES,
    plain: sql::mysql::SCHEMES,
    look: |opened| Ok(Box::new(Database::<mysql::Mysql>::look(&opened.url)?)),
    bare_locks: &[UPDATES, mysql::GET_LOCK],
    open_bare: |lock, urls| Box::pin(open_bare(lock, urls)),
};

pub(super) const POSTGRES: Kind = Kind {
    schemes: sql::postgres::SCHEMES,
    plain: sql::postgres::SCHEMES,
    look: |opened| Ok(Box::new(Database::<postgres::Postgres>::look(&opened.url)?)),
    bare_locks: &[UPDATES, postgres::ADVISORY],
    open_bare: |lock, urls| Box::pin(open_bare(lock, urls)),
};

/// A connection to the database, and its dialect.
#[async_trait]
trait Connection: Debug + Send + Sized + 'static {
    /// The rows of the report.
    const ROWS: &'static [Row];

    async fn connect(url: &StoreUrl) -> sql::Result<Self>;

    /// Creates a table with these rows, or adds them.
    async fn make_rows(&mut self, table: &str, names: &[String]) -> sql::Result<()>;

    async fn drop_table(&mut self, table: &str) -> sql::Result<()>;

    /// Updates a row by its primary key; returns how many rows were updated.
    async fn update(&mut self, table: &str, name: &str, holder: Option<u32>) -> sql::Result<u64>;

    /// Waits for a session lock, and takes it.
    async fn lock(&mut self, name: &str) -> sql::Result<()>;

    async fn unlock(&mut self, name: &str) -> sql::Result<()>;

    /// Returns whether a process is waiting for a session lock.
    async fn is_blocked(&mut self, process: u32) -> sql::Result<bool>;
}

/// A database, and a connection that only inspects.
#[derive(Debug)]
struct Database<C: Connection> {
    connection: RefCell<C>,
    /// Drives the connection.
    waiter: Waiter,
}

impl<C: Connection> Database<C> {
    fn look(url: &StoreUrl) -> Result<Self> {
        let opened = Waiter::new().and_then(|waiter| {
            let connection = RefCell::new(waiter.wait_for(C::connect(url))?);
            Ok(Self { connection, waiter })
        });
        opened.map_err(|error| failed(&error))
    }
}

impl<C: Connection> BenchStore for Database<C> {
    fn rows(&self) -> Vec<Row> {
        C::ROWS.to_vec()
    }

    fn subject(&self, label: &'static str, workload: Workload) -> Subject {
        match (label, workload) {
            (TENURE, _) => Subject::tenure(workload),
            // Updates never wait for anybody. Where tenure's own pair is not the question, two
            // updates are measured.
            (UPDATES, Handover | Hot) => self.subject(UPDATES, Pair),
            _ => Subject::bare(label, workload, Who::bare(label)),
        }
    }

    /// Creates the rows to update.
    fn prepare(&self, who: &Who, name: &str) -> Result<()> {
        if *who != Who::bare(UPDATES) {
            return Ok(());
        }
        let mut names = vec![name.to_owned()];
        names.extend((0..NAMES).map(|number| format!("{name}/{number}")));
        let (mut connection, table) = (self.connection.borrow_mut(), table_of(name));
        let made = self.waiter.wait_for(connection.make_rows(&table, &names));
        made.map_err(|error| failed(&error))
    }

    fn is_blocked(&self, process: u32) -> Result<bool> {
        let mut connection = self.connection.borrow_mut();
        let blocked = self.waiter.wait_for(connection.is_blocked(process));
        blocked.map_err(|error| failed(&error))
    }
}

impl<C: Connection> Drop for Database<C> {
    fn drop(&mut self) {
        let table = table_of(&format!("tenure-bench/{}/", std::process::id()));
        let connection = self.connection.get_mut();
        // If this fails, a table with a few rows is left behind.
        let _ = self.waiter.wait_for(connection.drop_table(&table));
    }
}

/// Returns the table with the rows of a run, given one of its names.
fn table_of(name: &str) -> String {
    let run = name.split('/').nth(1).unwrap_or_default();
    format!("tenure_bench_{run}")
}

/// A few connections that all tasks of a process share, as in tenure.
#[derive(Debug)]
struct Pool<C> {
    url: StoreUrl,
    turns: Semaphore,
    idle: Mutex<Vec<C>>,
}

impl<C: Connection> Pool<C> {
    async fn open(url: StoreUrl) -> sql::Result<Self> {
        let count = url.option("connections").unwrap_or("4").parse()?;
        Ok(Self {
            turns: Semaphore::new(count),
            // The first connection is opened before anything is measured.
            idle: Mutex::new(vec![C::connect(&url).await?]),
            url,
        })
    }

    async fn connection(&self) -> sql::Result<C> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.pop()
        };
        match idle {
            Some(connection) => Ok(connection),
            None => C::connect(&self.url).await,
        }
    }

    fn give_back(&self, connection: C) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

/// A row that is updated once to take it and once to release it: not a lock, but the minimum cost
/// of one.
#[derive(Debug)]
struct Updates<C> {
    pool: Arc<Pool<C>>,
    table: String,
    name: String,
}

impl<C: Connection> Updates<C> {
    async fn update(&self, holder: Option<u32>) -> sql::Result<()> {
        let _turn = self.pool.turns.acquire().await?;
        let mut connection = self.pool.connection().await?;
        match connection.update(&self.table, &self.name, holder).await? {
            1 => self.pool.give_back(connection),
            _ => return Err("its row is missing".into()),
        }
        Ok(())
    }
}

impl<C: Connection> BareLock for Updates<C> {
    fn acquire(&mut self) -> Attempt<'_> {
        let holder = Some(std::process::id());
        Attempt::in_flight(async move { bare(self.update(holder).await) })
    }

    fn release(&mut self) -> Attempt<'_> {
        Attempt::in_flight(async { bare(self.update(None).await) })
    }
}

/// A session lock: it has no lease and no fence, and needs a connection for each lock.
#[derive(Debug)]
struct SessionLock<C> {
    pool: Arc<Pool<C>>,
    connection: Option<C>,
    name: String,
}

impl<C: Connection> SessionLock<C> {
    async fn connection(&mut self) -> sql::Result<&mut C> {
        if self.connection.is_none() {
            self.connection = Some(self.pool.connection().await?);
        }
        self.connection.as_mut().ok_or_else(|| "it is gone".into())
    }

    async fn lock(&mut self) -> sql::Result<()> {
        let name = self.name.clone();
        self.connection().await?.lock(&name).await
    }

    async fn unlock(&mut self) -> sql::Result<()> {
        let name = self.name.clone();
        self.connection().await?.unlock(&name).await
    }
}

impl<C: Connection> BareLock for SessionLock<C> {
    fn acquire(&mut self) -> Attempt<'_> {
        Attempt::in_flight(async { bare(self.lock().await) })
    }

    fn release(&mut self) -> Attempt<'_> {
        Attempt::in_flight(async { bare(self.unlock().await) })
    }
}

/// Opens bare locks in the database at a URL.
async fn open_bare(lock: String, urls: Vec<String>) -> Result<BareLocks> {
    let url = urls.first().ok_or_else(|| bare_failed(&"it has no URL"))?;
    let url = StoreUrl::parse(url)?;
    let opened = match sql::mysql::SCHEMES.contains(&url.scheme) {
        true => bare_locks::<mysql::Mysql>(lock, url).await,
        false => bare_locks::<postgres::Postgres>(lock, url).await,
    };
    bare(opened)
}

async fn bare_locks<C: Connection>(lock: String, url: StoreUrl) -> sql::Result<BareLocks> {
    let pool = Arc::new(Pool::<C>::open(url).await?);
    Ok(Box::new(move |name| {
        let (pool, name) = (Arc::clone(&pool), name.to_owned());
        Ok(match lock == UPDATES {
            true => Box::new(Updates {
                pool,
                table: table_of(&name),
                name,
            }),
            false => Box::new(SessionLock {
                pool,
                connection: None,
                name,
            }),
        })
    }))
}

fn bare<T>(done: sql::Result<T>) -> Result<T> {
    done.map_err(|error| bare_failed(&error))
}

fn failed(error: &sql::Error) -> Failure {
    Failure::unavailable(format!(
        "the database cannot be measured: {error}; check --store"
    ))
}

/// Returns the name of a process's connections, for servers that can report who waits.
fn tag_of(process: u32) -> String {
    format!("tenure-bench-{process}")
}

const UPDATES: &str = "two bare UPDATEs";

/// As many as in the workload `parallel`.
const NAMES: u32 = 64;
