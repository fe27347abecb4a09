//! Checks what nodes lose when they restart, and how locks are protected then.

use std::time::Duration;

use crate::doctor::{Check, Finding, Verdict};
use crate::lock::DEFAULT_TTL;
use crate::store::redis::doctor::node::Facts;
use crate::store::redis::doctor::server::{self, not_shown};
use crate::store::redlock::url::Settings;

/// Checks whether a node loses data, and whether it is then excluded until every lost lease is over.
pub(super) fn persistence(facts: &Facts, restart_delay: Option<Duration>) -> Finding {
    let kept = server::persistence(facts);
    match restart_delay {
        _ if kept.verdict == Verdict::Fine => kept,
        Some(delay) => {
            let forgets = match kept.verdict {
                Verdict::Unknown => "whatever the node forgets,".to_owned(),
                _ => format!("{};", kept.found),
            };
            let found = format!(
                "{forgets} after a start it does not count for {delay:?} (restart_delay), longer \
                 than any lease"
            );
            Check(kept.check).fine(found)
        }
        None => without_delay(kept, facts),
    }
}

/// Checks a node that votes right after a start: it must have every change on disk before it
/// replies.
fn without_delay(kept: Finding, facts: &Facts) -> Finding {
    let forgets = match (kept.verdict, server::forgetful(facts)) {
        (Verdict::Unknown, None) => {
            let advice = "run this as a user with +info and +config|get, or leave \
                          restart_delay=off out of the URL: it needs appendonly yes and \
                          appendfsync always on every node";
            return kept.but(Verdict::Unknown, advice);
        }
        (Verdict::Unknown, Some(setting)) => format!("a power cut forgets locks ({setting})"),
        _ => kept.found,
    };
    Check(kept.check).problem(format!(
            "{forgets}; and with restart_delay=off it votes again at once, so that two may hold one \
             lock"
        ),
        "leave restart_delay=off out of the URL, or set appendonly to yes and appendfsync to \
         always on every node",
    )
}

/// Checks whether a node restarted so recently that it is excluded from voting.
pub(super) fn restarted(facts: &Facts, restart_delay: Option<Duration>) -> Option<Finding> {
    restart_delay?;
    let Some(up) = uptime(facts) else {
        return Some(not_shown(CHECK, "uptime_in_seconds"));
    };
    let left = excluded_for(facts, restart_delay)?;
    Some(CHECK.warning(
        format!(
            "the node started {} s ago and counts in {} s (restart_delay)",
            up.as_secs(),
            left.as_secs_f64().ceil()
        ),
        "wait, and restart one node at a time",
    ))
}

/// Returns how long a node stays excluded from voting, `None` if it counts.
pub(super) fn excluded_for(facts: &Facts, restart_delay: Option<Duration>) -> Option<Duration> {
    // A node with an unknown uptime counts as one that has just started.
    let up = uptime(facts).unwrap_or_default();
    let left = restart_delay?.checked_sub(up);
    left.filter(|left| !left.is_zero())
}

/// Checks whether locks with the default ttl can be taken at all.
pub(super) fn delay(settings: &Settings) -> Option<Finding> {
    let delay = settings.restart_delay?;
    (settings.longest_ttl() < DEFAULT_TTL).then(|| {
        CHECK.warning(format!(
                "every ttl has to be shorter than restart_delay, {delay:?}: locks with the usual ttl of \
                 {DEFAULT_TTL:?} are refused"
            ),
            "leave restart_delay out of the URL, or give every lock a shorter ttl",
        )
    })
}

fn uptime(facts: &Facts) -> Option<Duration> {
    let seconds = facts.info("uptime_in_seconds")?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

const CHECK: Check = Check("restarts");

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    #[test]
    fn a_node_that_forgets_is_a_problem_without_a_delay_alone() {
        let kept: [(&[(&str, &str)], Verdict); 9] = [
            (&[("appendonly", "no"), ("save", "")], Verdict::Problem),
            (&[("appendonly", "no"), ("save", "9 1")], Verdict::Problem),
            (
                &[("appendonly", "yes"), ("appendfsync", "everysec")],
                Verdict::Problem,
            ),
            (
                &[("appendonly", "yes"), ("appendfsync", "always")],
                Verdict::Fine,
            ),
            // The user may not see all settings.
            (&[("appendonly", "no")], Verdict::Problem),
            (&[("appendfsync", "everysec")], Verdict::Problem),
            (&[("appendonly", "yes")], Verdict::Unknown),
            (&[("appendfsync", "always")], Verdict::Unknown),
            (&[], Verdict::Unknown),
        ];
        for (config, without) in kept {
            let facts = Facts::of(&[], config);
            let off = persistence(&facts, None);
            assert_eq!(off.verdict, without, "{config:?}");
            let advice = off.advice.unwrap_or_default();
            let is_own = advice.contains("leave restart_delay=off out");
            assert_eq!(is_own, without != Verdict::Fine, "{advice}");
            let with = persistence(&facts, MINUTE);
            assert_eq!(
                (with.verdict, with.advice.as_deref()),
                (Verdict::Fine, None)
            );
            let is_said = with.found.contains("60s (restart_delay)");
            assert_eq!(is_said, without != Verdict::Fine, "{with:?}");
        }
    }

    #[test]
    fn a_node_counts_once_the_delay_is_over() {
        let up = |seconds| Facts::of(&[("uptime_in_seconds", seconds)], &[]);
        let found = restarted(&up("7"), MINUTE).unwrap();
        assert_eq!(
            found.found,
            "the node started 7 s ago and counts in 53 s (restart_delay)"
        );
        assert_eq!(restarted(&up("60"), MINUTE), None);
        assert_eq!(restarted(&up("7"), None), None);
        let silent = Facts::default();
        assert_eq!(
            restarted(&silent, MINUTE).unwrap().verdict,
            Verdict::Unknown
        );
        assert_eq!(excluded_for(&silent, MINUTE), MINUTE);
    }

    #[test]
    fn a_delay_has_to_be_longer_than_the_usual_ttl() {
        let verdict = |options: &str| {
            let settings = Settings::parse(&format!("redlock://a,b,c?{options}")).unwrap();
            delay(&settings).map(|found| found.verdict)
        };
        assert_eq!(verdict(""), None);
        assert_eq!(verdict("restart_delay=off"), None);
        assert_eq!(verdict("restart_delay=31s"), None);
        assert_eq!(verdict("restart_delay=30s"), Some(Verdict::Warning));
    }
}
