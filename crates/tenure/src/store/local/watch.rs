//! Notices the end of the processes that a waiting client depends on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::error::Result;
use crate::fork::{LeakedInChild, Origin};
use crate::name::Name;
use crate::store::ledger::Session;

use crate::store::local::presence::{self, Sight};
use crate::store::local::recall::{Names, Recalls};
use crate::store::local::state::State;
use crate::store::local::{fault, raw};
use crate::sync::Mutex;

/// How many processes one client watches.
///
/// A new watch replaces the oldest one, for which the ttl is the backstop.
const MOST: usize = 256;

/// The watches of one client; they end with it.
#[derive(Debug)]
pub(super) struct Watches {
    going: Mutex<VecDeque<Watch>>,
    recalls: Arc<Recalls>,
    origin: Origin,
}

/// One watched session, and the names for which the client waits behind it.
#[derive(Debug)]
struct Watch {
    session: Session,
    names: Arc<Names>,
    task: AbortHandle,
}

impl Watches {
    /// Makes an empty set of watches, which report to `recalls`.
    pub(super) fn new(recalls: &Arc<Recalls>) -> Self {
        Self {
            going: Mutex::default(),
            recalls: Arc::clone(recalls),
            origin: Origin::here(),
        }
    }

    /// Returns whether the end of this session will be noticed.
    pub(super) fn has(&self, session: Session) -> bool {
        let watches = self.going.lock();
        let mut same = watches.iter().filter(|watch| watch.session == session);
        same.any(|watch| !watch.task.is_finished())
    }

    /// Watches sessions that hold `name`, or are ahead of the client in its line.
    ///
    /// The caller is in a section, so that nobody removes such a session before the name is recorded.
    pub(super) fn add(&self, state: &Arc<State>, sessions: Vec<Session>, name: &Name) {
        let mut watches = self.going.lock();
        watches.retain(|watch| !watch.task.is_finished());
        for session in sessions {
            let mut same = watches.iter().filter(|watch| watch.session == session);
            if let Some(watch) = same.next() {
                watch.names.add(Some(name.clone()));
                continue;
            }
            if watches.len() == MOST
                && let Some(oldest) = watches.pop_front()
            {
                oldest.task.abort();
            }
            watches.push_back(self.watch(state, session, name));
        }
    }

    fn watch(&self, state: &Arc<State>, session: Session, name: &Name) -> Watch {
        let (state, recalls) = (Arc::clone(state), Arc::clone(&self.recalls));
        let names = Arc::new(Names::default());
        names.add(Some(name.clone()));
        let behind = Arc::clone(&names);
        let task = tokio::spawn(async move {
            match until_buried(&state, session).await {
                Ok(true) => recalls.call(&behind),
                Ok(false) => {}
                Err(error) => tracing::warn!(
                    %error, "cannot watch another client, its leases end by their ttl"
                ),
            }
        });
        let task = task.abort_handle();
        Watch {
            session,
            names,
            task,
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        // A forked child has no thread that could abort a task.
        if !self.origin.is_here() {
            return;
        }
        for watch in self.going.lock().drain(..) {
            watch.task.abort();
        }
    }
}

/// Waits until the process ends, then frees what the session held; returns whether it did.
///
/// If the process is not visible from here, or the files of the session are still open elsewhere, its
/// ttl is the backstop.
async fn until_buried(state: &State, session: Session) -> Result<bool> {
    let failed = |error| fault::io(state.folder.path(), &error);
    match presence::sight(&state.folder, session).map_err(failed)? {
        Sight::Dead => {}
        Sight::Hidden => return Ok(false),
        Sight::Process(process) => {
            let process = LeakedInChild::new(raw::readable(process).map_err(failed)?);
            process.readable().await.map_err(failed)?.retain_ready();
        }
    }
    // The kernel closes the files of a dead process before it reports its end, but a child that has
    // not yet executed its own program may keep them open for a moment.
    for pause_ms in [0, 1, 10, 100, 1_000] {
        if pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        if state.bury(vec![session]).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
