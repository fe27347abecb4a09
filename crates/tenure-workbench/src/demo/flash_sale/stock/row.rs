//! The stock as a row of a database: what both databases have in common.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tenure::url::StoreUrl;
use tenure_checker::Written;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{RowGuard, RowSale, Stock, StockLocation, failed};
use crate::demo::flash_sale::record::Counted;
use crate::sql;
use tenure_cli::Result;

/// A connection to the database, and its dialect.
#[async_trait]
pub(super) trait Connection: Debug + Send + Sized + 'static {
    async fn connect(url: &StoreUrl) -> sql::Result<Self>;

    /// Runs a statement in which each `?` is one of the numbers; returns how many rows it changed.
    async fn run(&mut self, statement: &str, numbers: &[i64]) -> sql::Result<u64>;

    /// Returns the numbers of the only row of a query.
    async fn row(&mut self, query: &str) -> sql::Result<Vec<i64>>;

    /// Runs a command that cannot be prepared, such as `START TRANSACTION`.
    async fn command(&mut self, command: &str) -> sql::Result<()>;
}

/// A table with one row, which belongs to this sale only. A single statement makes the comparison
/// of the fence and the write atomic.
#[derive(Debug)]
pub(super) struct Row<C> {
    url: StoreUrl,
    statements: Statements,
    turns: Semaphore,
    idle: Mutex<Vec<C>>,
}

/// The SQL texts for one table.
#[derive(Debug)]
struct Statements {
    create: String,
    clear: String,
    fill: String,
    drop: String,
    read: String,
    read_locked: String,
    read_version: String,
    write: String,
    write_fenced: String,
    write_version: String,
    refuse: String,
    counted: String,
}

impl Statements {
    fn new(table: &str) -> Self {
        let write = format!("UPDATE {table} SET pieces = ?, accepted = accepted + 1");
        let read = format!("SELECT pieces FROM {table} WHERE id = 1");
        Self {
            create: format!(
                "CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY, pieces BIGINT NOT NULL, version BIGINT NOT NULL, \
                 fence BIGINT NOT NULL, accepted BIGINT NOT NULL, refused BIGINT NOT NULL)"
            ),
            clear: format!("DELETE FROM {table}"),
            fill: format!("INSERT INTO {table} VALUES (1, ?, 0, 0, 0, 0)"),
            drop: format!("DROP TABLE IF EXISTS {table}"),
            read_locked: format!("{read} FOR UPDATE"),
            read,
            read_version: format!("SELECT pieces, version FROM {table} WHERE id = 1"),
            write_fenced: format!("{write}, fence = ? WHERE id = 1 AND fence <= ?"),
            write_version: format!("{write}, version = ? WHERE id = 1 AND version = ?"),
            write: format!("{write} WHERE id = 1"),
            refuse: format!("UPDATE {table} SET refused = refused + 1 WHERE id = 1"),
            counted: format!("SELECT pieces, accepted, refused FROM {table} WHERE id = 1"),
        }
    }
}

impl<C: Connection> Row<C> {
    pub(super) async fn open(at: &StockLocation) -> Result<Self> {
        let row = Self {
            url: StoreUrl::parse(&at.server)?,
            statements: Statements::new(&format!("tenure_demo_{}", at.id)),
            turns: Semaphore::new(CONNECTIONS),
            idle: Mutex::default(),
        };
        // An unreachable database is detected before the sale.
        row.lend().await?.give_back();
        Ok(row)
    }

    async fn lend(&self) -> Result<Lent<'_, C>> {
        let turn = self.turns.acquire().await.map_err(|error| failed(&error))?;
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let connected = C::connect(&self.url).await;
                connected.map_err(|error| failed(&error))?
            }
        };
        Ok(Lent {
            row: self,
            connection,
            _turn: turn,
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<C>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one statement as its own transaction.
    async fn run(&self, statement: &str, numbers: &[i64]) -> Result<u64> {
        let mut lent = self.lend().await?;
        let changed = lent.connection.run(statement, numbers).await;
        let changed = changed.map_err(|error| failed(&error))?;
        lent.give_back();
        Ok(changed)
    }

    async fn row(&self, query: &str) -> Result<Vec<i64>> {
        let mut lent = self.lend().await?;
        let row = lent.connection.row(query).await;
        let row = row.map_err(|error| failed(&error))?;
        lent.give_back();
        Ok(row)
    }

    /// Returns the outcome of a conditional write, given how many rows it changed.
    async fn compared(&self, changed: u64) -> Result<Written> {
        if changed == 1 {
            return Ok(Written::Accepted);
        }
        self.run(&self.statements.refuse, &[]).await?;
        Ok(Written::Stale)
    }
}

/// A borrowed connection. If it is not given back, it is closed and its transaction is rolled back.
#[derive(Debug)]
struct Lent<'a, C> {
    row: &'a Row<C>,
    connection: C,
    _turn: SemaphorePermit<'a>,
}

impl<C: Connection> Lent<'_, C> {
    fn give_back(self) {
        self.row.idle().push(self.connection);
    }
}

#[async_trait]
impl<C: Connection> Stock for Row<C> {
    async fn fill(&self, left: u64) -> Result<()> {
        let statements = &self.statements;
        self.run(&statements.create, &[]).await?;
        self.run(&statements.clear, &[]).await?;
        self.run(&statements.fill, &[number(left)]).await.map(drop)
    }

    async fn read(&self) -> Result<u64> {
        let row = self.row(&self.statements.read).await?;
        Ok(column(&row, 0))
    }

    async fn write(&self, left: u64, fence: Option<u64>) -> Result<Written> {
        let (left, statements) = (number(left), &self.statements);
        let Some(fence) = fence.map(number) else {
            self.run(&statements.write, &[left]).await?;
            return Ok(Written::Accepted);
        };
        let numbers = [left, fence, fence];
        let changed = self.run(&statements.write_fenced, &numbers).await?;
        self.compared(changed).await
    }

    async fn counted(&self) -> Result<Counted> {
        let row = self.row(&self.statements.counted).await?;
        Ok(Counted {
            left: column(&row, 0),
            accepted: column(&row, 1),
            refused: column(&row, 2),
        })
    }

    async fn remove(&self, _lock: &str) -> Result<()> {
        self.run(&self.statements.drop, &[]).await.map(drop)
    }

    async fn begin(&self, guard: RowGuard) -> Result<Box<dyn RowSale + '_>> {
        let statements = &self.statements;
        Ok(match guard {
            RowGuard::Pessimistic => {
                let mut lent = self.lend().await?;
                let begun = lent.connection.command("START TRANSACTION").await;
                begun.map_err(|error| failed(&error))?;
                let row = lent.connection.row(&statements.read_locked).await;
                let row = row.map_err(|error| failed(&error))?;
                Box::new(Locked {
                    lent,
                    left: column(&row, 0),
                })
            }
            RowGuard::Optimistic => {
                let row = self.row(&statements.read_version).await?;
                Box::new(Versioned {
                    row: self,
                    left: column(&row, 0),
                    version: number(column(&row, 1)),
                })
            }
        })
    }
}

/// A transaction that has locked the row: nobody else can read it for a sale before it ends.
#[derive(Debug)]
struct Locked<'a, C> {
    lent: Lent<'a, C>,
    left: u64,
}

#[async_trait]
impl<C: Connection> RowSale for Locked<'_, C> {
    fn left(&self) -> u64 {
        self.left
    }

    async fn write(mut self: Box<Self>, left: u64) -> Result<Written> {
        let write = &self.lent.row.statements.write;
        let written = self.lent.connection.run(write, &[number(left)]).await;
        written.map_err(|error| failed(&error))?;
        let ended = self.lent.connection.command("COMMIT").await;
        ended.map_err(|error| failed(&error))?;
        self.lent.give_back();
        Ok(Written::Accepted)
    }

    async fn give_up(mut self: Box<Self>) -> Result<()> {
        let ended = self.lent.connection.command("ROLLBACK").await;
        ended.map_err(|error| failed(&error))?;
        self.lent.give_back();
        Ok(())
    }
}

/// A row that was read, and may change before it is written.
#[derive(Debug)]
struct Versioned<'a, C> {
    row: &'a Row<C>,
    left: u64,
    version: i64,
}

#[async_trait]
impl<C: Connection> RowSale for Versioned<'_, C> {
    fn left(&self) -> u64 {
        self.left
    }

    async fn write(self: Box<Self>, left: u64) -> Result<Written> {
        let numbers = [number(left), self.version + 1, self.version];
        let write = &self.row.statements.write_version;
        let changed = self.row.run(write, &numbers).await?;
        self.row.compared(changed).await
    }

    async fn give_up(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Converts a number; no stock and no fence is larger than what a database can store.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a column; the table has no negative numbers, and each query names its columns.
fn column(row: &[i64], place: usize) -> u64 {
    let number = row.get(place).copied().unwrap_or(0);
    u64::try_from(number).unwrap_or(0)
}

/// As many as tenure uses by default, so that a database has enough for many copies.
const CONNECTIONS: usize = 4;

/// Checks that both databases behave alike; each has a test that calls this with its own server.
#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Fences, versions and row locks decide about writes, and nothing is left behind.
    pub(crate) async fn assert_decides<C: Connection>(url: &str) {
        let at = StockLocation::beside(url, "test".to_owned(), "/nowhere".into()).unwrap();
        let stock = Row::<C>::open(&at).await.unwrap();
        stock.fill(10).await.unwrap();
        assert_eq!(stock.write(9, Some(7)).await.unwrap(), Written::Accepted);
        assert_eq!(stock.write(8, Some(7)).await.unwrap(), Written::Accepted);
        assert_eq!(stock.write(9, Some(6)).await.unwrap(), Written::Stale);
        assert_eq!(stock.read().await.unwrap(), 8);

        let first = stock.begin(RowGuard::Optimistic).await.unwrap();
        let second = stock.begin(RowGuard::Optimistic).await.unwrap();
        assert_eq!((first.left(), second.left()), (8, 8));
        assert_eq!(first.write(7).await.unwrap(), Written::Accepted);
        assert_eq!(second.write(7).await.unwrap(), Written::Stale);

        let first = stock.begin(RowGuard::Pessimistic).await.unwrap();
        let sell = async {
            let second = stock.begin(RowGuard::Pessimistic).await.unwrap();
            let left = second.left();
            second.give_up().await.unwrap();
            left
        };
        // Whatever the timing, the second reads only after the first has written.
        let (written, left) = tokio::join!(first.write(6), sell);
        assert_eq!((written.unwrap(), left), (Written::Accepted, 6));
        // A sale that is dropped in the middle leaves no lock behind.
        drop(stock.begin(RowGuard::Pessimistic).await.unwrap());
        let last = stock.begin(RowGuard::Pessimistic).await.unwrap();
        assert_eq!(last.write(5).await.unwrap(), Written::Accepted);

        let counted = stock.counted().await.unwrap();
        assert_eq!((counted.left, counted.accepted, counted.refused), (5, 5, 2));
        stock.fill(3).await.unwrap();
        assert_eq!(stock.write(2, Some(1)).await.unwrap(), Written::Accepted);
        stock.remove("").await.unwrap();
        assert!(stock.read().await.is_err(), "the table is gone");
    }
}
