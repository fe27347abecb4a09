//! Connections to PostgreSQL.

use std::path::Path;

use tenure::Name;
use tenure::url::StoreUrl;
use tokio_postgres::{Client, Config, NoTls};

use super::{Result, table};

pub(crate) const SCHEMES: &[&str] = &["postgres", "postgresql"];

/// Connects to the database of a store, over TCP without TLS unless its URL names a socket.
///
/// The connection ends with the client.
pub(crate) async fn connect(url: &StoreUrl) -> Result<Client> {
    let server = url.servers.first().ok_or("the URL names no server")?;
    let mut config = Config::new();
    config
        .user(url.user.as_deref().unwrap_or("postgres"))
        .dbname(url.path.trim_end_matches('/'))
        .application_name("tenure-workbench")
        .port(server.port);
    match url.option("socket").map(Path::new).and_then(Path::parent) {
        Some(folder) => config.host_path(folder),
        None => config.host(&server.name),
    };
    if let Some(password) = &url.password {
        config.password(password);
    }
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let setup = "SET default_transaction_isolation = 'read committed'";
    client.batch_execute(setup).await?;
    Ok(client)
}

/// Returns what is left over of some names: every non-empty column of a holder or a waiter.
pub(crate) async fn left_over(url: &StoreUrl, names: &[Name]) -> Result<Vec<String>> {
    let client = connect(url).await?;
    let mut found = Vec::new();
    for name in names {
        let select = format!(
            "SELECT claim, owner, client, next, more FROM {} WHERE name = $1",
            table(url)
        );
        for row in client.query(&select, &[&name.as_str()]).await? {
            for (place, column) in row.columns().iter().enumerate() {
                if let Some(value) = row.try_get::<_, Option<String>>(place)? {
                    found.push(format!("{name}: the column {} is {value:?}", column.name()));
                }
            }
        }
    }
    Ok(found)
}
