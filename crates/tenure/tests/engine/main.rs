//! The engine's rules, each with a test that fails if the rule is broken. Time is paused.

mod blocking;
mod cancel;
mod capabilities;
mod fairness;
mod keep;
mod lease;
mod news;
mod once;
mod outage;
mod owners;
mod passing;
mod reentry;
mod release;
mod unknown;
mod watchdog;

use std::sync::Arc;
use std::time::Duration;

use tenure::conformance::faults::FaultyDriver;
use tenure::driver::Driver;
use tenure::store::memory::Memory;
use tenure::{ClaimId, Client, Lock, Name};

/// One store with two clients: one with fault injection, and one that acts as another process.
struct World {
    fault: Arc<FaultyDriver>,
    here: Client,
    there: Client,
    store: Arc<Memory>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(Memory::new());
        let fault = Arc::new(FaultyDriver::around(Arc::new(store.another())));
        let here = Client::with_driver(fault.clone());
        let there = Client::with_driver(Arc::new(store.another()));
        Self {
            fault,
            here,
            there,
            store,
        }
    }

    /// Returns whether nobody holds or waits, according to the store.
    async fn is_empty(&self) -> bool {
        self.store.list(None).await.unwrap().is_empty()
    }

    /// Waits for background work to finish, and fails if anything is left in the store after that.
    async fn assert_nothing_left(&self, case: &str) {
        for _ in 0..1000 {
            if self.is_empty().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let left = self.store.list(None).await.unwrap();
        panic!("{case}: left in the store: {left:?}");
    }

    /// Waits until this many claims are in the store's line for a name.
    async fn until_waiting(&self, name: &str, count: usize) {
        let name: Name = name.parse().unwrap();
        for _ in 0..10_000 {
            let entries = self.store.list(Some(&name)).await.unwrap();
            if entries.first().map_or(0, |entry| entry.waiters.len()) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("never {count} in line for {name}");
    }

    /// Returns how many claims hold a name.
    async fn holders(&self, name: &str) -> usize {
        let name: Name = name.parse().unwrap();
        let entries = self.store.list(Some(&name)).await.unwrap();
        entries.first().map_or(0, |entry| entry.holders.len())
    }

    /// Returns the claim that holds a name.
    async fn claim(&self, name: &str) -> ClaimId {
        let name: Name = name.parse().unwrap();
        let entries = self.store.list(Some(&name)).await.unwrap();
        entries[0].holders[0].claim.clone()
    }
}

/// Locks and releases once; returns the fence.
async fn pair(lock: &Lock) -> u64 {
    let guard = lock.lock().await.unwrap();
    let fence = guard.fence().get();
    guard.release().await.unwrap();
    fence
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
