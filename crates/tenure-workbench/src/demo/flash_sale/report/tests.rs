//! The report as text; in a browser it is tested by the command's own tests.

use super::super::record::{Counted, FaultKind, FaultSeen, Outcome, Sale, TakeOver, Totals};
use super::*;

/// A sale of `stock` pieces by two copies in turn, one every tenth of a second.
pub(super) fn record(lock: &str, stock: u64) -> Record {
    let sale = |number: u64| Sale {
        at_us: number * 100_000,
        copy: u32::from(number.is_multiple_of(2)) + 1,
        left: stock - number,
        waited_us: number * 100,
        took_us: number * 110,
        outcome: Outcome::Sold,
        fence: None,
    };
    let sales: Vec<_> = (1..=stock).map(sale).collect();
    let counted = Counted {
        left: 0,
        accepted: stock,
        refused: 0,
    };
    Record {
        lock: lock.to_owned(),
        store: "local:".to_owned(),
        front: "own".to_owned(),
        copies: 2,
        stock,
        buyers: stock,
        at_once: 8,
        ttl_ms: 3000,
        began_unix_ms: 0,
        seconds: stock as f64 / 10.0 + 0.1,
        stuck: false,
        totals: Totals::of(&sales, stock, counted),
        sales,
        faults: Vec::new(),
        broken: Vec::new(),
    }
}

fn shown<'a>(records: &'a [Record]) -> Vec<Shown<'a>> {
    let shown = |record| Shown {
        record,
        shows: "what it shows",
    };
    records.iter().map(shown).collect()
}

#[test]
fn one_sale_has_four_charts_and_needs_nothing_from_elsewhere() {
    let records = [record("tenure", 50)];
    let page = page(&shown(&records));
    assert_eq!(page.matches("role=\"img\"").count(), 4);
    assert!(!page.contains("Side by side"));
    for elsewhere in ["http://", "https://", "src=", "@import"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn many_sales_stand_side_by_side() {
    let records = [
        record("none", 20),
        record("process", 20),
        record("tenure", 20),
    ];
    let page = page(&shown(&records));
    assert_eq!(page.matches("role=\"img\"").count(), 3 * 5);
    assert!(page.contains("Side by side"));
    for lock in ["none", "process", "tenure"] {
        assert!(page.contains(&format!("<section id=\"{lock}\"")), "{lock}");
        assert!(page.contains(&format!("href=\"#{lock}\"")), "{lock}");
    }
}

#[test]
fn a_large_sale_makes_a_small_file() {
    let records = [record("tenure", 20_000)];
    let page = page(&shown(&records));
    assert!(page.len() < 200_000, "{}", page.len());
}

#[test]
fn what_is_written_in_a_record_cannot_become_markup() {
    let mut records = [record("<script>alert(1)</script>", 5)];
    records[0].store = "<img src=x>".into();
    records[0].front = "<b>".into();
    records[0].broken.push("<i>".into());
    let page = page(&shown(&records));
    assert_eq!(page.matches("<script>").count(), 1, "only our own");
    for markup in ["<img", "<b>", "<i>"] {
        assert!(!page.contains(markup), "{markup}");
    }
}

#[test]
fn faults_and_oversold_pieces_are_drawn_and_told() {
    let mut records = [record("none", 30)];
    let record = &mut records[0];
    record.stock = 20;
    record.totals.oversold = 10;
    record.faults.push(FaultSeen {
        kind: FaultKind::Pause,
        copy: 2,
        from_us: 500_000,
        to_us: 1_500_000,
        outcome: Outcome::Stale,
        fence: Some(7),
        taken_over: Some(TakeOver {
            copy: 1,
            at_us: 1_000_000,
            fence: 8,
            sold: 6,
        }),
    });
    let page = page(&shown(&records));
    assert_eq!(
        page.matches("class=\"band\"").count(),
        3,
        "one for each chart over time"
    );
    for part in [
        "copy 2 frozen, 1\u{202f}s",
        "class=\"oversold\"",
        "10 oversold",
        "copy 1 takes over",
        "copy 1 took over its lock at second 1.00, 6 sold meanwhile; then its late write was refused",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_sale_in_which_nothing_happened_is_a_page_too() {
    let mut empty = record("tenure", 1);
    empty.sales.clear();
    empty.seconds = 0.0;
    let page = page(&shown(&[empty]));
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}
