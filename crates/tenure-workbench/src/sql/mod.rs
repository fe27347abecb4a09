//! Separate connections to the database of a store, besides those of tenure.

use std::thread;

use tenure::url::StoreUrl;
use tokio::runtime::Runtime;

pub(crate) mod mysql;
pub(crate) mod postgres;

/// The error of either client library.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Returns the table of the locks, as written in statements.
pub(crate) fn table(url: &StoreUrl) -> String {
    let prefix = url.option("prefix").unwrap_or("tenure_");
    match url.option("schema") {
        Some(schema) => format!("{schema}.{prefix}lock"),
        None => format!("{prefix}lock"),
    }
}

/// Waits for a future on a separate thread, which also works inside a runtime that must not block.
pub(crate) fn wait_for<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    Waiter::new()?.wait_for(future)
}

/// Waits for one future after another. They may share connections that one of them has opened.
#[derive(Debug)]
pub(crate) struct Waiter(Option<Runtime>);

impl Waiter {
    pub(crate) fn new() -> Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Ok(Self(Some(runtime.enable_all().build()?)))
    }

    pub(crate) fn wait_for<T: Send>(
        &self,
        future: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let Some(runtime) = &self.0 else {
            return Err("it has ended".into());
        };
        let waited = thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join());
        waited.unwrap_or_else(|_| Err("it panicked".into()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Dropping a runtime waits for it, which is not allowed inside another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
