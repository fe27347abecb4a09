//! Only its owner can free a lock.

use std::collections::BTreeMap;

use super::Breaches;
use crate::claims::{Claim, Grant, Name, View};
use crate::history::{Freed, Mode};

/// Looks for releases that report *freed* while another owner that came later holds the name.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        sweep(view, name, &mut breaches);
    }
    breaches
}

/// The relevant steps of one name, ordered by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The belief in a claim ends.
    Goes,
    /// A claim starts its release, which will report success.
    Frees { told: usize },
    /// A claim is granted.
    Comes,
}

fn sweep(view: &View<'_>, name: &Name<'_>, breaches: &mut Breaches) {
    let mut present = Present::default();
    for (_, step, number) in steps(view, name) {
        let claim = &view.claims[number];
        match step {
            Step::Comes => present.of(claim.mode).extend(came(claim, number)),
            Step::Goes => {
                if let Some((event, _)) = came(claim, number) {
                    present.of(claim.mode).remove(&event);
                }
            }
            Step::Frees { told } => {
                if let Some(other) = present.robbed_by(view, number, told) {
                    breaches.note(told, || tell(view, number, other, told));
                }
            }
        }
    }
}

fn steps(view: &View<'_>, name: &Name<'_>) -> Vec<(u64, Step, usize)> {
    let mut steps = Vec::new();
    for number in &name.grants {
        let claim = &view.claims[*number];
        if let Some((event, _)) = came(claim, *number) {
            steps.push((view.at(event), Step::Comes, *number));
        }
        if let Some(event) = claim.until {
            steps.push((view.at(event), Step::Goes, *number));
        }
        for release in &claim.releases {
            let began_us = view.at(release.began);
            let mut excused = claim.excused.iter();
            if excused.any(|(from_us, until_us)| (*from_us..*until_us).contains(&began_us)) {
                continue;
            }
            if let Some((told, Freed::Freed)) = release.told {
                steps.push((view.at(release.began), Step::Frees { told }, *number));
            }
        }
    }
    steps.sort_unstable();
    steps
}

/// The claims that were granted and have not ended, by the event of their grant.
#[derive(Default)]
struct Present {
    exclusive: BTreeMap<usize, usize>,
    others: BTreeMap<usize, usize>,
}

impl Present {
    fn of(&mut self, mode: Mode) -> &mut BTreeMap<usize, usize> {
        match mode {
            Mode::Exclusive => &mut self.exclusive,
            Mode::Shared | Mode::Permits { .. } => &mut self.others,
        }
    }

    /// Returns a claim of another owner that came after this one, excludes it, and stays until
    /// after the report.
    ///
    /// A smaller fence was granted earlier, however late its owner learned of it, for example after
    /// a pause.
    fn robbed_by(&self, view: &View<'_>, number: usize, told: usize) -> Option<usize> {
        let claim = &view.claims[number];
        let Grant {
            event: granted,
            fence,
        } = claim.granted?;
        let robbed = |other: &usize| {
            let other = &view.claims[*other];
            let stays = let_go(other).is_none_or(|gone| view.at(gone) > view.at(told));
            let later = other.granted.is_some_and(|it| {
                view.at(it.event) > view.at(granted) && (it.fence.is_none() || it.fence >= fence)
            });
            other.owner != claim.owner && stays && later
        };
        let after = |side: &BTreeMap<usize, usize>| {
            let later = side.range(granted + 1..).map(|(_, other)| *other);
            later.take(CROWD).find(robbed)
        };
        let found = after(&self.exclusive);
        match claim.mode {
            Mode::Exclusive => found.or_else(|| after(&self.others)),
            Mode::Shared | Mode::Permits { .. } => found,
        }
    }
}

/// How many later claims to examine. If there are more at once, exclusion is certainly broken.
const CROWD: usize = 100;

fn came(claim: &Claim, number: usize) -> Option<(usize, usize)> {
    claim.granted.map(|grant| (grant.event, number))
}

/// Returns when a claim ended. A loss during the release does not count as an end: it may be the
/// very damage that the rule looks for.
fn let_go(claim: &Claim) -> Option<usize> {
    let released = claim.releases.first().map(|release| release.began);
    [released, claim.died].into_iter().flatten().min()
}

fn tell(view: &View<'_>, number: usize, other: usize, told: usize) -> (String, Vec<usize>) {
    let (late, robbed, name) = (
        view.called(number),
        view.called(other),
        view.name_of(number),
    );
    let sentence = format!(
        "{late} freed \"{name}\" although {robbed} had been granted it since: it freed somebody else's lock"
    );
    let began = view.claims[number].releases.iter();
    let began = began.filter(|release| release.told.is_some_and(|it| it.0 == told));
    let mut events: Vec<_> = began.map(|release| release.began).collect();
    events.extend(view.grant_of(number));
    events.extend(view.grant_of(other));
    events.push(told);
    (sentence, events)
}
