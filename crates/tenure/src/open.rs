//! Opens a client from a URL.

use crate::client::Client;
use crate::error::Result;
use crate::schemes::Scheme;

/// Opens the store that a URL names.
///
/// | URL | store |
/// |---|---|
/// | `local:` | a directory of this machine, under the user's state directory; no server |
/// | `local:/some/directory` | a directory of your choice |
/// | `memory:` | a store for this client only, for tests |
/// | `memory:label` | a store that clients of this process share |
/// | `redis://host:6379/` | a Redis or Valkey server; `rediss://` with TLS, `unix:/path` by socket |
/// | `redis+sentinel://host1,host2/master` | the master that sentinels name |
/// | `redis+cluster://host1,host2` | a Redis Cluster |
/// | `redlock://host1,host2,host3` | a majority of independent Redis servers; `redlocks://` with TLS |
/// | `mysql://user:password@host:3306/database` | a table in MySQL or MariaDB; `mariadb://` is the same |
/// | `postgres://user:password@host:5432/database` | a table in PostgreSQL |
/// | `zookeeper://host1,host2,host3/node` | nodes of a ZooKeeper ensemble; `zookeepers://` with TLS |
///
/// The page of each store under `docs/stores` describes its options; [`schemes`](crate::schemes()) has
/// this table for programs.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for a URL that names no store, or a store that was not
/// compiled in; what the store reports.
///
/// # Panics
///
/// Outside a Tokio runtime.
///
/// # Cancel safety
///
/// Cancel safe: a dropped call leaves nothing that another call would find.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tenure::Result<()> {
/// let locks = tenure::open("memory:").await?;
/// let guard = locks.mutex("inventory:001").lock().await?;
/// println!("fence {}", guard.fence());
/// # Ok(())
/// # }
/// ```
pub async fn open(url: &str) -> Result<Client> {
    let store = Scheme::store(url)?;
    Ok(Client::with_driver((store.open)(url).await?))
}
