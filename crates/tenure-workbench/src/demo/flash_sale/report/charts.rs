//! The four pictures of a sale.

use super::super::record::Record;
use super::chart::{Axis, Chart, MOST_ROWS, Spacing};
use super::series;
use super::words::{count, number, time, whole};

/// The stock over time: as each copy saw it, and what was really left.
pub(super) fn stock(record: &Record, id: &str) -> String {
    let totals = &record.totals;
    let really = series::really_left(record);
    let lowest = really.last().map_or(0.0, |last| last.1).min(0.0);
    let about = format!(
        "From {} down to {}; really left at the end: {}. {}.",
        whole(record.stock as f64),
        whole(totals.left as f64),
        whole(record.stock as f64 - totals.sold as f64),
        count(
            totals.oversold,
            "piece was oversold",
            "pieces were oversold"
        ),
    );
    let mut chart = over_time(
        record,
        "Stock",
        &about,
        pieces((lowest, record.stock as f64)),
    );
    chart.below_zero("oversold", &really, record.seconds);
    chart.steps("really", "really left", &really, record.seconds);
    for (place, line) in series::seen(record).iter().enumerate() {
        let until = line.last().map_or(0.0, |last| last.0);
        chart.steps(&copy_class(place), &copy_name(place), line, until);
    }
    if totals.oversold > 0 {
        let text = format!("{} oversold", whole(totals.oversold as f64));
        chart.note("bad", (record.seconds, lowest), &text);
    } else if totals.lost_updates > 0 {
        let text = format!("{} lost", count(totals.lost_updates, "update", "updates"));
        chart.note("bad", (record.seconds, totals.left as f64), &text);
    }
    chart.svg(id)
}

/// Sales per second over time, the copies on top of each other.
pub(super) fn pace(record: &Record, id: &str) -> String {
    let pace = series::pace(record, 48);
    let sums = pace.bars.iter().map(|bar| bar.iter().sum::<f64>());
    let most = sums.fold(0.0, f64::max);
    let about = format!(
        "{} sales per second until the last piece was sold; {} at best.",
        whole(record.totals.sales_per_second),
        whole(most),
    );
    let axis = Axis {
        values: (0.0, most),
        name: "sales per second",
        ..pieces((0.0, most))
    };
    let mut chart = over_time(record, "Sales per second", &about, axis.rounded_up());
    for (stretch, bar) in pace.bars.iter().enumerate() {
        let range = (
            stretch as f64 * pace.width,
            (stretch as f64 + 1.0) * pace.width,
        );
        let mut low = 0.0;
        let mut tip = vec![format!("second {}", number(range.0))];
        for (place, height) in bar.iter().enumerate() {
            let class = format!("bar {}", copy_class(place));
            chart.bar(&class, range, (low, low + height));
            low += height;
            tip.push(format!("{} {}/s", copy_name(place), whole(*height)));
        }
        chart.tip(range, &tip);
    }
    chart.svg(id)
}

/// How long requests waited for the lock, over time.
pub(super) fn waits(record: &Record, id: &str) -> String {
    let waits = series::waits(record, 90);
    let totals = &record.totals;
    let about = format!(
        "Half waited {} at the longest, 99 of 100 waited {} at the longest.",
        time(totals.wait_p50_us as f64),
        time(totals.wait_p99_us as f64),
    );
    let most = waits.iter().flatten().map(|waited| waited.most_us);
    let least = waits.iter().flatten().map(|waited| waited.half_us);
    let most = most.fold(1.0, f64::max);
    let values = (least.fold(most, f64::min), most);
    let mut chart = over_time(
        record,
        "Wait for the lock over time",
        &about,
        wait_axis(values),
    );
    let area: Vec<_> = waits
        .iter()
        .map(|waited| waited.map(|waited| (waited.at, waited.half_us, waited.most_us)))
        .collect();
    chart.area("between", &area);
    let line = |value: fn(&series::Waited) -> f64| {
        let point = |waited: &Option<series::Waited>| {
            waited.as_ref().map(|waited| (waited.at, value(waited)))
        };
        waits.iter().map(point).collect::<Vec<_>>()
    };
    chart.line("p99", "p99", &line(|waited| waited.most_us));
    chart.line("p50", "p50", &line(|waited| waited.half_us));
    chart.svg(id)
}

/// How the waits are spread: which part of all requests waited how long.
pub(super) fn spread(record: &Record, id: &str) -> String {
    let spread = series::spread(record);
    let totals = &record.totals;
    let (half, most) = (totals.wait_p50_us as f64, totals.wait_p99_us as f64);
    let about = format!(
        "Half within {}, 99 of 100 within {}.",
        time(half),
        time(most)
    );
    let first = spread.iter().find(|(_, share)| *share > 0.0);
    let first = first.map_or(1.0, |(upper, _)| upper / series::class_factor());
    let last = spread.last().map_or(10.0, |(upper, _)| *upper);
    let highest = spread.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let x = Axis {
        name: "",
        ticks: 6,
        ..wait_axis((first * 1.01, last * 0.99))
    };
    let y = Axis {
        values: (0.0, highest),
        spacing: Spacing::Linear,
        text: |share| format!("{}\u{202f}%", number(share * 100.0)),
        ticks: 4,
        name: "of all requests",
    };
    let mut chart = Chart::new("Spread of the waits", &about, x, y.rounded_up(), 2);
    for (upper, share) in spread {
        let range = (upper / series::class_factor(), upper);
        chart.bar("bar waited", range, (0.0, share));
        let waited = format!("{} to {}", time(range.0), time(range.1));
        let part = format!("{}\u{202f}% of all", number(share * 100.0));
        chart.tip(range, &[waited, part]);
    }
    chart.mark(half, &format!("p50 {}", time(half)), 2);
    chart.mark(most, &format!("p99 {}", time(most)), 1);
    chart.svg(id)
}

/// The class that gives a copy its colour and its dashes.
pub(super) fn copy_class(place: usize) -> String {
    format!("copy{}", place % 6 + 1)
}

/// What a copy is called.
pub(super) fn copy_name(place: usize) -> String {
    format!("copy {}", place + 1)
}

fn over_time(record: &Record, title: &str, about: &str, y: Axis) -> Chart {
    let x = Axis {
        values: (0.0, record.seconds),
        spacing: Spacing::Linear,
        text: |seconds| format!("{}\u{202f}s", number(seconds)),
        ticks: 6,
        name: "",
    };
    let taken_over = record.faults.iter().filter_map(|fault| fault.taken_over);
    let rows = (record.faults.len() + taken_over.count()).min(MOST_ROWS);
    let mut chart = Chart::new(title, about, x, y, rows);
    chart.faults(&record.faults);
    chart
}

fn pieces(values: (f64, f64)) -> Axis {
    Axis {
        values,
        spacing: Spacing::Linear,
        text: number,
        ticks: 4,
        name: "pieces",
    }
}

fn wait_axis(values: (f64, f64)) -> Axis {
    Axis {
        values,
        spacing: Spacing::Log,
        text: time,
        ticks: 5,
        name: "wait for the lock",
    }
}
