//! Four ways to sell from a table of MySQL or MariaDB without selling an item twice.
//!
//! `cargo run -p tenure --example stock_mysql -- mysql://user:password@localhost/database`
//!
//! It makes a table `stock_example` there, and deletes it at the end. `docs/databases.md` says when to use which.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, TxOpts};
use tenure::{Client, Error};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Optimistic: no lock. The write says which version it is for, and is repeated if another one came first.
async fn sell_by_version(database: &mut Conn) -> Result<bool> {
    let mut backoff = Duration::from_millis(1);
    loop {
        let row = database.query_first("SELECT remaining, version FROM stock_example");
        let (remaining, version): (u32, u32) = row.await?.ok_or("no stock")?;
        if remaining == 0 {
            return Ok(false);
        }
        let write =
            "UPDATE stock_example SET remaining = ?, version = version + 1 WHERE version = ?";
        database.exec_drop(write, (remaining - 1, version)).await?;
        if database.affected_rows() == 1 {
            return Ok(true);
        }
        // At random, so that those who met do not meet again.
        tokio::time::sleep(backoff.mul_f64(fastrand::f64())).await;
        backoff = (backoff * 2).min(Duration::from_millis(100));
    }
}

/// Pessimistic: a lock that begins and ends with the transaction.
async fn sell_in_transaction(database: &mut Conn, locks: &Client) -> Result<bool> {
    let mut tx = database.start_transaction(TxOpts::default()).await?;
    // First of all, so that everything is read after it.
    locks.row("stock:001").lock_in(&mut tx).await?;
    let row = tx.query_first("SELECT remaining FROM stock_example");
    let remaining: u32 = row.await?.ok_or("no stock")?;
    if remaining > 0 {
        let write = "UPDATE stock_example SET remaining = ?";
        tx.exec_drop(write, (remaining - 1,)).await?;
    }
    tx.commit().await?;
    Ok(remaining > 0)
}

/// A lease, and a resource that refuses fences smaller than the largest it has seen: for any store of locks.
async fn sell_by_fence(database: &mut Conn, locks: &Client) -> Result<bool> {
    loop {
        let guard = locks.mutex("stock:001").lock().await?;
        let fence = guard.fence().get();
        // From here on no older holder can write any more: what is read stays true.
        let newest = "UPDATE stock_example SET fence = ? WHERE fence < ?";
        database.exec_drop(newest, (fence, fence)).await?;
        if database.affected_rows() == 0 {
            continue;
        }
        let row = database.query_first("SELECT remaining FROM stock_example");
        let remaining: u32 = row.await?.ok_or("no stock")?;
        if remaining == 0 {
            return Ok(false);
        }
        // Here is time for what takes long: a payment, a call to another service.
        let write = "UPDATE stock_example SET remaining = ? WHERE fence = ?";
        database.exec_drop(write, (remaining - 1, fence)).await?;
        if database.affected_rows() == 1 {
            return Ok(true);
        }
    }
}

/// A lease, and the proof of it as the last statement: for locks in the same database.
async fn sell_by_proof(database: &mut Conn, locks: &Client) -> Result<bool> {
    loop {
        let guard = locks.mutex("stock:001").lock().await?;
        let mut tx = database.start_transaction(TxOpts::default()).await?;
        let row = tx.query_first("SELECT remaining FROM stock_example");
        let remaining: u32 = row.await?.ok_or("no stock")?;
        if remaining == 0 {
            tx.rollback().await?;
            return Ok(false);
        }
        let write = "UPDATE stock_example SET remaining = ?";
        tx.exec_drop(write, (remaining - 1,)).await?;
        match guard.hold_in(&mut tx).await {
            Ok(()) => tx.commit().await?,
            // Others may have had it: from the start.
            Err(Error::Lost { .. } | Error::Conflict { .. }) => {
                tx.rollback().await?;
                continue;
            }
            Err(other) => return Err(other.into()),
        }
        return Ok(true);
    }
}

/// Sells everything by four sellers at once, in each way; returns how many were sold.
pub(crate) async fn run(url: &str) -> Result<[u32; 4]> {
    let locks = tenure::open(url).await?;
    let mut sold = [0; 4];
    let mut database = connect(url).await?;
    for (way, sold) in sold.iter_mut().enumerate() {
        for statement in [
            "DROP TABLE IF EXISTS stock_example",
            "CREATE TABLE stock_example (remaining INT, version INT, fence BIGINT) ENGINE = InnoDB",
            "INSERT INTO stock_example VALUES (20, 0, 0)",
        ] {
            database.query_drop(statement).await?;
        }
        let seller = || sell_all(url, &locks, way);
        let (a, b, c, d) = tokio::try_join!(seller(), seller(), seller(), seller())?;
        *sold = a + b + c + d;
    }
    database.query_drop("DROP TABLE stock_example").await?;
    Ok(sold)
}

async fn sell_all(url: &str, locks: &Client, way: usize) -> Result<u32> {
    let mut database = connect(url).await?;
    let mut sold = 0;
    loop {
        let is_sold = match way {
            0 => sell_by_version(&mut database).await?,
            1 => sell_in_transaction(&mut database, locks).await?,
            2 => sell_by_fence(&mut database, locks).await?,
            _ => sell_by_proof(&mut database, locks).await?,
        };
        if !is_sold {
            return Ok(sold);
        }
        sold += 1;
    }
}

async fn connect(url: &str) -> Result<Conn> {
    let url = url.replacen("mariadb://", "mysql://", 1);
    Ok(Conn::new(Opts::from_url(&url)?).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1);
    let url = url.ok_or("give the URL of a database")?;
    let [version, transaction, fence, proof] = run(&url).await?;
    println!("20 in stock, 4 sellers");
    println!("by version     {version} sold");
    println!("in transaction {transaction} sold");
    println!("by fence       {fence} sold");
    println!("by proof       {proof} sold");
    Ok(())
}
