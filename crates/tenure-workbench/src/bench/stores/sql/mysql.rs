//! The dialect of MySQL and MariaDB.

use async_trait::async_trait;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tenure::url::StoreUrl;

use super::{Connection, UPDATES, tag_of};
use crate::bench::stores::prelude::*;
use crate::sql;

#[derive(Debug)]
pub(super) struct Mysql(Conn);

#[async_trait]
impl Connection for Mysql {
    const ROWS: &'static [Row] = &ROWS;

    async fn connect(url: &StoreUrl) -> sql::Result<Self> {
        Ok(Self(sql::mysql::connect(url).await?))
    }

    async fn make_rows(&mut self, table: &str, names: &[String]) -> sql::Result<()> {
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, \
             holder INT UNSIGNED NULL, version BIGINT NOT NULL) ENGINE = InnoDB"
        );
        self.0.query_drop(create).await?;
        let insert = format!("INSERT IGNORE INTO {table} VALUES (?, NULL, 0)");
        let rows = names.iter().map(|name| (name.as_str(),));
        Ok(self.0.exec_batch(insert, rows).await?)
    }

    async fn drop_table(&mut self, table: &str) -> sql::Result<()> {
        let drop = format!("DROP TABLE IF EXISTS {table}");
        Ok(self.0.query_drop(drop).await?)
    }

    async fn update(&mut self, table: &str, name: &str, holder: Option<u32>) -> sql::Result<u64> {
        // Prepared once per connection.
        let update = format!("UPDATE {table} SET version = version + 1, holder = ? WHERE name = ?");
        self.0.exec_drop(update, (holder, name)).await?;
        Ok(self.0.affected_rows())
    }

    async fn lock(&mut self, name: &str) -> sql::Result<()> {
        // The server's list of sessions shows the comment, and therefore who waits.
        let lock = format!(
            "SELECT GET_LOCK(?, 60) /* {} */",
            tag_of(std::process::id())
        );
        match self.0.exec_first(lock, (name,)).await? {
            Some(Some(1_i64)) => Ok(()),
            Some(_) | None => Err("GET_LOCK did not get the lock".into()),
        }
    }

    async fn unlock(&mut self, name: &str) -> sql::Result<()> {
        match self.0.exec_first("SELECT RELEASE_LOCK(?)", (name,)).await? {
            Some(Some(1_i64)) => Ok(()),
            Some(_) | None => Err("RELEASE_LOCK found no lock".into()),
        }
    }

    async fn is_blocked(&mut self, process: u32) -> sql::Result<bool> {
        let select = "SELECT COUNT(*) FROM information_schema.processlist \
                      WHERE state = 'User lock' AND info LIKE CONCAT('%', ?)";
        let waiting = format!("{} */", tag_of(process));
        let waiting: Option<u64> = self.0.exec_first(select, (waiting,)).await?;
        Ok(waiting.is_some_and(|count| count > 0))
    }
}

pub(super) const GET_LOCK: &str = "GET_LOCK (no lease, no fence, a connection each)";

#[rustfmt::skip] // A table: one row of the report in each line.
const ROWS: [Row; 12] = [
    row(Pair, "per_second", "lock + release", PerSecond, Some(UPDATES), RatioAtLeast(0.8)),
    row(Pair, "per_second", "lock + release", PerSecond, Some(GET_LOCK), Aim::None),
    row(Pair, "p50_us", "p50", Micros, Some(UPDATES), Aim::None),
    row(Pair, "p99_us", "p99", Micros, Some(UPDATES), Aim::None),
    row(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(UPDATES), RatioAtLeast(0.8)),
    row(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(GET_LOCK), Aim::None),
    row(Handover, "p50_us", "release to grant, p50", Micros, Some(GET_LOCK), AtMost(2000.0)),
    row(Handover, "p99_us", "release to grant, p99", Micros, Some(GET_LOCK), Aim::None),
    row(Hot, "per_second", "64 tasks, one name", PerSecond, Some(UPDATES), Aim::None),
    row(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond, Some(GET_LOCK), Aim::None),
    row(Crowd, "fairness", "Jain's index", Number, Some(GET_LOCK), AtLeast(0.99)),
    row(Crowd, "longest_wait_turns", "longest wait, in turns", Number, Some(GET_LOCK), Aim::None),
];
