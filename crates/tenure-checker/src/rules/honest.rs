//! A refused claim holds nothing.

use super::Breaches;
use crate::claims::View;
use crate::history::Freed;

/// Looks for claims that were refused and are later seen to hold the name.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        let written = name.writes.iter().map(|write| (write.claim, write.event));
        for (claim, event) in written {
            // A grant after the refusal is reported separately.
            if view.claims[claim].granted.is_none() {
                note(view, &mut breaches, claim, event, "its write was accepted");
            }
        }
    }
    for (number, claim) in view.claims.iter().enumerate() {
        if let Some(granted) = view.grant_of(number) {
            note(view, &mut breaches, number, granted, "it was granted");
            continue;
        }
        for release in &claim.releases {
            if let Some((told, Freed::Freed)) = release.told {
                note(view, &mut breaches, number, told, "its release freed it");
            }
        }
    }
    breaches
}

fn note(view: &View<'_>, breaches: &mut Breaches, number: usize, event: usize, then: &str) {
    let claim = &view.claims[number];
    let Some(refused) = claim.refused.filter(|refused| *refused < event) else {
        return;
    };
    breaches.note(event, || {
        let (called, name) = (view.called(number), view.name_of(number));
        let sentence = format!("{called} was refused \"{name}\", and then {then}");
        (sentence, vec![claim.asked, refused, event])
    });
}
