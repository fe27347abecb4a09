//! Nobody but its owner frees a lock.

use std::collections::BTreeMap;

use super::Breaches;
use crate::claims::{Claim, Grant, Name, View};
use crate::history::{Freed, Mode};

/// Looks for releases that report *freed* while another, who came later, holds the name.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        sweep(view, name, &mut breaches);
    }
    breaches
}

/// What matters in one name, in order of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A claim is believed in no longer.
    Goes,
    /// A claim begins to let go, and will report success.
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

/// The claims that have come and not gone, by the event of their grant.
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

    /// A claim of another owner that came after this one, excludes it, and stays until after the report.
    ///
    /// A smaller fence came earlier, however late its owner was told: after a pause, say.
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

/// So many who came later are looked at; where more are there at once, exclusion is broken beyond doubt.
const CROWD: usize = 100;

fn came(claim: &Claim, number: usize) -> Option<(usize, usize)> {
    claim.granted.map(|grant| (grant.event, number))
}

/// A loss during the release is no letting go: it may be the very harm that is looked for.
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
