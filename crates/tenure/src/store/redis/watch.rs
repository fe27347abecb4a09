//! Compare-and-set with `WATCH`, `MULTI` and `EXEC`, for servers that run no scripts.

use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::Mutex;

use crate::error::Result;
use crate::store::redis::connect::Greeting;
use crate::store::redis::fault;
use crate::store::redis::link::Link;
use crate::store::redis::slots;
use crate::store::redis::url::{Servers, Settings};

/// Links that are each used for one change at a time, so that no other `EXEC` ends a `WATCH`.
///
/// A server drops a `WATCH` with its connection. So each change is made on one connection to one
/// server, and fails if that connection is lost: on another connection, `EXEC` would change
/// whatever is there.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// One link; in a cluster, whose connection reconnects by itself, one to each master in use.
    links: Mutex<Vec<(Servers, Link)>>,
}

impl Watch {
    /// Makes a change if the key has this value, and still has it when the change is made.
    ///
    /// The change was made if its last command returns 1.
    pub(crate) async fn change(
        &self,
        deployment: &Link,
        key: &str,
        value: &str,
        mut change: Pipeline,
    ) -> Result<bool> {
        let mut links = self.links.lock().await;
        let mut own = link_to(&mut links, deployment, key).await?.pinned().await?;
        let mut look = Pipeline::new();
        // This ends the WATCH of an earlier attempt that changed nothing.
        look.cmd("UNWATCH");
        look.cmd("WATCH").arg(key);
        look.cmd("GET").arg(key);
        let answers = own.send_all(&look, Duration::ZERO).await?;
        if !matches!(answers.last(), Some(Value::BulkString(found)) if found == value.as_bytes()) {
            return Ok(false);
        }
        change.atomic();
        // The reply is empty if the key has changed.
        let answers = own.send_all(&change, Duration::ZERO).await?;
        Ok(matches!(answers.last(), Some(Value::Int(1))))
    }
}

/// Returns the link to the server that has a key, and opens it if there is none.
async fn link_to<'a>(
    links: &'a mut Vec<(Servers, Link)>,
    deployment: &Link,
    key: &str,
) -> Result<&'a Link> {
    let settings = deployment.settings();
    let servers = match &settings.servers {
        Servers::Cluster(_) => {
            let ranges = slots::ranges(deployment).await?;
            let masters = ranges
                .iter()
                .map(|range| Servers::One(range.master.clone()));
            let masters: Vec<_> = masters.collect();
            links.retain(|(servers, _)| masters.contains(servers));
            let own = ranges.into_iter().find(|range| range.has(key));
            let own = own.ok_or_else(|| fault::unavailable("no node owns the slot of the key"))?;
            Servers::One(own.master)
        }
        servers => servers.clone(),
    };
    let index = match links.iter().position(|(known, _)| *known == servers) {
        Some(index) => index,
        None => {
            let settings = Settings {
                servers: servers.clone(),
                ..settings.clone()
            };
            let (link, _) = Link::open(settings, Greeting::Nothing).await?;
            links.push((servers, link));
            links.len() - 1
        }
    };
    Ok(&links[index].1)
}
