//! Locks of one machine, with no server.

use std::path::Path;

use crate::error::{Error, Result};
use crate::store::memory::Memory;

/// Stands in until the store is here.
#[derive(Debug)]
pub struct Local;

impl Local {
    /// Opens nothing.
    #[expect(clippy::unused_async, reason = "stands in")]
    pub async fn open(_folder: Option<&Path>) -> Result<Memory> {
        Err(Error::InvalidUrl {
            reason: "not here yet".into(),
        })
    }
}
