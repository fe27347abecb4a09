//! How many nodes there are, and whether enough of them can vote.

use crate::doctor::{Check, Finding};
use crate::store::redlock::doctor::persistence::excluded_for;
use crate::store::redlock::doctor::{Away, Seen};
use crate::store::redlock::fault;
use crate::store::redlock::nodes::majority_of;
use crate::store::redlock::url::Settings;

/// Summarizes the URL, and says whether another number of nodes would be better.
pub(super) fn summary(settings: &Settings) -> Vec<Finding> {
    let (all, majority) = (settings.nodes.len(), majority_of(settings.nodes.len()));
    let spare = all - majority;
    let delay = match settings.restart_delay {
        Some(delay) => format!(
            "a node counts {delay:?} after its start (restart_delay), and no ttl may be longer"
        ),
        None => "a node counts as soon as it has started (restart_delay=off)".to_owned(),
    };
    let drift = settings.drift_percent;
    let have = if majority == 1 { "has" } else { "have" };
    let found = format!(
        "{}: {majority} {have} to agree, {spare} may be away; {delay}; clocks may drift apart by \
         {drift}% of a ttl",
        counted(all)
    );
    let figures = CHECK.fine(found);
    let better = match all {
        0..3 => CHECK.warning(
            format!("{}: none may be away", counted(all)),
            "name three or five, on different machines; for one server redis:// does more",
        ),
        all if all % 2 == 0 => CHECK.warning(
            format!(
                "{all} is an even number: {spare} may be away, as with {} nodes",
                all - 1
            ),
            format!("name {} or {}", all - 1, all + 1),
        ),
        _ => return vec![figures],
    };
    vec![figures, better]
}

/// Names the nodes that cannot be reached.
pub(super) fn unreachable(away: &[Away]) -> impl Iterator<Item = Finding> {
    away.iter().map(|(place, why)| {
        let found = match why.contains(place.as_str()) {
            true => why.clone(),
            false => format!("{place}: {why}"),
        };
        let advice = "start it, or see why it cannot be reached from here; until then fewer others \
                      may be away";
        CHECK.problem(found, advice)
    })
}

/// Reports that a check of all nodes is incomplete because some did not answer.
pub(super) fn unanswered(check: Check, away: &[Away]) -> Option<Finding> {
    let places: Vec<_> = away.iter().map(|(place, _)| place.as_str()).collect();
    (!places.is_empty()).then(|| {
        check.unknown(
            format!("not checked: {} did not answer", places.join(", ")),
            "run this again once every node answers",
        )
    })
}

/// Checks whether a lock can be taken at this moment.
pub(super) fn can_vote(settings: &Settings, seen: &[Seen]) -> Option<Finding> {
    let (all, majority) = (settings.nodes.len(), majority_of(settings.nodes.len()));
    let votes = seen.iter().filter(|node| {
        let is_replica = node.facts.info("role") == Some("slave");
        !is_replica && excluded_for(&node.facts, settings.restart_delay).is_none()
    });
    let votes = votes.count();
    (votes < majority).then(|| {
        let too_few = fault::too_few(votes, all, majority, &[]);
        let found = format!("{too_few}: no lock can be taken");
        Check("majority").problem(found, "see the findings for each node")
    })
}

fn counted(nodes: usize) -> String {
    match nodes {
        1 => "1 node".to_owned(),
        _ => format!("{nodes} nodes"),
    }
}

const CHECK: Check = Check("nodes");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    fn of(url: &str) -> Vec<Finding> {
        summary(&Settings::parse(url).unwrap())
    }

    #[test]
    fn an_odd_number_from_three_up_is_fine() {
        let verdicts = |url: &str| {
            let found = of(url);
            found.iter().map(|found| found.verdict).collect::<Vec<_>>()
        };
        let with_warning = [Verdict::Fine, Verdict::Warning];
        assert_eq!(verdicts("redlock://a"), with_warning);
        assert_eq!(verdicts("redlock://a,b"), with_warning);
        assert_eq!(verdicts("redlock://a,b,c"), [Verdict::Fine]);
        assert_eq!(verdicts("redlock://a,b,c,d"), with_warning);
        assert_eq!(verdicts("redlock://a,b,c,d,e"), [Verdict::Fine]);
    }

    #[test]
    fn the_figures_are_those_of_the_url() {
        assert_eq!(
            of("redlock://a,b,c,d,e?drift=3%25&restart_delay=2m")[0].found,
            "5 nodes: 3 have to agree, 2 may be away; a node counts 120s after its start \
             (restart_delay), and no ttl may be longer; clocks may drift apart by 3% of a ttl"
        );
        let one = of("redlock://a");
        assert!(
            one[0].found.starts_with("1 node: 1 has to agree, 0 may"),
            "{one:?}"
        );
        let even = of("redlock://a,b,c,d?restart_delay=off");
        assert!(even[0].found.contains("restart_delay=off"), "{even:?}");
        assert_eq!(
            even[1].found,
            "4 is an even number: 1 may be away, as with 3 nodes"
        );
    }
}
