//! The flags of what people look at: the report and the live page.

use std::path::PathBuf;

use clap::Args;

/// What to show besides the table.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShownArgs {
    /// Write the sales as charts into one HTML file
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}
