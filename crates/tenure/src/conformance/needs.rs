//! Features that a rule needs and a store may lack.

use std::sync::Arc;

use super::Fixture;
use super::party::{TTL, fresh_name};
use crate::driver::{Capabilities, Driver, Fairness};
use crate::error::Error;
use crate::name::Owner;

/// A feature that a rule needs and a store may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    ByHand,
    Calls,
    FirstCome,
    Permits,
    Shared,
    SharedOwners,
    StaysTaken,
}

impl Need {
    fn is_met(self, can: &Capabilities) -> bool {
        match self {
            Self::ByHand => can.by_hand,
            Self::Calls => can.calls,
            Self::FirstCome => can.fairness == Fairness::FirstCome,
            Self::Permits => can.permits,
            Self::Shared => can.shared,
            Self::SharedOwners => can.shared_owners,
            Self::StaysTaken => can.stays_taken,
        }
    }

    /// Fails unless the engine refuses what the store lacks.
    async fn is_refused(self, driver: Arc<dyn Driver>) {
        let (locks, name) = (crate::Client::with_driver(driver), fresh_name());
        let mutex = locks.mutex(name.as_str());
        let refused = match self {
            // An order that is not guaranteed cannot be asked for.
            Self::FirstCome => return,
            Self::ByHand => mutex.try_lease().await.map(drop),
            Self::Calls => mutex.keep(TTL).try_lock().await.map(drop),
            Self::Permits => {
                let semaphore = locks.semaphore(name.as_str(), 2);
                semaphore.take(1).try_lock().await.map(drop)
            }
            Self::Shared => {
                let read = locks.rwlock(name.as_str()).read();
                read.try_lock().await.map(drop)
            }
            Self::SharedOwners => mutex.owner(Owner::unique()).try_lock().await.map(drop),
            Self::StaysTaken => mutex.at_least(TTL).try_lock().await.map(drop),
        };
        assert!(
            matches!(refused, Err(Error::Unsupported { .. })),
            "the store lacks {self:?}, and the engine does not refuse it: {refused:?}"
        );
    }
}

/// Returns whether the store lacks a feature that a rule needs; the engine must then refuse it.
pub(crate) async fn lacks(fixture: &dyn Fixture, needs: &[Need]) -> bool {
    let driver = fixture.client().await;
    let can = driver.capabilities();
    let missing = needs.iter().filter(|need| !need.is_met(&can));
    let mut lacks = false;
    for need in missing {
        need.is_refused(Arc::clone(&driver)).await;
        lacks = true;
    }
    lacks
}

/// Returns whether a lease ends with its client; if not, it lasts for its ttl.
pub(crate) async fn sees_clients_end(fixture: &dyn Fixture) -> bool {
    fixture.client().await.capabilities().sees_clients_end
}

/// Returns whether holders are told at once that they were evicted.
pub(crate) async fn tells_evictions(fixture: &dyn Fixture) -> bool {
    fixture.client().await.capabilities().tells_evictions
}
