//! Tells people on stderr what a command waits for.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use tenure::driver::{About, Entry};
use tenure::{Client, Name};
use tokio::time::sleep;

use crate::duration::Rounded;
use crate::error::Failure;
use crate::holding::Holding;
use crate::output::{self, escape, fit, reason};

/// Runs `ask`. If it takes longer than a moment, says who holds the lock meanwhile.
///
/// On a terminal the line is updated in place, and it is gone when the wait is over. Elsewhere it is
/// printed once.
pub(crate) async fn tell_while<T>(client: &Client, name: &Name, ask: impl Future<Output = T>) -> T {
    tokio::select! {
        answer = ask => answer,
        never = tell(client, name) => match never {},
    }
}

async fn tell(client: &Client, name: &Name) -> Infallible {
    let mut line = Line::new();
    sleep(A_MOMENT).await;
    loop {
        let found = client.list(Some(name)).await;
        line.show(&match found {
            Ok(entries) => sentence(name, entries.first()),
            Err(error) => {
                let why = Failure::from(error);
                let why = why.outage().map(|why| format!(", {why}"));
                sentence(name, None) + &why.unwrap_or_default()
            }
        });
        if !line.in_place {
            return pending().await;
        }
        sleep(EVERY).await;
    }
}

/// Returns who holds the lock, since when and why, and how many wait before this process.
fn sentence(name: &Name, entry: Option<&Entry>) -> String {
    let mut text = format!("waiting for '{}'", escape(name.as_str()));
    let Some(entry) = entry else {
        return text;
    };
    let holdings = Holding::all(&entry.holders);
    if let Some(holding) = holdings.first() {
        text += &match holding.depth() {
            0 => format!(", taken for another {}", Rounded(holding.expires_in())),
            // Another program's lock does not say who holds it.
            _ if holding.first.about.pid == 0 => ", held by another program".to_owned(),
            _ => format!(
                ", held by {} for {}",
                holding.who(),
                Rounded(holding.held())
            ),
        };
        let why = reason(&holding.first.about);
        if !why.is_empty() {
            text += &format!(" ({why})");
        }
    }
    if holdings.len() > 1 {
        text += &format!(" and by {} more", holdings.len() - 1);
    }
    let own = About::this_process(None);
    let is_own = |about: &About| (&about.host, about.pid) == (&own.host, own.pid);
    let before = entry.waiters.iter().position(|one| is_own(&one.about));
    match before {
        None => {}
        Some(0) => text += ", you are next",
        Some(before) => text += &format!(", {before} before you"),
    }
    text
}

/// A line on stderr.
#[derive(Debug)]
struct Line {
    /// Whether it is updated, because stderr is a terminal on which nothing else appears.
    in_place: bool,
    shown: bool,
}

impl Line {
    fn new() -> Self {
        Self {
            in_place: io::stderr().is_terminal() && !output::is_logging(),
            shown: false,
        }
    }

    fn show(&mut self, text: &str) {
        let text = format!("tenure: {text}");
        if !self.in_place {
            anstream::eprintln!("{text}");
        } else if has_terminal() {
            self.shown = true;
            let mut stderr = io::stderr();
            // If this cannot be written, nobody reads it.
            // A line that reaches the edge would wrap.
            let _ = write!(stderr, "\r{}{CLEAR}", fit(&text, width() - 1));
            let _ = stderr.flush();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r{CLEAR}");
        }
    }
}

/// Returns whether the terminal is ours. A command in the background does not write into what its
/// user types.
fn has_terminal() -> bool {
    tcgetpgrp(rustix::stdio::stderr()).is_ok_and(|foreground| foreground == getpgrp())
}

fn width() -> usize {
    let size = tcgetwinsize(rustix::stdio::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { 80 } else { columns }
}

/// Erases the rest of the line.
const CLEAR: &str = "\x1b[K";

/// How long a wait may be silent.
const A_MOMENT: Duration = Duration::from_secs(1);

/// How often the line is updated.
const EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tenure::driver::{Holder, Waiter};
    use tenure::{ClaimId, Fence};

    use super::*;

    #[test]
    fn a_wait_says_who_holds_the_lock_since_when_and_why() {
        let name = Name::new("w").unwrap();
        assert_eq!(sentence(&name, None), "waiting for 'w'");
        let mut entry = Entry::new(name.clone());
        entry.holders.push(holder(7, "nightly"));
        let held = "waiting for 'w', held by vm/7 for 4m (nightly)";
        assert_eq!(sentence(&name, Some(&entry)), held);
        for (before, told) in [(0, ", you are next"), (2, ", 2 before you")] {
            let other = || Waiter::new(ClaimId::unique(), About::new("vm", 8));
            entry.waiters = std::iter::repeat_with(other).take(before).collect();
            let own = Waiter::new(ClaimId::unique(), About::this_process(None));
            entry.waiters.extend([own, other()]);
            assert_eq!(sentence(&name, Some(&entry)), format!("{held}{told}"));
        }
        entry.waiters.clear();
        entry.holders.push(holder(9, ""));
        assert_eq!(
            sentence(&name, Some(&entry)),
            format!("{held} and by 1 more")
        );
    }

    #[test]
    fn a_name_that_only_stays_taken_has_no_holder() {
        let name = Name::new("w").unwrap();
        let mut entry = Entry::new(name.clone());
        let mut released = holder(7, "");
        released.depth = 0;
        entry.holders.push(released);
        let said = sentence(&name, Some(&entry));
        assert_eq!(said, "waiting for 'w', taken for another 30s");
    }

    fn holder(pid: u32, why: &str) -> Holder {
        let mut about = About::new("vm", pid);
        if !why.is_empty() {
            about = about.with_reason(why);
        }
        let (claim, fence) = (ClaimId::unique(), Fence::new(1).unwrap());
        let mut holder = Holder::new(claim, fence, about, Duration::from_secs(30));
        holder.held = Duration::from_secs(240);
        holder
    }
}
