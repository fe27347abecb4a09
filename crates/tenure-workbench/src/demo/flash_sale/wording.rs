//! Sentences about a sale, the same on the terminal, in the report and on the live page.

use super::record::{FaultKind, FaultSeen, Outcome, Record};
use crate::demo::summary::{count, time};

/// Describes what all sales of a run have in common.
pub(super) fn setting(record: &Record) -> String {
    let front = match record.front.as_str() {
        "own" => "the built-in load balancer",
        other => other,
    };
    format!(
        "{}, {} ({} at a time), {} behind {front}; lock and stock in {}, lease {}",
        count(record.stock, "piece", "pieces"),
        count(record.buyers, "buyer", "buyers"),
        record.at_once,
        count(u64::from(record.copies), "copy", "copies"),
        record.store,
        time(record.ttl_ms * 1000),
    )
}

/// Describes in one sentence what happened to the stock, the worst first.
pub(super) fn verdict(record: &Record) -> String {
    let totals = &record.totals;
    let sold = totals.sold;
    if record.stuck {
        let sold = count(sold, "piece", "pieces");
        return format!("The sale got stuck after {sold}: nobody could take the lock any more.");
    }
    if totals.oversold > 0 {
        let buyers = count(totals.oversold, "buyer", "buyers");
        let stock = record.stock;
        return format!(
            "{sold} sold out of {stock}: {buyers} paid for a piece that does not exist."
        );
    }
    if totals.lost_updates > 0 {
        let lost = totals.lost_updates;
        return format!(
            "{sold} sold, but the stock still counts {lost} of them: updates were overwritten."
        );
    }
    if unsold(record) {
        let errors = count(totals.errors, "buyer got", "buyers got");
        let left = count(totals.left, "piece is", "pieces are");
        return format!("Only {sold} sold: {errors} an error, and {left} left.");
    }
    let sold = match totals.left {
        0 => format!("Exactly {sold} sold"),
        left => format!("{sold} sold and {left} left"),
    };
    let refused = match totals.refused_stale_writes {
        0 => String::new(),
        many => format!(", {} refused", count(many, "stale write", "stale writes")),
    };
    format!("{sold}: no piece twice, no update lost{refused}.")
}

/// Describes in a word or two what went wrong; returns `None` if the stock is exact.
pub(super) fn result(record: &Record) -> Option<String> {
    let totals = &record.totals;
    Some(match () {
        () if record.stuck => "stuck".to_owned(),
        () if totals.oversold > 0 => format!("{} oversold", totals.oversold),
        () if totals.lost_updates > 0 => format!("{} lost", totals.lost_updates),
        () if unsold(record) => format!("{} unsold", totals.left),
        () if !record.broken.is_empty() => "broken".to_owned(),
        () => return None,
    })
}

/// Returns whether pieces are left although there were buyers for all of them.
fn unsold(record: &Record) -> bool {
    record.totals.left > 0 && record.totals.requests >= record.stock
}

/// Describes what a fault did.
pub(super) fn fault(fault: &FaultSeen) -> String {
    let seconds = |us: u64| us as f64 / 1e6;
    let (copy, from) = (fault.copy, seconds(fault.from_us));
    let lasted = seconds(fault.to_us.saturating_sub(fault.from_us));
    let became = match fault.outcome {
        Outcome::Sold => "write was accepted",
        Outcome::SoldOut => "sale found nothing left",
        Outcome::Stale => "write was refused",
        Outcome::Error => "sale failed",
    };
    match fault.kind {
        FaultKind::Slow => {
            format!("after {from:.2} s a sale in copy {copy} took {lasted:.2} s; its {became}")
        }
        FaultKind::Pause => {
            let meanwhile = match fault.taken_over {
                Some(taken) => format!(
                    "; copy {} took over its lock after {:.2} s, {} meanwhile",
                    taken.copy,
                    seconds(taken.at_us),
                    count(taken.sold, "piece was sold", "pieces were sold"),
                ),
                None if fault.fence.is_some() => "; no other copy took over its lock".to_owned(),
                // Without fences it is unknown under whose lock a piece was sold.
                None => String::new(),
            };
            format!(
                "copy {copy} was frozen after {from:.2} s for {lasted:.2} s{meanwhile}; then its late {became}"
            )
        }
        FaultKind::Kill => {
            format!("copy {copy} was killed after {from:.2} s; a new process took its place")
        }
    }
}

/// Makes the text start with a capital and end with a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    let first: String = first.into_iter().flatten().collect();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::flash_sale::view::tests::record;

    #[test]
    fn the_verdict_names_the_worst_first() {
        let mut record = record("none", 10);
        let assert_says = |record: &Record, part: &str, kept: bool| {
            let verdict = verdict(record);
            assert!(verdict.contains(part), "{verdict}");
            assert_eq!(result(record).is_none(), kept, "{verdict}");
        };
        assert_says(&record, "Exactly 10 sold", true);
        record.totals.left = 4;
        record.totals.errors = 4;
        let unsold = "4 buyers got an error, and 4 pieces are left";
        assert_says(&record, unsold, false);
        record.totals.left = 0;
        record.totals.refused_stale_writes = 1;
        assert_says(&record, "1 stale write refused", true);
        record.totals.lost_updates = 3;
        assert_says(&record, "still counts 3", false);
        record.totals.oversold = 1;
        assert_says(&record, "1 buyer paid", false);
        record.stuck = true;
        assert_says(&record, "stuck after 10 pieces", false);
    }
}
