//! The flags of what people look at: the report and the live page.

use std::path::PathBuf;

use clap::Args;

/// What to show besides the table.
#[derive(Debug, Clone, Args)]
pub(crate) struct LookArgs {
    /// Write the sales as charts into one HTML file
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,

    /// Show the sale on a page in the browser, where others can be started, until Ctrl-C
    ///
    /// The sale begins when the page is open, or when Enter is pressed. It takes half a minute, so that
    /// there is time to freeze and kill copies by hand.
    #[arg(long, conflicts_with = "json")]
    pub(crate) page: bool,

    /// The port of the page; any that is free if not given
    #[arg(long, value_name = "PORT", requires = "page", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) page_port: Option<u16>,
}
