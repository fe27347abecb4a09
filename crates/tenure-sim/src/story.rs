//! Tells a run in plain words.

use std::fmt::Write;

use crate::judge::Finding;
use crate::plan::{Cut, How, LockSpec, ModeSpec, OwnerSpec, Plan, StorePlan, Take};
use crate::record::Line;
use crate::world::name;

/// Returns the name of a process: a restarted client has a prime.
pub(crate) fn client(process: u32) -> String {
    let primes = usize::try_from(process / 10).unwrap_or(0);
    format!("{}{}", process % 10, "'".repeat(primes))
}

/// Describes a call that locks.
pub(crate) fn call(claim: u64, take: &Take, owner: &str) -> String {
    let how = match take.how {
        How::Lock => "lock()".to_owned(),
        How::Try => "try_lock()".to_owned(),
        How::Timeout(ms) | How::Retry { timeout_ms: ms, .. } => format!("lock_timeout({ms} ms)"),
    };
    let cut = match take.cut {
        None => String::new(),
        Some(Cut::Polls(polls)) => format!(", to be dropped after {polls} polls"),
        Some(Cut::After(ms)) => format!(", to be dropped after {ms} ms"),
    };
    let whose = match take.lock.owner {
        OwnerSpec::None => String::new(),
        OwnerSpec::Named(_) => format!(" as owner {owner}"),
        OwnerSpec::Task => " with .reentrant()".to_owned(),
        OwnerSpec::TaskByClone => {
            " on a clone of a lock built with .reentrant() elsewhere".to_owned()
        }
    };
    format!(
        "calls {how} on {}{whose} (claim {claim}){cut}",
        lock(&take.lock)
    )
}

/// Describes a lock with its options.
fn lock(spec: &LockSpec) -> String {
    let mut text = match spec.mode {
        ModeSpec::Exclusive => format!("mutex {}", name(spec.name)),
        ModeSpec::Shared => format!("the read side of {}", name(spec.name)),
        ModeSpec::Take(take) => format!("{take} permits of {}", name(spec.name)),
    };
    let _ = write!(text, ", ttl {} ms", spec.ttl_ms);
    if spec.at_least_ms > 0 {
        let _ = write!(text, ", at_least {} ms", spec.at_least_ms);
    }
    if let Some(ms) = spec.max_hold_ms {
        let _ = write!(text, ", max_hold {ms} ms");
    }
    if spec.keep_ms > 0 {
        let _ = write!(text, ", keep {} ms", spec.keep_ms);
    }
    text
}

/// Returns the whole story of a run, as numbered lines.
pub fn tell(plan: &Plan, lines: &[Line], finding: &Finding) -> String {
    let mut text = format!(
        "promise broken: {}\n  {}\n",
        finding.promise, finding.sentence
    );
    for event in &finding.events {
        let (ms, us) = (event.at_us / 1000, event.at_us % 1000);
        let who = client(event.process);
        let _ = writeln!(text, "    {ms:>6}.{us:03} ms  client {who}: {}", event.what);
    }
    let setting = &plan.setting;
    let _ = writeln!(
        text,
        "story: {} clients; a message takes {} to {} ms; a request times out after {} ms",
        plan.clients.len(),
        setting.fastest_ms,
        setting.slowest_ms,
        setting.timeout_ms
    );
    if let StorePlan::Redlock {
        nodes,
        restart_delay_ms,
        hand_over_ms,
    } = &plan.store
    {
        let delay = restart_delay_ms.map_or("off".to_owned(), |ms| format!("{ms} ms"));
        let _ = writeln!(
            text,
            "       {} nodes vote; restart_delay {delay}; a handed-over lease lasts {hand_over_ms} ms",
            nodes.len()
        );
        for (number, client) in plan.clients.iter().enumerate() {
            let nodes = |nodes: &[usize]| nodes.iter().map(|node| node + 1).collect::<Vec<_>>();
            let (order, away) = (nodes(&client.order), nodes(&client.unreachable));
            let who = number + 1;
            let _ = writeln!(
                text,
                "       client {who} lists the nodes as {order:?}, and does not reach {away:?}"
            );
        }
    }
    if let StorePlan::Sql {
        bells, connections, ..
    } = &plan.store
    {
        let _ = writeln!(
            text,
            "       a database; clients are reached by {bells:?}, with {connections} connections each"
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let (ms, us) = (line.at_us / 1000, line.at_us % 1000);
        let _ = writeln!(text, "{:>4}. {ms:>6}.{us:03} ms  {}", number + 1, line.text);
    }
    text
}
