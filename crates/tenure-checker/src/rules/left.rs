//! After everybody has ended, nothing is left in the store.

use super::Breaches;
use crate::claims::View;
use crate::history::What;

/// Looks for what was found after everybody had ended.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for event in &view.left {
        if let What::Left { found } = &view.events[*event].what {
            breaches.note(*event, || {
                let shown = view.left.iter().copied().take(SHOWN).collect();
                (format!("when all had gone, {found} was left"), shown)
            });
        }
    }
    breaches
}

/// How many findings to show to a reader.
const SHOWN: usize = 4;
