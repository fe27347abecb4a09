//! `tenure watch`: shows locks being acquired and released, as a screen or as lines.

mod changes;
mod plain;
#[cfg(feature = "tui")]
mod screen;
#[cfg(feature = "tui")]
mod view;

use std::process::ExitCode;
use std::time::Duration;

use tenure::Client;
use tenure::driver::Entry;

use crate::cli::WatchArgs;
use crate::duration::Rounded;
use crate::error::{Failure, Result};
use crate::pattern::Pattern;
use crate::store::Store;

/// Watches until it is ended.
pub(crate) async fn watch(store: &Store, args: WatchArgs) -> Result<ExitCode> {
    if args.every < SHORTEST_PAUSE {
        return Err(Failure::usage(format!(
            "--every is too short; write at least {}",
            Rounded(SHORTEST_PAUSE)
        )));
    }
    let watched = Watched {
        client: store.open().await?,
        pattern: Pattern::new(args.pattern.as_deref()),
    };
    if args.json {
        return plain::watch(&watched, args.every, plain::print_json).await;
    }
    #[cfg(feature = "tui")]
    if !args.plain && std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return screen::watch(watched, args.every, store.shown()).await;
    }
    plain::watch(&watched, args.every, plain::print_line).await
}

/// What to watch.
#[derive(Debug)]
struct Watched {
    client: Client,
    pattern: Pattern,
}

impl Watched {
    /// Lists the locks once.
    async fn look(&self) -> Result<Vec<Entry>> {
        let mut entries = self.client.list(None).await?;
        entries.retain(|entry| self.pattern.matches(entry.name.as_str()));
        Ok(entries)
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
