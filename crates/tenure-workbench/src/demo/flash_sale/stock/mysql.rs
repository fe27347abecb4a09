//! The stock in a MySQL or MariaDB database.

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row as MysqlRow, Value};
use tenure::url::StoreUrl;

use super::row::{Connection, Row};
use super::{Kind, Means};
use crate::sql::{self, mysql};

pub(super) const KIND: Kind = Kind {
    schemes: mysql::SCHEMES,
    server: |store| Ok(store.clone()),
    means: Means::Rows,
    open: |at| Box::pin(async move { Ok(Box::new(Row::<Mysql>::open(&at).await?) as _) }),
};

#[derive(Debug)]
struct Mysql(Conn);

#[async_trait]
impl Connection for Mysql {
    async fn connect(url: &StoreUrl) -> sql::Result<Self> {
        Ok(Self(mysql::connect(url).await?))
    }

    async fn run(&mut self, statement: &str, numbers: &[i64]) -> sql::Result<u64> {
        let values = numbers.iter().map(|number| Value::from(*number));
        let values = match numbers {
            [] => Params::Empty,
            _ => Params::Positional(values.collect()),
        };
        self.0.exec_drop(statement, values).await?;
        Ok(self.0.affected_rows())
    }

    async fn row(&mut self, query: &str) -> sql::Result<Vec<i64>> {
        let row: Option<MysqlRow> = self.0.exec_first(query, ()).await?;
        let row = row.ok_or("the stock has no row")?;
        let numbers = (0..row.len()).map(|place| row.get(place).ok_or("no number"));
        Ok(numbers.collect::<Result<_, _>>()?)
    }

    async fn command(&mut self, command: &str) -> sql::Result<()> {
        Ok(self.0.query_drop(command).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fences_versions_and_row_locks_decide_about_writes() {
        let url = tenure_testkit::shared::mariadb().unwrap();
        super::super::row::tests::assert_decides::<Mysql>(&url).await;
    }
}
