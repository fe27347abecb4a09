//! Deletes rows that nobody has used for long, a few at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::store::sql::database::{Connection, Database};
use crate::store::sql::fault::Outcome;
use crate::store::sql::pool::Pool;

/// Sweeps the table now and then, as long as the client uses it.
#[derive(Debug)]
pub(super) struct Sweeper {
    grants: AtomicU32,
    due: Arc<Notify>,
    task: AbortHandle,
}

impl Sweeper {
    /// Starts a sweeper of rows that were not used for so long.
    pub(super) fn start<D: Database>(pool: Arc<Pool<D>>, idle: Duration) -> Self {
        let due = Arc::new(Notify::new());
        let rung = Arc::clone(&due);
        let task = tokio::spawn(async move {
            let mut after = None;
            loop {
                rung.notified().await;
                match sweep(&pool, after.take(), idle).await {
                    Ok(next) => after = next,
                    // The next one begins anew.
                    Err(fault) => tracing::debug!(error = %fault.source, "no sweep this time"),
                }
            }
        });
        Self {
            grants: AtomicU32::new(0),
            due,
            task: task.abort_handle(),
        }
    }

    /// Counts a grant, each of which may leave a row behind.
    pub(super) fn count(&self) {
        let count = self.grants.fetch_add(1, Ordering::Relaxed);
        if count % SWEEP_EVERY == SWEEP_EVERY - 1 {
            self.due.notify_one();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn sweep<D: Database>(
    pool: &Pool<D>,
    after: Option<String>,
    idle: Duration,
) -> Outcome<Option<String>> {
    let mut lent = pool.lend().await?;
    let swept = timeout(
        pool.timeout(),
        lent.sweep(after.as_deref(), SWEEP_ROWS, idle),
    )
    .await;
    lent.ended(swept)
}

/// After how many grants the next rows are looked at: fewer than that, so that sweeps catch up.
const SWEEP_EVERY: u32 = 256;
const SWEEP_ROWS: u32 = 4 * SWEEP_EVERY;
