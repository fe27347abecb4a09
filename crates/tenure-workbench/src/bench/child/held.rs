//! Workloads that hold or wait for a long time, and should cost next to nothing.

use std::time::Duration;

use tenure::{Client, Health};
use tenure_testkit::Parent;
use tokio::task::JoinSet;

use crate::bench::child::{Figures, loops, ready};
use crate::bench::contender::{Contender, release};
use crate::clock::processor_time;
use tenure_cli::{Failure, Result};

/// Waits in many tasks for a lock that another process holds.
pub(super) async fn idle(
    client: &Client,
    name: &str,
    waiters: u32,
    time: Duration,
    parent: &mut Parent,
) -> Result<Figures> {
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let lock = client.mutex(name);
        waiting.spawn(async move { lock.lock().await });
    }
    ready(parent).await?;
    let (processor, wakeups) = (processor_time(), status("voluntary_ctxt_switches"));
    let calls = reads_and_writes();
    tokio::time::sleep(time).await;
    let used = processor_time() - processor;
    let wakeups = status("voluntary_ctxt_switches") - wakeups;
    let calls = reads_and_writes() - calls;
    if waiting.try_join_next().is_some() {
        let sentence = "a waiter got a lock that another process holds, or failed";
        return Err(Failure::unavailable(sentence));
    }
    waiting.shutdown().await;
    Ok(share(used, time)
        .with("wakeups_per_second", wakeups / time.as_secs_f64())
        .with("reads_and_writes_per_second", calls / time.as_secs_f64()))
}

/// Holds many leases while each of them is renewed three times.
pub(super) async fn many(
    client: &Client,
    name: &str,
    leases: u32,
    ttl: Duration,
    time: Duration,
    parent: &mut Parent,
) -> Result<Figures> {
    let lock = |number: u32| client.mutex(&format!("{name}/{number}")).ttl(ttl);
    release(lock(0).lock().await?).await?;
    let before = status("RssAnon");
    let mut guards = Vec::with_capacity(leases as usize);
    for number in 0..leases {
        guards.push(lock(number).lock().await?);
    }
    let granted = status("RssAnon");
    ready(parent).await?;
    let processor = processor_time();
    tokio::time::sleep(time).await;
    let used = processor_time() - processor;
    let memory = status("RssAnon").max(granted) - before;
    let is_lost = |health| matches!(health, Health::Lost(_));
    let lost = guards
        .iter()
        .filter(|guard| is_lost(guard.health()))
        .count();
    for guard in guards {
        // Losses are counted above.
        let _ = release(guard).await;
    }
    // Rows or keys that many names leave behind may slow down the next claim.
    let mut after = Contender::tenure(client.mutex(name));
    let after = loops::count_pairs(&mut after, time / 30).await?;
    let renewals = 3.0 * time.div_duration_f64(ttl) * f64::from(leases);
    Ok(share(used, time)
        .with("renewal_us", used.as_secs_f64() * 1e6 / renewals)
        .with("bytes_per_lease", memory * 1024.0 / f64::from(leases))
        .with("p50_us", after.find("p50_us").unwrap_or(0.0))
        .with("leases", f64::from(leases))
        .with("lost", lost as f64))
}

fn share(used: Duration, time: Duration) -> Figures {
    Figures::default().with("cpu_percent", 100.0 * used.div_duration_f64(time))
}

/// Returns a number from the kernel's status of this process, or 0 if there is none.
fn status(field: &str) -> f64 {
    number("/proc/self/status", field)
}

fn reads_and_writes() -> f64 {
    number("/proc/self/io", "syscr") + number("/proc/self/io", "syscw")
}

fn number(file: &str, field: &str) -> f64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| *name == field);
    let value = found.and_then(|(_, value)| value.split_whitespace().next()?.parse().ok());
    value.unwrap_or(0.0)
}
