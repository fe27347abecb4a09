//! Tables and progress bars, alike in all verbs.

use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressStyle};

use tenure_cli::output::terminal_width;

/// An empty table that fits on the terminal, with these columns of numbers.
pub(crate) fn table(header: &[&str], numbers: impl IntoIterator<Item = usize>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(header);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A bar for so many steps on stderr, if that is a terminal.
pub(crate) fn progress_bar(steps: u64, unit: &str) -> ProgressBar {
    let template = format!("{{elapsed_precise}} {{bar:30}} {{pos}}/{{len}} {unit} {{msg}}");
    ticking(ProgressBar::new(steps), &template)
}

/// A line on stderr that says what goes on, if that is a terminal.
pub(crate) fn progress_line() -> ProgressBar {
    ticking(
        ProgressBar::new_spinner(),
        "{elapsed_precise} {spinner} {msg}",
    )
}

fn ticking(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

const TICK: Duration = Duration::from_millis(200);
