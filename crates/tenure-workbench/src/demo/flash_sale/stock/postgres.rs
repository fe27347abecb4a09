//! The stock in a PostgreSQL database.

use std::collections::HashMap;

use async_trait::async_trait;
use tenure::url::StoreUrl;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

use super::row::{Connection, Row};
use super::{Kind, Means};
use crate::sql::{self, postgres};

pub(super) const KIND: Kind = Kind {
    schemes: postgres::SCHEMES,
    server: |store| Ok(store.clone()),
    means: Means::Rows,
    open: |at| Box::pin(async move { Ok(Box::new(Row::<Postgres>::open(&at).await?) as _) }),
};

#[derive(Debug)]
struct Postgres {
    client: Client,
    prepared: HashMap<String, Statement>,
}

impl Postgres {
    /// Returns a prepared statement, and prepares it if needed.
    async fn prepared(&mut self, text: &str, numbers: usize) -> sql::Result<Statement> {
        if let Some(statement) = self.prepared.get(text) {
            return Ok(statement.clone());
        }
        let types = vec![Type::INT8; numbers];
        let statement = self.client.prepare_typed(&numbered(text), &types).await?;
        self.prepared.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

#[async_trait]
impl Connection for Postgres {
    async fn connect(url: &StoreUrl) -> sql::Result<Self> {
        Ok(Self {
            client: postgres::connect(url).await?,
            prepared: HashMap::new(),
        })
    }

    async fn run(&mut self, statement: &str, numbers: &[i64]) -> sql::Result<u64> {
        let statement = self.prepared(statement, numbers.len()).await?;
        let numbers: Vec<&(dyn ToSql + Sync)> = numbers.iter().map(|number| number as _).collect();
        Ok(self.client.execute(&statement, &numbers).await?)
    }

    async fn row(&mut self, query: &str) -> sql::Result<Vec<i64>> {
        let query = self.prepared(query, 0).await?;
        let row = self.client.query_one(&query, &[]).await?;
        let numbers = (0..row.len()).map(|place| row.try_get(place));
        Ok(numbers.collect::<Result<_, _>>()?)
    }

    async fn command(&mut self, command: &str) -> sql::Result<()> {
        Ok(self.client.batch_execute(command).await?)
    }
}

/// Replaces each `?` by `$1`, `$2` and so on.
fn numbered(text: &str) -> String {
    let mut parts = text.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1..).zip(parts) {
        numbered += &format!("${number}{part}");
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fences_versions_and_row_locks_decide_about_writes() {
        let url = tenure_testkit::shared::postgres().unwrap();
        super::super::row::tests::assert_decides::<Postgres>(&url).await;
    }

    #[test]
    fn parameters_are_numbered() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("COMMIT"), "COMMIT");
    }
}
