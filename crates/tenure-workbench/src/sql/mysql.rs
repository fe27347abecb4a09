//! Connections to MySQL and MariaDB.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row, Value};
use tenure::Name;
use tenure::url::StoreUrl;

use super::{Result, table};

pub(crate) const SCHEMES: &[&str] = &["mysql", "mariadb"];

/// Connects to the database of a store, over TCP without TLS unless its URL names a socket.
pub(crate) async fn connect(url: &StoreUrl) -> Result<Conn> {
    let server = url.servers.first().ok_or("the URL names no server")?;
    let options = OptsBuilder::default()
        .ip_or_hostname(server.name.clone())
        .tcp_port(server.port)
        .user(url.user.clone())
        .pass(url.password.clone())
        .db_name(Some(url.path.trim_end_matches('/')))
        .socket(url.option("socket"))
        // Otherwise the client asks a local server for its socket first.
        .prefer_socket(false)
        .tcp_nodelay(true)
        .stmt_cache_size(64)
        .setup(vec![
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET SESSION autocommit = 1",
        ]);
    Ok(Conn::new(options).await?)
}

/// Returns what is left over of some names: every non-empty column of a holder or a waiter.
pub(crate) async fn left_over(url: &StoreUrl, names: &[Name]) -> Result<Vec<String>> {
    let mut connection = connect(url).await?;
    let mut found = Vec::new();
    for name in names {
        let select = format!(
            "SELECT claim, owner, client, next, more FROM {} WHERE name = ?",
            table(url)
        );
        let row: Option<Row> = connection.exec_first(select, (name.as_str(),)).await?;
        for (column, value) in row.into_iter().flat_map(named_values) {
            found.push(format!("{name}: the column {column} is {value:?}"));
        }
    }
    connection.disconnect().await?;
    Ok(found)
}

/// Returns the columns of a row that are not NULL.
fn named_values(row: Row) -> impl Iterator<Item = (String, Value)> {
    let columns = row.columns();
    let names = columns.iter().map(|column| column.name_str().into_owned());
    let named: Vec<_> = names.zip(row.unwrap()).collect();
    named.into_iter().filter(|(_, value)| *value != Value::NULL)
}
