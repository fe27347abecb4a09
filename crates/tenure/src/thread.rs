//! One thread of our own, for what must not depend on a runtime of the caller's.

use tokio::runtime::{Builder, Handle};

use crate::fork::Origin;
use crate::sync::Mutex;

/// Returns the runtime of that thread, made by the first who needs it; `None` if none can be made.
///
/// A runtime's own threads refuse to block on another runtime; they do not mind to wait at a plain
/// channel for what runs here.
pub(crate) fn runtime() -> Option<Handle> {
    /// With the process that has the thread: a forked child has none.
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
