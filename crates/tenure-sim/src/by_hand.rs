//! The steps that hold a lock without a guard: leases by hand, and results that are computed once.

use std::sync::Arc;
use std::time::Duration;

use tenure::driver::TimeSource;
use tenure::{Client, Lease, LeaseRenewal, Seen};
use tenure_checker::What;

use crate::beliefs::Evidence;
use crate::plan::{ByHand, How, LockSpec};
use crate::workload::{Task, millis};

impl Task {
    /// Takes a lease by hand, renews it as planned, and releases it or lets it expire.
    ///
    /// A lease by hand does not report when it was granted. If it had to wait, it is believed only
    /// after its first renewal, counted from before that was sent.
    pub(crate) async fn by_hand(&self, by_hand: &ByHand) {
        let (Some(lock), Some(client)) = (self.lock(&by_hand.lock), self.process.client()) else {
            return;
        };
        let process = self.process.link.process;
        let waits = !matches!(by_hand.how, How::Try);
        let (claim, owner) = self.ask(&by_hand.lock, waits);
        self.line(|| format!("asks for a lease by hand (claim {claim}, owner {owner})"));
        let mut sent = self.process.link.clock.now();
        let answer = match by_hand.how {
            How::Lock => lock.lease().await.map(Some),
            How::Try => lock.try_lease().await,
            How::Timeout(ms) | How::Retry { timeout_ms: ms, .. } => {
                lock.lease_timeout(millis(ms)).await.map(Some)
            }
        };
        let lease = match answer {
            Ok(Some(lease)) => lease,
            Ok(None) => return self.world.answered(process, claim, What::Refused { claim }),
            Err(error) => return self.failed(claim, &error),
        };
        if waits {
            sent = self.process.link.clock.now();
            if !matches!(client.renew(&lease).await, Ok(LeaseRenewal::Renewed(_))) {
                // It is left to expire, and was never believed.
                return self
                    .world
                    .answered(process, claim, What::Releasing { claim });
            }
        }
        let fence = lease.fence.map_or(0, tenure::Fence::get);
        if self.process.link.clock.now() >= sent + safe(lease.ttl) {
            return self.world.given_up(process, claim);
        }
        self.line(|| {
            format!(
                "has a lease by hand of {} by claim {claim}, fence {fence}",
                lease.name
            )
        });
        let evidence = self.count(sent, &lease);
        self.world
            .granted(process, claim, &by_hand.lock, fence, evidence);
        for pause in &by_hand.renew_after_ms {
            self.sleep(*pause).await;
            if !self.renew(&client, claim, &lease).await {
                break;
            }
        }
        self.sleep(by_hand.hold_ms).await;
        self.world.releasing(process, claim);
        if by_hand.release {
            self.line(|| format!("releases the lease of claim {claim}"));
            let outcome = client.release(&lease).await;
            self.released(claim, &outcome);
        }
    }

    /// Renews a lease by hand; returns whether it continues.
    async fn renew(&self, client: &Client, claim: u64, lease: &Lease) -> bool {
        let sent = self.process.link.clock.now();
        match client.renew(lease).await {
            Ok(LeaseRenewal::Renewed(_)) => {
                self.line(|| format!("has renewed the lease of claim {claim}"));
                self.world.sample();
                let evidence = self.count(sent, lease);
                if let Some(belief) = self.world.beliefs().held.get_mut(&claim) {
                    belief.evidence = evidence;
                }
                true
            }
            Ok(LeaseRenewal::Lost(loss)) => {
                self.line(|| format!("is told that the lease of claim {claim} is over: {loss}"));
                self.world.lost(claim);
                false
            }
            Err(_) => true,
        }
    }

    /// Counts a lease from before its request was sent, minus the safety margin of guards.
    fn count(&self, sent: Duration, lease: &Lease) -> Evidence {
        Evidence::Count {
            clock: Arc::clone(&self.process.link.clock),
            until: sent + safe(lease.ttl),
            owner: lease.owner.as_str().to_owned(),
        }
    }

    /// Computes a result once.
    pub(crate) async fn once(&self, spec: &LockSpec, for_ms: u64) {
        let Some(lock) = self.lock(spec) else {
            return;
        };
        let process = self.process.link.process;
        let (claim, _) = self.ask(spec, true);
        self.line(|| format!("makes a result once (claim {claim})"));
        let look = || async { Ok(Seen::<u64>::Missing) };
        let make = |fence: tenure::Fence| async move {
            let fence = fence.get();
            self.line(|| format!("makes the result with fence {fence}"));
            self.world
                .granted(process, claim, spec, fence, Evidence::Told);
            self.sleep(for_ms).await;
            self.world.releasing(process, claim);
            Ok::<_, tenure::Error>(fence)
        };
        let made = lock.once(look, make).await;
        self.line(|| format!("result of claim {claim}: {made:?}"));
        match made {
            Ok(_) => {}
            Err(tenure::Error::Lost { .. }) => {
                self.world.lost(claim);
                self.world.given_up(process, claim);
            }
            Err(error) => self.failed(claim, &error),
        }
    }
}

/// Returns how long a lease is safe to use, as guards count it.
fn safe(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(1))
}
