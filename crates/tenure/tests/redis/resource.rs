//! A resource outside the lock, and clients that compete for it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tenure::Client;
use tokio::task::JoinSet;

use crate::{LONG, PATIENCE, chain};

/// A counter that refuses fences smaller than the largest it has seen.
#[derive(Debug, Default)]
pub(crate) struct Resource(Mutex<State>);

#[derive(Debug, Clone, Copy, Default)]
struct State {
    largest: u64,
    value: u64,
    refused: u64,
}

impl Resource {
    /// Reads the value, which counts as a use of the fence; returns `None` if the fence is too
    /// small.
    pub(crate) fn read(&self, fence: u64) -> Option<u64> {
        let mut state = self.0.lock().unwrap();
        if fence < state.largest {
            state.refused += 1;
            return None;
        }
        state.largest = fence;
        Some(state.value)
    }

    /// Writes `base` plus one; returns whether the fence was large enough.
    pub(crate) fn write(&self, fence: u64, base: u64) -> bool {
        let accepted = self.read(fence).is_some();
        if accepted {
            self.0.lock().unwrap().value = base + 1;
        }
        accepted
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.lock().unwrap().value
    }

    pub(crate) fn largest(&self) -> u64 {
        self.0.lock().unwrap().largest
    }

    fn refused(&self) -> u64 {
        self.0.lock().unwrap().refused
    }
}

/// Lets each client increment this many times, one request after the other, and checks the sum.
///
/// A fault that the store reports is not a grant, and the client asks again as a program would.
/// Here leases end only by their release, so no two may overlap: the fence of each grant is larger
/// than all before it, and no update is lost.
pub(crate) async fn fight(name: &str, clients: Vec<Client>, rounds: u64) -> u64 {
    let resource = Arc::new(Resource::default());
    let expected = u64::try_from(clients.len()).unwrap() * rounds;
    let mut tasks = JoinSet::new();
    for client in clients {
        let (resource, name) = (Arc::clone(&resource), name.to_owned());
        tasks.spawn(async move { count_up(&client, &name, &resource, rounds).await });
    }
    let faults = tasks.join_all().await.iter().sum();
    assert_eq!(resource.value(), expected, "no update is lost");
    assert_eq!(resource.refused(), 0, "nobody outlived its lease");
    faults
}

async fn count_up(client: &Client, name: &str, resource: &Resource, rounds: u64) -> u64 {
    let (mut faults, begun) = (0, Instant::now());
    let lock = client.mutex(name).ttl(LONG);
    for _ in 0..rounds {
        let guard = loop {
            match lock.lock().await {
                Ok(guard) => break guard,
                Err(error) => {
                    faults += 1;
                    let waited = begun.elapsed();
                    assert!(waited < 3 * PATIENCE, "{} after {waited:?}", chain(&error));
                }
            }
        };
        let fence = guard.fence().get();
        assert!(fence > resource.largest(), "fences grow");
        let base = resource.read(fence).expect("the fence is the largest");
        tokio::task::yield_now().await;
        assert!(resource.write(fence, base), "nobody came between");
        // A release whose reply is lost continues in the background.
        faults += u64::from(guard.release().await.is_err());
    }
    faults
}
