//! The report of handwritten records, as text and in a browser.

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::Browser;

use super::super::record::{Counted, FaultKind, FaultSeen, Outcome, Sale, TakeOver, Totals};
use super::*;

/// Returns a sale of `stock` pieces by two copies in turn, one every tenth of a second.
pub(in crate::demo::flash_sale) fn record(lock: &str, stock: u64) -> Record {
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

/// A report in a browser.
struct Shown {
    browser: Browser,
    _folder: TempDir,
}

impl Shown {
    fn open(records: &[Record]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.html");
        write_report(&file, records).unwrap();
        let mut browser = Browser::start().unwrap();
        browser.goto(&format!("file://{}", file.display())).unwrap();
        assert_eq!(browser.errors().unwrap(), Vec::<String>::new());
        Self {
            browser,
            _folder: folder,
        }
    }

    fn eval(&mut self, script: &str) -> Value {
        self.browser.eval(script).unwrap()
    }

    fn count(&mut self, selector: &str) -> Value {
        self.eval(&format!("document.querySelectorAll('{selector}').length"))
    }

    /// Returns the text of all elements, including those that only screen readers read.
    fn text(&mut self) -> String {
        let text = self.eval("document.body.querySelector('main').textContent");
        text.as_str().unwrap().to_owned()
    }
}

/// Evaluates an expression with the functions of the report.
fn eval(script: &str) -> Value {
    Shown::open(&[record("tenure", 5)]).eval(script)
}

#[test]
fn one_sale_has_four_charts_and_needs_nothing_from_elsewhere() {
    let records = [record("tenure", 50)];
    let page = report(&records);
    for elsewhere in ["http://", "https://", "src=", "@import"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    let mut shown = Shown::open(&records);
    assert_eq!(shown.count("svg[role=img]"), 4);
    assert!(!shown.text().contains("Side by side"));
}

#[test]
fn many_sales_stand_side_by_side() {
    let locks = ["none", "process", "tenure"];
    let mut shown = Shown::open(&locks.map(|lock| record(lock, 20)));
    assert_eq!(shown.count("svg[role=img]"), 3 * 5);
    assert!(shown.text().contains("Side by side"));
    for lock in locks {
        assert_eq!(shown.count(&format!("section[id={lock}]")), 1, "{lock}");
        assert_eq!(shown.count(&format!("a[href=\"#{lock}\"]")), 2, "{lock}");
    }
}

#[test]
fn a_large_sale_makes_a_small_file() {
    let page = report(&[record("tenure", 20_000)]);
    assert!(page.len() < 200_000, "{}", page.len());
}

#[test]
fn a_long_line_stays_small_and_its_text_is_safe() {
    let mut shown = Shown::open(&[record("<a>", 20_000)]);
    let longest = "Math.max(...[...document.querySelectorAll('path.line')].map((line) => line.getAttribute('d').length))";
    let longest = shown.eval(longest).as_u64().unwrap();
    assert!((1000..20_000).contains(&longest), "{longest}");
    let heading = shown.eval("document.querySelector('main h2').firstChild.data");
    assert_eq!(heading, "<a> ");
}

#[test]
fn what_is_written_in_a_record_cannot_become_markup() {
    let mut records = [record("<script>alert(1)</script>", 5)];
    records[0].store = "<img src=x>".into();
    records[0].front = "<b>".into();
    records[0].broken.push("<i>\u{7}".into());
    let page = report(&records);
    assert_eq!(page.matches("<script>").count(), 1, "only our own");
    for markup in ["<img", "<b>", "<i>"] {
        assert!(!page.contains(markup), "{markup}");
    }
    let mut shown = Shown::open(&records);
    assert_eq!(shown.count("main script, main img, main b, main i"), 0);
    assert!(shown.text().contains("<script>alert(1)</script>"));
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
    let mut shown = Shown::open(&records);
    assert_eq!(shown.count(".band"), 3, "one for each chart over time");
    assert_eq!(shown.count("path.oversold"), 1);
    let text = shown.text();
    for part in [
        "copy 2 frozen, 1\u{202f}s",
        "10 oversold",
        "copy 1 takes over",
        "copy 1 took over its lock after 1.00 s, 6 pieces were sold meanwhile; then its late write was refused",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_sale_in_which_nothing_happened_is_a_page_too() {
    let mut empty = record("tenure", 1);
    empty.sales.clear();
    empty.seconds = 0.0;
    let page = Shown::open(&[empty]).eval("document.querySelector('main').innerHTML");
    let page = page.as_str().unwrap();
    assert!(
        !page.contains("NaN") && !page.contains("Infinity"),
        "{page}"
    );
}

#[test]
fn numbers_and_times_are_read_with_ease() {
    let mut shown = Shown::open(&[record("tenure", 5)]);
    let whole = shown.eval("[0, 999, 1000, 20000, -1234567].map(whole)");
    let expected = [
        "0",
        "999",
        "1\u{202f}000",
        "20\u{202f}000",
        "−1\u{202f}234\u{202f}567",
    ];
    assert_eq!(whole, json!(expected));
    let times = shown.eval("[0, 7, 999, 1500, 10000, 1000000, 5210000].map(time)");
    let expected = ["0 µs", "7 µs", "999 µs", "1.5 ms", "10 ms", "1 s", "5.2 s"];
    assert_eq!(
        times,
        json!(expected.map(|time| time.replace(' ', "\u{202f}")))
    );
    let numbers = shown.eval("[0.5, 2.5, 3, 0.25].map(number)");
    assert_eq!(numbers, json!(["0.50", "2.5", "3", "0.25"]));
}

#[test]
fn values_go_to_their_places_and_not_beyond() {
    let mut shown = Shown::open(&[record("tenure", 5)]);
    let places =
        shown.eval("[-5, 0, 2.5, 10, 11].map(scale({ range: [0, 10], about: 4 }, [100, 0]).at)");
    assert_eq!(places, json!([100, 100, 75, 0, 0]));
    let places = shown.eval(
        "[0, 1, 10, 100, 1000].map(scale({ range: [3, 700], about: 4, log: true }, [0, 300]).at)",
    );
    assert_eq!(places, json!([0, 0, 100, 200, 300]));
}

#[test]
fn a_range_without_width_has_places_too() {
    let sane = eval(
        "[true, false].every((log) => { const none = scale({ range: [0, 0], about: 4, log }, [0, 100]); \
         return Number.isFinite(none.at(0)) && none.ticks.length > 0; })",
    );
    assert_eq!(sane, true);
}

#[test]
fn ticks_are_round_and_inside() {
    let mut shown = Shown::open(&[record("tenure", 5)]);
    let ticks = shown.eval(
        "[[0, 5000], [-320, 1000], [0, 0.37], [0, 0.3]].map((range) => scale({ range, about: 5 }, [0, 1]).ticks)",
    );
    assert_eq!(ticks[0], json!([0, 1000, 2000, 3000, 4000, 5000]));
    assert_eq!(ticks[1], json!([0, 500, 1000]));
    assert_eq!(ticks[2].as_array().unwrap().len(), 4);
    let last = ticks[3].as_array().unwrap().len();
    assert_eq!(last, 4, "also the last, which is not exact");
    let powers = shown.eval("scale({ range: [20, 5e6], about: 4, log: true }, [0, 1]).ticks");
    assert_eq!(powers, json!([10, 1000, 100_000, 10_000_000]));
}

#[test]
fn steps_are_one_two_or_five_times_a_power_of_ten() {
    let steps = eval("[0.03, 0.1, 1.1, 6, 0].map((least) => Number(roundStep(least).toFixed(9)))");
    assert_eq!(steps, json!([0.05, 0.1, 2, 10, 1]));
}

#[test]
fn an_axis_ends_at_a_round_value_that_is_not_too_far() {
    let ends =
        eval("[980, 1000, 6400, 0.42].map((to) => Number(roundedUp([0, to], 4)[1].toFixed(9)))");
    assert_eq!(ends, json!([1000, 1000, 8000, 0.6]));
}

#[test]
fn a_value_holds_until_the_next() {
    let path = eval(
        "steps([[0, 10], [2, 10], [5, 4]], 10, scale({ range: [0, 10], about: 4 }, [0, 100]), \
         scale({ range: [0, 10], about: 4 }, [100, 0]))",
    );
    assert_eq!(path, "M0 0H20V0H50V60H100");
}

#[test]
fn a_line_with_a_gap_is_drawn_in_two_parts() {
    let path = eval(
        "line([[1, 1], [2, 2], null, [4, 4]], scale({ range: [0, 10], about: 4 }, [0, 100]), \
         scale({ range: [0, 10], about: 4 }, [100, 0]))",
    );
    let path = path.as_str().unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert_eq!(path.matches('L').count(), 1, "{path}");
}

#[test]
fn only_what_is_below_zero_is_filled() {
    let filled = eval(
        "[0, -1].map((last) => { const axis = { range: [-5, 10], about: 4, text: number }; \
         const chart = new Chart('a', 'b', axis, axis, 0); \
         chart.belowZero('oversold', [[1, 3], [2, last]], 10); \
         return chart.svg.querySelectorAll('.oversold').length; })",
    );
    assert_eq!(filled, json!([0, 1]));
}

#[test]
fn the_lines_of_a_tip_stay_apart_and_safe() {
    let mut shown = Shown::open(&[record("tenure", 5)]);
    shown.eval(
        "(() => { const axis = { range: [0, 10], about: 4, text: number }; \
         const plot = new Chart('<a>', 'b & c', axis, axis, 0).plot(() => ['one', '<two>']); \
         plot.id = 'plot'; document.body.prepend(plot); const box = plot.getBoundingClientRect(); \
         const at = { clientX: box.x + box.width / 2 }; \
         plot.querySelector('.pointer').dispatchEvent(new PointerEvent('pointermove', at)); })()",
    );
    let tip = shown.eval("document.querySelector('#plot .tip').textContent");
    assert_eq!(tip, "one\n<two>");
    let title = shown.eval("document.querySelector('#plot title').innerHTML");
    assert_eq!(title, "&lt;a&gt;");
}
