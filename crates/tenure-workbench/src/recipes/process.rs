//! A lock inside one process, which other processes do not see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use tenure_checker::Freed;
use tokio::sync::Mutex;

use crate::recipes::{Held, Keeper, Recipe, Trouble};

#[derive(Debug, Default)]
pub(super) struct Process {
    locks: StdMutex<HashMap<String, Arc<Mutex<()>>>>,
}

#[async_trait]
impl Recipe for Process {
    async fn lock(&self, name: &str) -> Result<Held, Trouble> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.entry(name.to_owned()).or_default().clone()
        };
        let _guard = lock.lock_owned().await;
        Ok(Held::new(name, String::new()).kept_by(Keeper::Mutex { _guard }))
    }

    async fn unlock(&self, held: Held) -> Result<Freed, Trouble> {
        drop(held);
        Ok(Freed::Freed)
    }
}
