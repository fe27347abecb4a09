//! After the faults every waiter makes progress, including nested calls, and no process crashes
//! while it waits.

use super::Breaches;
use crate::claims::{Claim, End, View};
use crate::history::What;

/// Looks for crashes at any time, and after the last fault for claims that wait too long or that
/// are still open when their process ends regularly.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for end in view.ends.iter().filter(|end| end.crashed) {
        breaches.note(end.event, || crashed(view, end));
    }
    // Without an event that ends the faults, a fault explains any wait.
    let Some(healed) = view.healed else {
        return breaches;
    };
    if view.faults.last().is_some_and(|last| *last > healed) {
        return breaches;
    }
    for (number, claim) in view.claims.iter().enumerate() {
        let from_us = view.at(claim.asked).max(view.at(healed));
        let closed = claim.closed();
        let until_us = closed.map_or_else(|| view.end_us(), |event| view.at(event));
        if until_us > from_us.saturating_add(view.expect.patience_us) {
            let at = closed.unwrap_or(view.events.len());
            breaches.note(at, || waits(view, number, healed, closed));
        } else if let Some(end) = left_open(view, claim).filter(|end| *end > healed) {
            breaches.note(end, || ended(view, number, healed, end));
        }
    }
    breaches
}

/// Returns the end of a claim's process, if it ended regularly with the claim still open. A client
/// that gives up records it.
fn left_open(view: &View<'_>, claim: &Claim) -> Option<usize> {
    let end = claim.died.filter(|_| claim.is_open())?;
    let is_clean = matches!(view.events[end].what, What::Ended { crashed: false });
    is_clean.then_some(end)
}

fn ended(view: &View<'_>, number: usize, healed: usize, end: usize) -> (String, Vec<usize>) {
    let claim = &view.claims[number];
    let (called, name, process) = (view.called(number), view.name_of(number), claim.process);
    let sentence = format!(
        "{called} waited for \"{name}\" until process {process} ended, and was never answered"
    );
    (sentence, vec![claim.asked, healed, end])
}

fn crashed(view: &View<'_>, end: &End) -> (String, Vec<usize>) {
    let process = end.process;
    match end.waiting {
        Some(claim) => {
            let number = view.claims[claim].number;
            let name = view.name_of(claim);
            let sentence =
                format!("process {process} crashed while claim {number} waited for \"{name}\"");
            (sentence, vec![view.claims[claim].asked, end.event])
        }
        None => {
            let sentence = format!("process {process} crashed, and no fault explains it");
            let own = view.claims.iter().filter(|claim| claim.process == process);
            let last = own
                .map(|claim| claim.asked)
                .filter(|asked| *asked < end.event);
            (
                sentence,
                last.max().into_iter().chain([end.event]).collect(),
            )
        }
    }
}

fn waits(
    view: &View<'_>,
    number: usize,
    healed: usize,
    closed: Option<usize>,
) -> (String, Vec<usize>) {
    let claim = &view.claims[number];
    let (called, name) = (view.called(number), view.name_of(number));
    let patience_ms = view.expect.patience_us / 1_000;
    let holds = |outer: &usize| view.claims[*outer].until.is_none();
    let outer = claim.nested_in.filter(holds).filter(|_| closed.is_none());
    let sentence = match (closed, outer) {
        (None, Some(outer)) => {
            let outer = view.claims[outer].number;
            format!(
                "{called} waits for \"{name}\", which its own owner holds by claim {outer}: it locked itself out"
            )
        }
        (None, None) => format!(
            "{called} waited more than {patience_ms} ms for \"{name}\" without a fault, and has no answer"
        ),
        (Some(_), _) => {
            format!("{called} waited more than {patience_ms} ms for \"{name}\" without a fault")
        }
    };
    let last = view.events.len().saturating_sub(1);
    let mut events = vec![claim.asked, healed, closed.unwrap_or(last)];
    events.extend(outer.and_then(|outer| view.grant_of(outer)));
    (sentence, events)
}
