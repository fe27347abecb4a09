//! Four ways to sell from a table of PostgreSQL without selling an item twice.
//!
//! `cargo run -p tenure --example stock_postgres -- postgres://user:password@localhost/database`
//!
//! It makes a table `stock_example` there, and deletes it at the end. `docs/databases.md` says when to use which.

use std::time::Duration;

use tenure::{Client, Error};
use tokio_postgres::NoTls;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Optimistic: no lock. The write says which version it is for, and is repeated if another one came first.
async fn sell_by_version(database: &tokio_postgres::Client) -> Result<bool> {
    let mut backoff = Duration::from_millis(1);
    loop {
        let row = database
            .query_one("SELECT remaining, version FROM stock_example", &[])
            .await?;
        let (remaining, version): (i32, i32) = (row.get(0), row.get(1));
        if remaining == 0 {
            return Ok(false);
        }
        let write =
            "UPDATE stock_example SET remaining = $1, version = version + 1 WHERE version = $2";
        let written = database
            .execute(write, &[&(remaining - 1), &version])
            .await?;
        if written == 1 {
            return Ok(true);
        }
        // At random, so that those who met do not meet again.
        tokio::time::sleep(backoff.mul_f64(fastrand::f64())).await;
        backoff = (backoff * 2).min(Duration::from_millis(100));
    }
}

/// Pessimistic: a lock that begins and ends with the transaction.
async fn sell_in_transaction(
    database: &mut tokio_postgres::Client,
    locks: &Client,
) -> Result<bool> {
    let mut tx = database.transaction().await?;
    locks.row("stock:001").lock_in(&mut tx).await?;
    let row = tx
        .query_one("SELECT remaining FROM stock_example", &[])
        .await?;
    let remaining: i32 = row.get(0);
    if remaining > 0 {
        let write = "UPDATE stock_example SET remaining = $1";
        tx.execute(write, &[&(remaining - 1)]).await?;
    }
    tx.commit().await?;
    Ok(remaining > 0)
}

/// A lease, and a resource that refuses fences smaller than the largest it has seen: for any store of locks.
async fn sell_by_fence(database: &tokio_postgres::Client, locks: &Client) -> Result<bool> {
    loop {
        let guard = locks.mutex("stock:001").lock().await?;
        let fence = i64::try_from(guard.fence().get())?;
        // From here on no older holder can write any more: what is read stays true.
        let read = "UPDATE stock_example SET fence = $1 WHERE fence <= $1 RETURNING remaining";
        let Some(row) = database.query_opt(read, &[&fence]).await? else {
            continue;
        };
        let remaining: i32 = row.get(0);
        if remaining == 0 {
            return Ok(false);
        }
        // Here is time for what takes long: a payment, a call to another service.
        let write = "UPDATE stock_example SET remaining = $1 WHERE fence = $2";
        let written = database.execute(write, &[&(remaining - 1), &fence]).await?;
        if written == 1 {
            return Ok(true);
        }
    }
}

/// A lease, and the proof of it as the last statement: for locks in the same database.
async fn sell_by_proof(database: &mut tokio_postgres::Client, locks: &Client) -> Result<bool> {
    loop {
        let guard = locks.mutex("stock:001").lock().await?;
        let mut tx = database.transaction().await?;
        let row = tx
            .query_one("SELECT remaining FROM stock_example", &[])
            .await?;
        let remaining: i32 = row.get(0);
        if remaining == 0 {
            return Ok(false);
        }
        let write = "UPDATE stock_example SET remaining = $1";
        tx.execute(write, &[&(remaining - 1)]).await?;
        match guard.hold_in(&mut tx).await {
            Ok(()) => tx.commit().await?,
            // Others may have had it: from the start.
            Err(Error::Lost { .. } | Error::Conflict { .. }) => continue,
            Err(other) => return Err(other.into()),
        }
        return Ok(true);
    }
}

/// Sells everything by four sellers at once, in each way; returns how many were sold.
pub(crate) async fn run(url: &str) -> Result<[u32; 4]> {
    let locks = tenure::open(url).await?;
    let mut sold = [0; 4];
    for (way, sold) in sold.iter_mut().enumerate() {
        connect(url)
            .await?
            .batch_execute(
                "DROP TABLE IF EXISTS stock_example;
                 CREATE TABLE stock_example (remaining INTEGER, version INTEGER, fence BIGINT);
                 INSERT INTO stock_example VALUES (20, 0, 0)",
            )
            .await?;
        let seller = || sell_all(url, &locks, way);
        let (a, b, c, d) = tokio::try_join!(seller(), seller(), seller(), seller())?;
        *sold = a + b + c + d;
    }
    let database = connect(url).await?;
    database.batch_execute("DROP TABLE stock_example").await?;
    Ok(sold)
}

async fn sell_all(url: &str, locks: &Client, way: usize) -> Result<u32> {
    let mut database = connect(url).await?;
    let mut sold = 0;
    loop {
        let is_sold = match way {
            0 => sell_by_version(&database).await?,
            1 => sell_in_transaction(&mut database, locks).await?,
            2 => sell_by_fence(&database, locks).await?,
            _ => sell_by_proof(&mut database, locks).await?,
        };
        if !is_sold {
            return Ok(sold);
        }
        sold += 1;
    }
}

async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
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
