//! Who holds a name and who waits for it: a pure function of its rows, in the order that the store decided.
//!
//! The rules are those of `store/ledger`, which decides request by request; here they follow from what is there. That
//! works because nobody passes anybody: those that hold are the first rows, as many as go together. A claim that enters
//! because its owner holds the name already takes the place of that row, so it stands there too.

use crate::driver::Mode;

/// One claim on a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its place in the order of the store. Rows of one grant share their place.
    pub(crate) place: i64,
    /// Whose claims hold together with it. Two texts may have the same number: whoever acts on it compares them.
    pub(crate) owner: Option<u64>,
    pub(crate) mode: Mode,
    /// Whether the name only stays taken after a release, by nobody.
    pub(crate) is_nobodys: bool,
}

impl Row {
    fn is_of(&self, owner: Option<u64>) -> bool {
        owner.is_some() && self.owner == owner && !self.is_nobodys
    }
}

/// What a row is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds the name.
    Holds,
    /// Its owner holds the name by this row: it may take a place beside it.
    Joins(usize),
    /// It waits.
    Waits {
        /// A row of the same owner that holds the name in a mode that does not cover this one.
        conflict: Option<usize>,
        /// What has to change before it can get in.
        behind: Behind,
    },
}

/// What a waiting row waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// The end of this row.
    Row(usize),
    /// Any change.
    Any,
}

/// Returns how many of the rows hold the name: these are the first. The rows are sorted by place.
pub(crate) fn judge(rows: &[Row]) -> usize {
    let mut holders = 0;
    for grant in rows.chunk_by(|one, other| one.place == other.place) {
        let (inside, first) = (&rows[..holders], &grant[0]);
        // Its owner may be in already, in another mode: it would share a grant that is not what it asked for.
        let is_in = grant
            .iter()
            .any(|row| inside.iter().any(|other| other.is_of(row.owner)));
        if is_in || !fits(inside, first.mode) {
            break;
        }
        holders += grant.len();
    }
    holders
}

/// Returns what the row at `index` is to do, if the first `holders` rows hold the name.
pub(crate) fn verdict(rows: &[Row], holders: usize, index: usize) -> Verdict {
    if index < holders {
        return Verdict::Holds;
    }
    let own = &rows[index];
    let mate = rows[..holders].iter().position(|row| row.is_of(own.owner));
    match mate {
        Some(mate) if rows[mate].mode.covers(own.mode) => Verdict::Joins(mate),
        conflict => Verdict::Waits {
            conflict,
            behind: behind(&rows[..index], own),
        },
    }
}

/// What a row that waits behind others has to wait for.
fn behind(before: &[Row], own: &Row) -> Behind {
    // One of the same owner that gets in takes it along.
    if before.iter().any(|row| row.is_of(own.owner)) {
        return Behind::Any;
    }
    let conflicts = |row: &Row| match own.mode {
        Mode::Exclusive => true,
        Mode::Shared => row.mode != Mode::Shared,
        Mode::Permits { .. } => !matches!(row.mode, Mode::Permits { .. }),
    };
    // The nearest: whatever ends in front of that does not let this one in.
    let nearest = before.iter().rposition(conflicts);
    nearest.map_or(Behind::Any, Behind::Row)
}

/// Whether an owner that is not in yet can go in beside those that are.
fn fits(inside: &[Row], mode: Mode) -> bool {
    match mode {
        Mode::Exclusive => inside.is_empty(),
        Mode::Shared => inside.iter().all(|row| row.mode == Mode::Shared),
        Mode::Permits { take, of } => {
            let (mut taken, mut limit) = (u64::from(take), of);
            // Claims that share a grant share its permits.
            for grant in inside.chunk_by(|one, other| one.place == other.place) {
                let Mode::Permits { take, of } = grant[0].mode else {
                    return false;
                };
                taken += u64::from(take);
                limit = limit.min(of);
            }
            taken <= u64::from(limit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Mode = Mode::Exclusive;
    const S: Mode = Mode::Shared;

    fn permits(take: u32, of: u32) -> Mode {
        Mode::Permits { take, of }
    }

    fn rows(list: &[(i64, Option<u64>, Mode)]) -> Vec<Row> {
        let row = |&(place, owner, mode)| Row {
            place,
            owner,
            mode,
            is_nobodys: false,
        };
        list.iter().map(row).collect()
    }

    fn verdicts(rows: &[Row]) -> Vec<Verdict> {
        let holders = judge(rows);
        (0..rows.len())
            .map(|index| verdict(rows, holders, index))
            .collect()
    }

    fn waits(behind: Behind) -> Verdict {
        let conflict = None;
        Verdict::Waits { conflict, behind }
    }

    #[test]
    fn the_first_holds_and_each_waits_for_the_one_before_it() {
        let rows = rows(&[(1, None, X), (2, None, X), (3, None, X)]);
        let expected = [Verdict::Holds, waits(Behind::Row(0)), waits(Behind::Row(1))];
        assert_eq!(verdicts(&rows), expected);
    }

    #[test]
    fn readers_wait_for_the_nearest_writer() {
        let rows = rows(&[
            (1, None, S),
            (2, None, S),
            (3, None, X),
            (4, None, S),
            (5, None, S),
        ]);
        let found = verdicts(&rows);
        assert_eq!(found[..2], [Verdict::Holds; 2]);
        assert_eq!(found[2], waits(Behind::Row(1)));
        assert_eq!(found[3..], [waits(Behind::Row(2)); 2]);
    }

    #[test]
    fn permits_wait_for_any_change_but_behind_a_writer_for_that() {
        let one = rows(&[(1, None, permits(2, 3)), (2, None, permits(2, 3))]);
        assert_eq!(verdicts(&one)[1], waits(Behind::Any));
        let two = rows(&[
            (1, None, X),
            (2, None, permits(2, 3)),
            (3, None, permits(2, 3)),
        ]);
        assert_eq!(verdicts(&two)[2], waits(Behind::Row(0)));
    }

    #[test]
    fn an_owner_joins_itself_and_conflicts_with_what_does_not_cover() {
        let one = rows(&[(1, Some(7), X), (2, None, X), (3, Some(7), S)]);
        assert_eq!(verdicts(&one)[2], Verdict::Joins(0));
        let two = rows(&[(1, Some(7), S), (2, Some(7), X)]);
        let conflict = Some(0);
        let behind = Behind::Any;
        assert_eq!(verdicts(&two)[1], Verdict::Waits { conflict, behind });
        // Two that share a place hold together, and count as one.
        let three = rows(&[
            (1, Some(7), permits(2, 3)),
            (1, Some(7), permits(2, 3)),
            (2, None, permits(1, 3)),
        ]);
        assert_eq!(judge(&three), 3);
    }

    #[test]
    fn what_is_nobodys_is_joined_by_nobody() {
        let mut rows = rows(&[(1, Some(7), X), (2, Some(7), X)]);
        rows[0].is_nobodys = true;
        assert_eq!(verdicts(&rows), [Verdict::Holds, waits(Behind::Row(0))]);
    }
}
