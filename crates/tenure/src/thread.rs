//! One thread of our own, for what must not depend on a runtime of the caller's.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

/// Returns the runtime of that thread, made by the first who needs it; `None` if none could be made.
///
/// A runtime's own threads refuse to block on another runtime; they do not mind to wait at a plain
/// channel for what runs here.
pub(crate) fn runtime() -> Option<Handle> {
    static RUNTIME: OnceLock<Option<Handle>> = OnceLock::new();
    let handle = RUNTIME.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("tenure".to_owned());
        thread
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .ok()?;
        Some(handle)
    });
    handle.clone()
}
