//! Whether tenure kept its promises in a sale.

use super::record::{FaultKind, FaultSeen, Outcome, Record};
use super::wording;
use crate::demo::summary::count;

/// Returns a sentence for each broken promise, and for each fault that did not happen or proved
/// nothing.
pub(super) fn broken(record: &Record, asked: &[FaultKind]) -> Vec<String> {
    let totals = &record.totals;
    let mut broken = Vec::new();
    if totals.oversold > 0 {
        broken.push(format!(
            "{} that did not exist",
            count(totals.oversold, "piece was sold", "pieces were sold")
        ));
    }
    if totals.lost_updates > 0 {
        broken.push(count(
            totals.lost_updates,
            "update was lost",
            "updates were lost",
        ));
    }
    let told = |outcome| record.sales.iter().any(|sale| sale.outcome == outcome);
    if totals.left > 0 && told(Outcome::SoldOut) {
        broken.push(format!(
            "buyers were turned away although {} left",
            count(totals.left, "piece is", "pieces are")
        ));
    }
    if record.stuck {
        broken.push("buyers waited forever".to_owned());
    }
    for kind in asked {
        let of_kind = |fault: &&FaultSeen| fault.kind == *kind;
        let happened: Vec<_> = record.faults.iter().filter(of_kind).collect();
        if happened.is_empty() {
            broken.push(format!("the fault {kind} did not happen"));
        }
        if !happened.iter().any(|fault| proves(fault)) {
            let told = happened.iter().map(|fault| wording::fault(fault));
            broken.extend(told.map(|told| format!("the fault {kind} proved nothing: {told}")));
        }
    }
    let slow = record
        .faults
        .iter()
        .filter(|fault| fault.kind == FaultKind::Slow);
    for slow in slow.filter(|slow| slow.outcome != Outcome::Sold) {
        broken.push(format!("the slow sale of copy {} lost its lock", slow.copy));
    }
    broken
}

/// Returns whether a fault proved its point: another copy took over the lock of a frozen one, and
/// the late write of the frozen copy was refused. A killed copy and a slow sale are judged by the
/// totals.
fn proves(fault: &FaultSeen) -> bool {
    fault.kind != FaultKind::Pause
        || (fault.taken_over.is_some() && fault.outcome == Outcome::Stale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flash_sale::record::{Counted, Sale, TakeOver, Totals};

    fn record(counted: Counted) -> Record {
        let sales = vec![Sale {
            at_us: 1,
            copy: 1,
            left: 0,
            waited_us: 1,
            took_us: 1,
            outcome: Outcome::SoldOut,
            fence: None,
        }];
        Record {
            lock: "tenure".to_owned(),
            store: "local:".to_owned(),
            front: "own".to_owned(),
            copies: 2,
            stock: 10,
            buyers: 20,
            at_once: 4,
            ttl_ms: 3000,
            began_unix_ms: 0,
            seconds: 1.0,
            stuck: false,
            totals: Totals::of(&sales, 10, counted),
            sales,
            faults: Vec::new(),
            broken: Vec::new(),
        }
    }

    fn counted(left: u64, accepted: u64) -> Counted {
        Counted {
            left,
            accepted,
            refused: 0,
        }
    }

    fn fault(kind: FaultKind, outcome: Outcome) -> FaultSeen {
        FaultSeen {
            kind,
            copy: 1,
            from_us: 0,
            to_us: 8_000_000,
            outcome,
            fence: Some(7),
            taken_over: None,
        }
    }

    #[test]
    fn each_broken_promise_is_named() {
        let said = |counted| broken(&record(counted), &[]).join(", ");
        assert_eq!(said(counted(0, 10)), "");
        assert!(said(counted(0, 11)).contains("1 piece was sold"));
        assert!(said(counted(2, 10)).contains("2 updates were lost"));
        assert!(said(counted(2, 8)).contains("although 2 pieces are left"));
        let mut stuck = record(counted(0, 10));
        stuck.stuck = true;
        assert_eq!(broken(&stuck, &[]).len(), 1);
    }

    #[test]
    fn a_pause_that_was_asked_for_shows_a_take_over_and_a_refused_write() {
        let taken = TakeOver {
            copy: 2,
            at_us: 3_500_000,
            fence: 8,
            sold: 3,
        };
        let cases = [
            (Outcome::Stale, Some(taken), ""),
            (Outcome::Stale, None, "no other copy took over its lock"),
            (
                Outcome::Sold,
                Some(taken),
                "then its late write was accepted",
            ),
            (Outcome::Sold, None, "then its late write was accepted"),
            (Outcome::Error, Some(taken), "then its late sale failed"),
        ];
        for (outcome, taken_over, part) in cases {
            let mut record = record(counted(0, 10));
            record.faults.push(FaultSeen {
                taken_over,
                ..fault(FaultKind::Pause, outcome)
            });
            let said = broken(&record, &[FaultKind::Pause]).join(", ");
            assert_eq!(said.is_empty(), part.is_empty(), "{said}");
            assert!(said.contains(part), "{said}");
            assert_eq!(broken(&record, &[]).len(), 0, "nobody asked for a proof");
        }
    }

    #[test]
    fn a_fault_that_was_asked_for_has_to_happen() {
        let mut record = record(counted(0, 10));
        assert_eq!(broken(&record, &[FaultKind::Kill]).len(), 1);
        record.faults.push(fault(FaultKind::Slow, Outcome::Sold));
        assert_eq!(broken(&record, &[FaultKind::Slow]).len(), 0);
        record.faults[0].outcome = Outcome::Stale;
        assert_eq!(broken(&record, &[FaultKind::Slow]).len(), 1);
    }
}
