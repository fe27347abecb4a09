//! Notices the end of the processes that a waiting client depends on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::error::Result;
use crate::store::ledger::Session;
use crate::store::local::presence::{self, Sight};
use crate::store::local::state::State;
use crate::store::local::{fault, raw};

/// How many processes one client watches; the oldest watch makes room for a new one, and the
/// ttl stands in for it.
const MOST: usize = 256;

/// The watches of one client; they end with it.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<VecDeque<(Session, AbortHandle)>>);

impl Watches {
    /// Whether the end of this session will be noticed.
    pub(super) fn has(&self, session: Session) -> bool {
        let watches = self.lock();
        let mut same = watches.iter().filter(|(watched, _)| *watched == session);
        same.any(|(_, task)| !task.is_finished())
    }

    /// Watches sessions that hold what the client waits for, or stand before it in line.
    pub(super) fn add(&self, state: &Arc<State>, sessions: Vec<Session>) {
        let mut watches = self.lock();
        watches.retain(|(_, task)| !task.is_finished());
        for session in sessions {
            if watches.iter().any(|(watched, _)| *watched == session) {
                continue;
            }
            if watches.len() == MOST
                && let Some((_, oldest)) = watches.pop_front()
            {
                oldest.abort();
            }
            let task = tokio::spawn(watch(Arc::clone(state), session));
            watches.push_back((session, task.abort_handle()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Session, AbortHandle)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for (_, task) in self.lock().drain(..) {
            task.abort();
        }
    }
}

async fn watch(state: Arc<State>, session: Session) {
    if let Err(error) = until_buried(&state, session).await {
        tracing::warn!(%error, "cannot watch another client, its leases end by their ttl");
    }
}

/// Waits for the process's end, then frees what the session held.
async fn until_buried(state: &State, session: Session) -> Result<()> {
    let failed = |error| fault::io(state.folder.path(), &error);
    match presence::sight(&state.folder, session).map_err(failed)? {
        Sight::Dead => {}
        Sight::Hidden => return Ok(()),
        Sight::Process(process) => {
            let process = raw::readable(process).map_err(failed)?;
            process.readable().await.map_err(failed)?.retain_ready();
        }
    }
    // The kernel closes a dead process's files before it tells; a child that has not yet run
    // its own program may keep them open for a moment.
    for pause_ms in [0, 1, 10, 100, 1_000] {
        if pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        if state.bury(vec![session]).await? > 0 {
            return Ok(());
        }
    }
    Ok(())
}
