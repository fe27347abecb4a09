//! The resource accepts no smaller fence after a larger one.

use super::Breaches;
use crate::claims::{View, Write};

/// Looks for accepted writes whose fence is smaller than an earlier one, or missing.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        let mut largest: Option<&Write> = None;
        for write in &name.writes {
            // A missing fence is smaller than any fence.
            match largest.filter(|largest| largest.fence > write.fence) {
                Some(largest) => {
                    breaches.note(write.event, || tell(view, name.text, largest, write));
                }
                None => largest = Some(write),
            }
        }
    }
    breaches
}

fn tell(view: &View<'_>, name: &str, largest: &Write, write: &Write) -> (String, Vec<usize>) {
    let (late, early) = (view.called(write.claim), view.called(largest.claim));
    let seen = largest.fence.unwrap_or_default();
    let came = match write.fence {
        Some(fence) => format!("with fence {fence}"),
        None => "without a fence".to_owned(),
    };
    let sentence = format!(
        "the resource \"{name}\" accepted a write of {late} {came}, after fence {seen} of {early}"
    );
    let grants = [largest.claim, write.claim].map(|claim| view.grant_of(claim));
    let mut events: Vec<_> = grants.into_iter().flatten().collect();
    events.extend([largest.event, write.event]);
    (sentence, events)
}
