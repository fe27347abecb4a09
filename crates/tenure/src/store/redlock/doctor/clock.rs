//! Compares how far the clocks of the nodes are apart with what keeps fences growing.
//!
//! Fences follow the clocks of the nodes. When a node loses the last fence, the next one is still larger
//! as long as no other clock is ahead of that node's clock by more than the time for which the node is
//! excluded.

use std::time::Duration;

use crate::doctor::{Finding, Verdict};
use crate::store::redis::doctor::clock::{CHECK, FAR_MS, Reading, Spread, seconds, unread};
use crate::store::redlock::doctor::Away;
use crate::store::redlock::doctor::majority::unanswered;

/// Compares the clocks with each other.
pub(super) fn compare(
    readings: &[Reading],
    away: &[Away],
    restart_delay: Option<Duration>,
) -> Vec<Finding> {
    let mut findings = unread(readings);
    findings.extend(unanswered(CHECK, away));
    let spread = Spread::of(readings).map(|spread| match restart_delay {
        Some(delay) => against(&spread, delay),
        None => without_delay(&spread),
    });
    // A clock that was not read may be further off.
    let knows_all = findings.is_empty();
    findings.extend(spread.filter(|found| knows_all || found.verdict != Verdict::Fine));
    findings
}

fn against(spread: &Spread<'_>, delay: Duration) -> Finding {
    let limit = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    let set = "set the clocks (NTP)";
    if spread.surely_ms() >= limit {
        let found = format!(
            "{spread}, more than restart_delay ({delay:?}): a fence may become smaller when a node \
             forgets"
        );
        return CHECK.problem(found, set);
    }
    if spread.apart_ms + spread.doubt_ms >= limit {
        let found = format!(
            "{spread}, which may be wrong by {}: whether it is less than restart_delay ({delay:?}) \
             cannot be told from here",
            seconds(spread.doubt_ms)
        );
        return CHECK.unknown(
            found,
            "run this closer to the nodes, or use a longer restart_delay",
        );
    }
    if spread.surely_ms() > FAR_MS {
        let found = format!("{spread}, less than restart_delay ({delay:?}): fences grow");
        return CHECK.fine(found).but(Verdict::Fine, set);
    }
    near(spread)
}

fn without_delay(spread: &Spread<'_>) -> Finding {
    if spread.surely_ms() > FAR_MS {
        let found = format!("{spread}: a fence may become smaller if a node forgets after all");
        return CHECK.warning(found, "set the clocks (NTP)");
    }
    near(spread)
}

fn near(spread: &Spread<'_>) -> Finding {
    let most = seconds(spread.apart_ms + spread.doubt_ms);
    CHECK.fine(format!("the nodes' clocks are at most {most} apart"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(ahead: &[(i64, i64)]) -> Vec<Reading> {
        let places = ["a:1", "b:2", "c:3"].iter().zip(ahead);
        let read = places.map(|(place, ahead)| Reading {
            place: (*place).to_owned(),
            ahead: Ok(*ahead),
        });
        read.collect()
    }

    fn verdict(ahead: &[(i64, i64)], delay_s: Option<u64>) -> Verdict {
        let delay = delay_s.map(Duration::from_secs);
        match &compare(&readings(ahead), &[], delay)[..] {
            [finding] => finding.verdict,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clocks_are_held_against_the_restart_delay() {
        // All of them are an hour ahead of this machine, which does not matter.
        let near = [(3_600_000, 1), (3_600_900, 1), (3_600_300, 1)];
        assert_eq!(verdict(&near, Some(60)), Verdict::Fine);
        assert_eq!(compare(&readings(&near), &[], None)[0].advice, None);
        let apart = [(0, 1), (-2_000, 1), (500, 1)];
        let noted = &compare(&readings(&apart), &[], Some(Duration::from_secs(60)))[0];
        assert_eq!(noted.verdict, Verdict::Fine);
        assert!(noted.advice.is_some(), "{noted:?}");
        assert!(
            noted
                .found
                .starts_with("the clock of c:3 is 2.5 s ahead of b:2's"),
            "{noted:?}"
        );
        assert_eq!(verdict(&apart, Some(2)), Verdict::Problem);
        assert_eq!(verdict(&apart, None), Verdict::Warning);
        assert_eq!(verdict(&[(0, 1), (60_002, 1)], Some(60)), Verdict::Problem);
    }

    #[test]
    fn what_the_round_trip_hides_is_no_pass() {
        assert_eq!(verdict(&[(0, 300), (0, 300)], Some(1)), Verdict::Fine);
        assert_eq!(verdict(&[(0, 600), (0, 600)], Some(1)), Verdict::Unknown);
        assert_eq!(verdict(&[(0, 600), (1500, 600)], None), Verdict::Fine);
        let mut silent = readings(&[(0, 1), (0, 1)]);
        silent[1].ahead = Err("NOPERM".to_owned());
        let found = compare(&silent, &[], None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].verdict, Verdict::Unknown);
        assert!(found[0].found.starts_with("b:2: not checked"));
    }

    #[test]
    fn a_clock_that_was_not_heard_is_no_pass_and_hides_no_problem() {
        assert_eq!(compare(&readings(&[(0, 1)]), &[], None), []);
        let away = [("c:3".to_owned(), "refused".to_owned())];
        let minute = Some(Duration::from_secs(60));
        let verdicts = |ahead: &[(i64, i64)]| {
            let found = compare(&readings(ahead), &away, minute);
            assert_eq!(found[0].found, "not checked: c:3 did not answer");
            found.iter().map(|found| found.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&[(0, 1)]), [Verdict::Unknown]);
        assert_eq!(verdicts(&[(0, 1), (2_000, 1)]), [Verdict::Unknown]);
        assert_eq!(
            verdicts(&[(0, 1), (70_000, 1)]),
            [Verdict::Unknown, Verdict::Problem]
        );
    }
}
