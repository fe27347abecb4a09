//! Locks as a table.

use std::io::Write;

use comfy_table::presets::{NOTHING, UTF8_FULL_CONDENSED};
use comfy_table::{ColumnConstraint, ContentArrangement, Table};
use tenure::driver::{Entry, Waiter};

use crate::duration::Rounded;
use crate::error::Result;
use crate::holding::Holding;
use crate::output::{
    escape, mode, reason, short, stdout, terminal_width, times, who, with_bold_heading,
};

/// Prints locks as a table: a row for each owner that holds one, then one for each waiter.
///
/// On a terminal each row is one line that fits, in a frame. Elsewhere it has plain columns, and
/// nothing is cut.
pub(crate) fn print_table(entries: &[Entry]) -> Result<()> {
    let mut rows = Vec::new();
    for entry in entries {
        for holding in Holding::all(&entry.holders) {
            rows.push(holder_row(entry, &holding));
        }
        for (place, waiter) in entry.waiters.iter().enumerate() {
            rows.push(waiter_row(entry, waiter, place + 1));
        }
    }
    let mut table = Table::new();
    table.set_header(HEADER).add_rows(rows);
    let text = match terminal_width() {
        Some(width) => framed(table, width),
        None => plain(table),
    };
    writeln!(stdout(), "{text}")?;
    Ok(())
}

fn plain(mut table: Table) -> String {
    table.load_style(NOTHING);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Returns the table in a frame of this width. Hides columns and cuts texts if it has to.
fn framed(mut table: Table, width: u16) -> String {
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_truncation_indicator("…");
    for row in table.row_iter_mut() {
        row.max_height(1);
    }
    let widths = table.column_max_content_widths();
    let least = |column: usize| match CAN_BE_CUT.contains(&column) {
        true => widths[column].min(READABLE),
        false => widths[column],
    };
    let mut shown: Vec<_> = (0..COLUMNS).collect();
    for hidden in HIDDEN_FIRST {
        // Each column has a space on both sides and a line on one.
        let needed: u16 = shown.iter().map(|&column| least(column) + 3).sum();
        if needed < width {
            break;
        }
        shown.retain(|&column| column != hidden);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if !shown.contains(&index) {
            column.set_constraint(ColumnConstraint::Hidden);
        } else if !CAN_BE_CUT.contains(&index) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    with_bold_heading(&table)
}

fn holder_row(entry: &Entry, holding: &Holding<'_>) -> [String; COLUMNS] {
    let first = holding.first;
    [
        escape(entry.name.as_str()),
        mode(first.mode) + &times(holding.depth()),
        holding.who(),
        Rounded(holding.held()).to_string(),
        format!("in {}", Rounded(holding.expires_in())),
        first.fence.to_string(),
        short(first.owner.as_str()),
        reason(&first.about),
    ]
}

fn waiter_row(entry: &Entry, waiter: &Waiter, place: usize) -> [String; COLUMNS] {
    [
        escape(entry.name.as_str()),
        mode(waiter.mode),
        who(&waiter.about),
        Rounded(waiter.waited).to_string(),
        format!("waits, {place}."),
        "-".to_owned(),
        short(waiter.owner.as_str()),
        reason(&waiter.about),
    ]
}

const COLUMNS: usize = 8;

const HEADER: [&str; COLUMNS] = [
    "NAME", "MODE", "WHO", "FOR", "UNTIL", "FENCE", "OWNER", "REASON",
];

/// The columns that may be cut: NAME, WHO and REASON.
const CAN_BE_CUT: [usize; 3] = [0, 2, 7];

/// The columns that are hidden on a narrow terminal, in this order: OWNER, FENCE and MODE.
const HIDDEN_FIRST: [usize; 3] = [6, 5, 1];

/// A column is not cut below this width as long as others can be hidden.
const READABLE: u16 = 12;
