//! Tables, progress bars and names of flags, the same in all verbs.

use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};

use tenure_cli::output;

/// Returns an empty table that fits on the terminal; `numbers` are the columns that contain
/// numbers.
pub(crate) fn table(header: &[&str], numbers: impl IntoIterator<Item = usize>) -> Table {
    let mut table = output::table(header);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns a progress bar on stderr, if that is a terminal.
pub(crate) fn progress_bar(steps: u64, unit: &str) -> ProgressBar {
    let template = format!("{{elapsed_precise}} {{bar:30}} {{pos}}/{{len}} {unit} {{msg}}");
    ticking(ProgressBar::new(steps), &template)
}

/// Returns a progress line on stderr, if that is a terminal.
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

/// Returns the name that a flag has for one of its values.
pub(crate) fn flag_name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

const TICK: Duration = Duration::from_millis(200);
