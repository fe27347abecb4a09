//! The watch as lines, one for each change.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure::Fence;
use tokio::time::{Instant, sleep};

use crate::error::Result;
use crate::output::{self, AboutJson, PermitsJson, escape, millis, short, visible_json, who};
use crate::watch::Watched;
use crate::watch::changes::{self, Change};

/// Prints a change.
type Print = fn(&Change) -> io::Result<()>;

/// Prints a line for each change, until nobody reads the output any more.
pub(super) async fn watch(watched: &Watched, every: Duration, print: Print) -> Result<ExitCode> {
    // Measured from before one snapshot to after the next, so that a lease that expired in between
    // counts as expired.
    let mut looked = Instant::now();
    let mut seen = watched.look().await?;
    print_all(&changes::at_first(&seen), print)?;
    let mut reachable = true;
    loop {
        sleep(every).await;
        let looks = Instant::now();
        let found = watched.look().await;
        if found.is_ok() != reachable {
            reachable = found.is_ok();
            match &found {
                Ok(_) => anstream::eprintln!("tenure: the store answers again"),
                Err(failure) => anstream::eprintln!("tenure: {failure}; looking again"),
            }
        }
        if let Ok(found) = found {
            let apart = looked.elapsed();
            looked = looks;
            print_all(&changes::between(&seen, &found, apart), print)?;
            seen = found;
        }
    }
}

fn print_all(changes: &[Change], print: Print) -> io::Result<()> {
    changes.iter().try_for_each(print)?;
    output::stdout().flush()
}

/// Prints a change for people.
pub(super) fn print_line(change: &Change) -> io::Result<()> {
    let time = clock(since_epoch());
    let (event, name) = (change.event.word(), escape(change.name.as_str()));
    let (who, owner) = (who(&change.about), short(change.owner.as_str()));
    let mut line = format!("{time} {event:8} {name}  {who}  owner {owner}");
    if let Some(fence) = change.fence {
        line += &format!("  fence {fence}");
    }
    if change.mode != tenure::driver::Mode::Exclusive {
        line += &format!("  {}", output::mode(change.mode));
    }
    if change.about.reason.is_some() {
        line += &format!("  {}", output::reason(&change.about));
    }
    writeln!(output::stdout(), "{line}")
}

/// Prints a change as a JSON object on a line of its own.
pub(super) fn print_json(change: &Change) -> io::Result<()> {
    let json = serde_json::to_string(&ChangeJson::from(change))?;
    writeln!(output::stdout(), "{}", visible_json(&json))
}

#[derive(Debug, Serialize)]
struct ChangeJson<'a> {
    at_ms: u64,
    event: &'static str,
    name: &'a str,
    owner: &'a str,
    mode: &'static str,
    #[serde(flatten)]
    permits: PermitsJson,
    fence: Option<u64>,
    #[serde(flatten)]
    about: AboutJson<'a>,
}

impl<'a> From<&'a Change> for ChangeJson<'a> {
    fn from(change: &'a Change) -> Self {
        Self {
            at_ms: millis(since_epoch()),
            event: change.event.word(),
            name: change.name.as_str(),
            owner: change.owner.as_str(),
            mode: output::word(change.mode),
            permits: change.mode.into(),
            fence: change.fence.map(Fence::get),
            about: (&change.about).into(),
        }
    }
}

fn since_epoch() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Returns the time of day in UTC.
fn clock(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_shows_the_time_of_day() {
        assert_eq!(clock(Duration::from_secs(86_400 + 3_661)), "01:01:01Z");
    }
}
