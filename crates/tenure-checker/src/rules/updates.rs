//! No update of the resource is lost: each accepted write had read the previous version.

use super::Breaches;
use crate::claims::{View, Write};

/// Looks for accepted writes that did not see the previous one.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        let mut before: Option<&Write> = None;
        for write in &name.writes {
            if write.read.checked_add(1) != Some(write.version) {
                breaches.note(write.event, || skips(view, write));
            } else if let Some(before) = before.filter(|before| before.version != write.read) {
                breaches.note(write.event, || tell(view, name.text, before, write));
            }
            before = Some(write);
        }
    }
    breaches
}

fn tell(view: &View<'_>, name: &str, before: &Write, write: &Write) -> (String, Vec<usize>) {
    let (late, early) = (view.called(write.claim), view.called(before.claim));
    let (read, made) = (write.read, before.version);
    let sentence = if read < made {
        format!(
            "{late} wrote to \"{name}\" what it had made from version {read}, over version {made} of {early}: that update is lost"
        )
    } else {
        format!("{late} had read version {read} of \"{name}\", but the last was {made}, of {early}")
    };
    let grants = [before.claim, write.claim].map(|claim| view.grant_of(claim));
    let mut events: Vec<_> = grants.into_iter().flatten().collect();
    events.extend([before.event, write.event]);
    (sentence, events)
}

fn skips(view: &View<'_>, write: &Write) -> (String, Vec<usize>) {
    let (claim, read, version) = (view.called(write.claim), write.read, write.version);
    let sentence = format!("{claim} had read version {read}, but its write made {version}");
    let events = view.grant_of(write.claim).into_iter().chain([write.event]);
    (sentence, events.collect())
}
