//! Whether tenure kept its promises in a sale.

use super::record::{FaultKind, Outcome, Record};

/// Returns a sentence for each promise that was broken, and for each fault that did not happen.
pub(super) fn broken(record: &Record, asked: &[FaultKind]) -> Vec<String> {
    let totals = &record.totals;
    let mut broken = Vec::new();
    if totals.oversold > 0 {
        broken.push(format!("{} were sold that were not there", totals.oversold));
    }
    if totals.lost_updates > 0 {
        broken.push(format!("{} updates were lost", totals.lost_updates));
    }
    let told = |outcome| record.sales.iter().any(|sale| sale.outcome == outcome);
    if totals.left > 0 && told(Outcome::SoldOut) {
        broken.push(format!(
            "buyers were sent away, but {} are left",
            totals.left
        ));
    }
    if record.stuck {
        broken.push("buyers waited for ever".to_owned());
    }
    for kind in asked {
        if !record.faults.iter().any(|fault| fault.kind == *kind) {
            broken.push(format!("the fault {kind} did not happen"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flash_sale::record::{Counted, FaultSeen, Sale, Totals};

    fn record(counted: Counted) -> Record {
        let sales = vec![Sale {
            at_us: 1,
            copy: 1,
            left: 0,
            waited_us: 1,
            took_us: 1,
            outcome: Outcome::SoldOut,
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

    #[test]
    fn each_broken_promise_is_named() {
        let said = |counted| broken(&record(counted), &[]).join(", ");
        assert_eq!(said(counted(0, 10)), "");
        assert!(said(counted(0, 11)).contains("1 were sold"));
        assert!(said(counted(2, 10)).contains("2 updates were lost"));
        assert!(said(counted(2, 8)).contains("but 2 are left"));
        let mut stuck = record(counted(0, 10));
        stuck.stuck = true;
        assert_eq!(broken(&stuck, &[]).len(), 1);
    }

    #[test]
    fn a_fault_that_was_asked_for_has_to_happen() {
        let mut record = record(counted(0, 10));
        assert_eq!(broken(&record, &[FaultKind::Kill]).len(), 1);
        record.faults.push(FaultSeen {
            kind: FaultKind::Slow,
            copy: 1,
            from_us: 0,
            to_us: 1,
            outcome: Outcome::Sold,
        });
        assert_eq!(broken(&record, &[FaultKind::Slow]).len(), 0);
        record.faults[0].outcome = Outcome::Stale;
        assert_eq!(broken(&record, &[FaultKind::Slow]).len(), 1);
    }
}
