//! One thread for work that must not depend on the caller's runtime.

use tokio::runtime::{Builder, Handle};

use crate::fork::Origin;
use crate::sync::Mutex;

/// Returns the runtime of that thread, started on first use; `None` if it cannot be started.
///
/// The threads of a runtime must not block on another runtime, but they can wait on a plain channel for
/// work that runs here.
pub(crate) fn runtime() -> Option<Handle> {
    /// Stored with the process that has the thread: a forked child has no such thread.
    static RUNTIME: Mutex<Option<(Origin, Handle)>> = Mutex::new(None);
    let here = Origin::here();
    let mut known = RUNTIME.lock();
    if let Some((origin, handle)) = &*known
        && *origin == here
    {
        return Some(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name("tenure".to_owned());
    thread
        .spawn(move || runtime.block_on(std::future::pending::<()>()))
        .ok()?;
    *known = Some((here, handle.clone()));
    Some(handle)
}
