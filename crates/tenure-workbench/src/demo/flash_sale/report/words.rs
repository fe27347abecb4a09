//! Numbers, times and sentences as people read them.

use super::super::record::{FaultKind, FaultSeen, Record};

/// Makes any text safe inside HTML and SVG, also between quotes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ if c.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(c),
        }
    }
    safe
}

/// Writes a whole number with a narrow space between thousands.
pub(super) fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    if number <= -0.5 {
        text.push('−');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Writes a number on an axis: whole, or with as many places as its size asks for.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 10.0 || (size - size.round()).abs() < 1e-9 => whole(value),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Writes microseconds in the unit that fits.
pub(super) fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "µs"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let text = match value < 9.95 && (value - value.round()).abs() > 0.049 {
        true => format!("{value:.1}"),
        false => format!("{value:.0}"),
    };
    format!("{text}\u{202f}{unit}")
}

/// Names a thing in the right number.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", whole(number as f64)),
    }
}

/// Says what a lock did to this sale, in one sentence.
pub(super) fn verdict(record: &Record) -> String {
    let totals = &record.totals;
    if record.stuck {
        let sold = count(totals.sold, "piece", "pieces");
        return format!("After {sold} nobody got the lock any more, and the sale stood still.");
    }
    if totals.oversold > 0 {
        return format!(
            "{} sold, of {} that were there: {} paid for something that does not exist.",
            whole(totals.sold as f64),
            whole(record.stock as f64),
            count(totals.oversold, "buyer", "buyers"),
        );
    }
    if totals.lost_updates > 0 {
        return format!(
            "{} sold, and the stock still counts {} of them: it was written over.",
            whole(totals.sold as f64),
            whole(totals.lost_updates as f64),
        );
    }
    if unsold(record) {
        return format!(
            "Only {} sold: {} an error, and {} left.",
            whole(totals.sold as f64),
            count(totals.errors, "buyer got", "buyers got"),
            count(totals.left, "piece is", "pieces are"),
        );
    }
    let sold = match totals.left {
        0 => format!("Exactly {} sold", whole(totals.sold as f64)),
        left => format!(
            "{} sold and {} left",
            whole(totals.sold as f64),
            whole(left as f64)
        ),
    };
    let refused = match totals.refused_stale_writes {
        0 => String::new(),
        many => format!(
            ", and {} of a holder that came too late {} refused",
            count(many, "write", "writes"),
            if many == 1 { "was" } else { "were" },
        ),
    };
    format!("{sold}: none twice, none lost{refused}.")
}

/// Whether the stock was kept: nothing sold twice, nothing lost, all sold, nobody stuck.
pub(super) fn kept(record: &Record) -> bool {
    let totals = &record.totals;
    let exact = totals.oversold == 0 && totals.lost_updates == 0;
    exact && !unsold(record) && !record.stuck && record.broken.is_empty()
}

/// Whether pieces are left although there were buyers for all of them.
pub(super) fn unsold(record: &Record) -> bool {
    record.totals.left > 0 && record.totals.requests >= record.stock
}

/// The label of a fault on a chart.
pub(super) fn fault(fault: &FaultSeen) -> String {
    let copy = fault.copy;
    let lasted = time(fault.to_us.saturating_sub(fault.from_us) as f64);
    match fault.kind {
        FaultKind::Slow => format!("slow sale in copy {copy}, {lasted}"),
        FaultKind::Pause => format!("copy {copy} frozen, {lasted}"),
        FaultKind::Kill => format!("copy {copy} killed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flash_sale::report::tests::record;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(
            escape("<b a='1' c=\"2\">&\u{7}"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn numbers_and_times_are_read_with_ease() {
        let whole = [0.0, 999.0, 1000.0, 20_000.0, -1_234_567.0].map(whole);
        assert_eq!(
            whole,
            [
                "0",
                "999",
                "1\u{202f}000",
                "20\u{202f}000",
                "−1\u{202f}234\u{202f}567"
            ]
        );
        let times = [0.0, 7.0, 999.0, 1500.0, 10_000.0, 1_000_000.0, 5_210_000.0].map(time);
        let times = times.map(|time| time.replace('\u{202f}', " "));
        assert_eq!(
            times,
            ["0 µs", "7 µs", "999 µs", "1.5 ms", "10 ms", "1 s", "5.2 s"]
        );
        assert_eq!(
            [0.5, 2.5, 3.0, 0.25].map(number),
            ["0.50", "2.5", "3", "0.25"]
        );
    }

    #[test]
    fn the_verdict_names_the_worst_first() {
        let mut record = record("none", 10);
        assert!(
            verdict(&record).starts_with("Exactly 10 sold"),
            "{}",
            verdict(&record)
        );
        assert!(kept(&record));
        record.totals.left = 4;
        record.totals.errors = 4;
        assert!(
            verdict(&record).contains("4 buyers got an error, and 4 pieces are left"),
            "{}",
            verdict(&record)
        );
        assert!(!kept(&record));
        record.totals.left = 0;
        record.totals.refused_stale_writes = 1;
        assert!(
            verdict(&record).contains("1 write of a holder"),
            "{}",
            verdict(&record)
        );
        record.totals.lost_updates = 3;
        assert!(
            verdict(&record).contains("still counts 3"),
            "{}",
            verdict(&record)
        );
        record.totals.oversold = 1;
        assert!(
            verdict(&record).contains("1 buyer paid"),
            "{}",
            verdict(&record)
        );
        assert!(!kept(&record));
        record.stuck = true;
        assert!(
            verdict(&record).contains("stood still"),
            "{}",
            verdict(&record)
        );
    }
}
