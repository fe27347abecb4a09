//! The dialect of PostgreSQL.

use async_trait::async_trait;
use tenure::url::StoreUrl;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use super::{Connection, UPDATES, tag_of};
use crate::bench::stores::prelude::*;
use crate::sql;

#[derive(Debug)]
pub(super) struct Postgres {
    client: Client,
    lock: Statement,
    unlock: Statement,
    /// Prepared for the first table that is updated; there is only one.
    update: Option<Statement>,
}

#[async_trait]
impl Connection for Postgres {
    const ROWS: &'static [Row] = &ROWS;

    async fn connect(url: &StoreUrl) -> sql::Result<Self> {
        let client = sql::postgres::connect(url).await?;
        let name = format!("SET application_name = '{}'", tag_of(std::process::id()));
        client.batch_execute(&name).await?;
        let lock = client.prepare("SELECT pg_advisory_lock(hashtextextended($1, 0))");
        let unlock = client.prepare("SELECT pg_advisory_unlock(hashtextextended($1, 0))");
        Ok(Self {
            lock: lock.await?,
            unlock: unlock.await?,
            client,
            update: None,
        })
    }

    async fn make_rows(&mut self, table: &str, names: &[String]) -> sql::Result<()> {
        // Half of each page stays free, as in the table of the locks, so that an updated row stays
        // on its page.
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {table} (name text COLLATE \"C\" PRIMARY KEY, holder bigint, version bigint NOT NULL) \
             WITH (fillfactor = 50)"
        );
        self.client.batch_execute(&create).await?;
        let insert = format!(
            "INSERT INTO {table} SELECT name, NULL, 0 FROM unnest($1::text[]) AS name ON CONFLICT DO NOTHING"
        );
        self.client.execute(&insert, &[&names]).await?;
        Ok(())
    }

    async fn drop_table(&mut self, table: &str) -> sql::Result<()> {
        let drop = format!("DROP TABLE IF EXISTS {table}");
        Ok(self.client.batch_execute(&drop).await?)
    }

    async fn update(&mut self, table: &str, name: &str, holder: Option<u32>) -> sql::Result<u64> {
        let update = match &self.update {
            Some(update) => update.clone(),
            None => {
                let text = format!(
                    "UPDATE {table} SET version = version + 1, holder = $1 WHERE name = $2"
                );
                let types = [Type::INT8, Type::TEXT];
                let update = self.client.prepare_typed(&text, &types).await?;
                self.update.insert(update).clone()
            }
        };
        let holder = holder.map(i64::from);
        Ok(self.client.execute(&update, &[&holder, &name]).await?)
    }

    async fn lock(&mut self, name: &str) -> sql::Result<()> {
        self.client.query_one(&self.lock, &[&name]).await?;
        Ok(())
    }

    async fn unlock(&mut self, name: &str) -> sql::Result<()> {
        let released = self.client.query_one(&self.unlock, &[&name]).await?;
        match released.try_get(0)? {
            true => Ok(()),
            false => Err("pg_advisory_unlock found no lock".into()),
        }
    }

    async fn is_blocked(&mut self, process: u32) -> sql::Result<bool> {
        let select = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                      WHERE application_name = $1 AND wait_event_type = 'Lock' AND wait_event = 'advisory')";
        let waiting = self.client.query_one(select, &[&tag_of(process)]).await?;
        Ok(waiting.try_get(0)?)
    }
}

pub(super) const ADVISORY: &str = "pg_advisory_lock (no lease, no fence, a connection each)";

#[rustfmt::skip] // A table: one row of the report in each line.
const ROWS: [Row; 13] = [
    row(Pair, "per_second", "lock + release", PerSecond, Some(UPDATES), RatioAtLeast(0.8)),
    row(Pair, "per_second", "lock + release", PerSecond, Some(ADVISORY), Aim::None),
    row(Pair, "p50_us", "p50", Micros, Some(UPDATES), Aim::None),
    row(Pair, "p99_us", "p99", Micros, Some(UPDATES), Aim::None),
    row(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(UPDATES), RatioAtLeast(0.8)),
    row(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(ADVISORY), Aim::None),
    // A handover takes three updates, the floor two.
    row(Handover, "p50_us", "release to grant, p50", Micros, Some(UPDATES), RatioAtMost(1.5)),
    row(Handover, "p50_us", "release to grant, p50", Micros, Some(ADVISORY), Aim::None),
    row(Handover, "p99_us", "release to grant, p99", Micros, Some(ADVISORY), Aim::None),
    row(Hot, "per_second", "64 tasks, one name", PerSecond, Some(UPDATES), Aim::None),
    row(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond, Some(ADVISORY), Aim::None),
    row(Crowd, "fairness", "Jain's index", Number, Some(ADVISORY), AtLeast(0.99)),
    row(Crowd, "longest_wait_turns", "longest wait, in turns", Number, Some(ADVISORY), Aim::None),
];
