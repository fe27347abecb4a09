//! What the locks of all stores share: the line, waiting, renewal, loss and release.

mod ask;
mod backoff;
mod early;
mod give_back;
mod keep;
pub(crate) mod lease;
mod line;
pub(crate) mod lock_request;
mod meter;
pub(crate) mod reentry;
mod release;
mod ticket;
pub(crate) mod to_end;
mod watchdog;

use std::sync::{Arc, Once, OnceLock, Weak};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::background::Background;
use crate::clock::Clock;
use crate::driver::{Capabilities, Driver, Loss};
use crate::engine::early::EarlyNews;
use crate::engine::give_back::Fallback;
use crate::engine::lease::HeldLease;
use crate::engine::line::Lines;
use crate::engine::lock_request::LockRequest;
use crate::engine::meter::Meter;
use crate::engine::reentry::Reentries;
use crate::engine::watchdog::Leases;
use crate::error::Result;
use crate::fork::Origin;

/// One client of a store: its waiters, its leases, and the two tasks that serve them.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Arc<Clock>,
    pub(crate) background: Background,
    fallback: Option<Arc<Fallback>>,
    lines: Arc<Lines>,
    leases: Arc<Leases>,
    reentries: Arc<Reentries>,
    early: EarlyNews,
    meter: Meter,
    tasks: OnceLock<[AbortHandle; 2]>,
    short_ttl: Once,
    /// The process that it was started in.
    origin: Origin,
}

impl Engine {
    /// Starts an engine on the runtime that the caller is in.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub(crate) fn start(driver: Arc<dyn Driver>) -> Arc<Self> {
        let capabilities = driver.capabilities();
        let sees_the_end = capabilities.sees_clients_end;
        let engine = Arc::new(Self {
            meter: Meter::new(driver.kind()),
            driver: Arc::clone(&driver),
            capabilities,
            fallback: (!sees_the_end).then(|| Fallback::to(&driver)),
            clock: Arc::new(Clock::start(driver.clock())),
            background: Background::on(Handle::current()),
            lines: Arc::default(),
            leases: Arc::default(),
            reentries: Arc::default(),
            early: EarlyNews::default(),
            tasks: OnceLock::new(),
            short_ttl: Once::new(),
            origin: Origin::here(),
        });
        // These two tasks run for as long as the engine, so they do not count as background work.
        let news = tokio::spawn(hear(Arc::downgrade(&engine), driver));
        let leases = Arc::clone(&engine.leases);
        let clock = Arc::clone(&engine.clock);
        let watchdog = tokio::spawn(watchdog::watch(Arc::downgrade(&engine), leases, clock));
        // Nobody else has the engine yet, so this is the first and only time.
        let _ = engine
            .tasks
            .set([news.abort_handle(), watchdog.abort_handle()]);
        engine
    }

    /// Returns whether this is a copy in a forked child: its locks belong to the parent.
    fn is_forked(&self) -> bool {
        !self.origin.is_here()
    }

    /// Refuses to work for a forked child.
    pub(crate) fn check_origin(&self) -> Result<()> {
        if self.is_forked() {
            return Err(self.unavailable(
                "the client belongs to the process that this one was forked from: open another",
            ));
        }
        Ok(())
    }

    /// Warns once about a ttl so short that a single lost reply would end the lease.
    pub(crate) fn warn_of_a_short_ttl(&self, request: &LockRequest) {
        if request.ttl < self.capabilities.shortest_safe_ttl() {
            self.short_ttl.call_once(|| {
                let (name, ttl, timeout) = (&request.name, request.ttl, self.capabilities.timeout);
                tracing::warn!(
                    %name, ?ttl, ?timeout,
                    "one lost answer can end this lease: make its ttl at least three times the \
                     store's timeout"
                );
            });
        }
    }

    /// Ends a lease that the store or the clock has ended: the only way in which leases are lost.
    ///
    /// Tells the holder by its guard and operators by the log, unless nobody held it.
    fn lose(&self, lease: &Arc<HeldLease>, loss: Loss) {
        if !lease.lose(loss) {
            return;
        }
        self.leases.remove(lease);
        // A lease that was only kept had no holder to lose it.
        if self.lines.take_kept(lease).is_none() {
            self.meter.lost();
            tracing::warn!(name = %lease.claim.name, fence = %lease.fence, %loss, "lost");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        for task in self.tasks.get().into_iter().flatten() {
            task.abort();
        }
        self.part_with_kept();
    }
}

/// Handles the store's news until the engine has ended.
async fn hear(engine: Weak<Engine>, driver: Arc<dyn Driver>) {
    loop {
        let news = driver.news().await;
        let Some(engine) = engine.upgrade() else {
            return;
        };
        engine.hear(news);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use crate::driver::Loss;
    use crate::guard::Health;
    use crate::{Client, open};

    /// Advances the clock as if the machine had been suspended; timers do not advance.
    fn sleep_machine(client: &Client, slept: Duration) {
        let slept = u64::try_from(slept.as_nanos()).unwrap();
        client
            .engine
            .clock
            .slept
            .fetch_add(slept, Ordering::Relaxed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_while_the_machine_sleeps() {
        let client = open("memory:").await.unwrap();
        let guard = client
            .mutex("a")
            .ttl(Duration::from_secs(30))
            .lock()
            .await
            .unwrap();
        sleep_machine(&client, Duration::from_secs(31));
        assert_eq!(guard.health(), Health::Lost(Loss::Expired), "known at once");
        let woken = Instant::now();
        let told = timeout(Duration::from_secs(5), guard.lost()).await;
        assert_eq!(told, Ok(Loss::Expired));
        assert!(
            woken.elapsed() <= Duration::from_secs(1),
            "told {:?} later",
            woken.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_sleep_of_the_machine_is_survived() {
        let client = open("memory:").await.unwrap();
        let guard = client
            .mutex("a")
            .ttl(Duration::from_secs(30))
            .lock()
            .await
            .unwrap();
        for _ in 0..5 {
            sleep_machine(&client, Duration::from_secs(20));
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(guard.health(), Health::Held, "renewed after waking");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_two_tasks_end_with_the_client() {
        let client = open("memory:").await.unwrap();
        let tasks = client.engine.tasks.get().unwrap().clone();
        assert!(tasks.iter().all(|task| !task.is_finished()));
        drop(client);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(tasks.iter().all(|task| task.is_finished()));
    }
}
