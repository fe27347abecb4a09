//! Two owners never believe at the same time that they hold locks that exclude each other.

use super::Breaches;
use crate::claims::{Name, Piece, View};
use crate::holders::Holders;

/// Looks for overlapping beliefs of different owners.
pub(super) fn rule(view: &View<'_>) -> Breaches {
    let mut breaches = Breaches::default();
    for name in &view.names {
        sweep(view, name, &mut breaches);
    }
    breaches
}

/// A belief starts or ends. Ends come first: a handover in one microsecond is not an overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Ends,
    Begins,
}

fn sweep(view: &View<'_>, name: &Name<'_>, breaches: &mut Breaches) {
    let granted = name.grants.iter();
    let pieces: Vec<Piece> = granted.flat_map(|claim| view.counted(*claim)).collect();
    let mut turns = Vec::with_capacity(2 * pieces.len());
    for (number, piece) in pieces.iter().enumerate() {
        turns.push((piece.from_us, Turn::Begins, number));
        turns.push((piece.until_us, Turn::Ends, number));
    }
    turns.sort_unstable();
    let mut holders = Holders::default();
    for (_, turn, number) in turns {
        let piece = &pieces[number];
        let claim = &view.claims[piece.claim];
        match turn {
            Turn::Ends => holders.leave(piece.claim, claim.owner, claim.mode),
            Turn::Begins => {
                if let Some(others) = holders.against(claim.owner, claim.mode) {
                    let grant = view.grant_of(piece.claim);
                    let at = piece.back.or(grant).unwrap_or(claim.asked);
                    breaches.note(at, || tell(view, piece, &others));
                }
                holders.enter(piece.claim, claim.owner, claim.mode);
            }
        }
    }
}

fn tell(view: &View<'_>, piece: &Piece, others: &[usize]) -> (String, Vec<usize>) {
    let (late, name) = (view.called(piece.claim), view.name_of(piece.claim));
    let all: Vec<_> = others.iter().map(|other| view.called(*other)).collect();
    let holders = all.join(" and ");
    let sentence = match (piece.back, others) {
        (_, []) => format!("{late} was granted more permits of \"{name}\" than there are"),
        (Some(_), _) => format!(
            "{late} came back from a pause and still believed that it holds \"{name}\", while {holders} held it"
        ),
        (None, [_]) => {
            format!("{late} was granted \"{name}\" while {holders} believed that it holds it")
        }
        (None, _) => format!(
            "{late} was granted permits of \"{name}\" beyond their number, while {holders} held theirs"
        ),
    };
    (sentence, proof(view, piece, others))
}

/// Returns the grants, and other events that show that both believed at the same time.
fn proof(view: &View<'_>, piece: &Piece, others: &[usize]) -> Vec<usize> {
    let late = &view.claims[piece.claim];
    let grants = others.iter().filter_map(|other| view.grant_of(*other));
    let mut events: Vec<_> = grants.chain(view.grant_of(piece.claim)).collect();
    if let Some(back) = piece.back {
        let pauses = view.pauses.get(&late.process).into_iter().flatten();
        let over = pauses.filter_map(|pause| pause.over);
        events.extend(over.filter(|over| *over < back).max());
        events.push(back);
    }
    // The end of the first belief shows that it was still there. For many holders, their grants
    // must suffice.
    if let [other] = others {
        events.extend(view.claims[*other].until);
        events.extend(late.until);
    } else {
        events.push(late.asked);
    }
    events
}
