//! How far the servers' clocks differ from ours and from each other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::FromRedisValue;

use crate::doctor::{Check, Finding};
use crate::store::redis::doctor::node::{Node, said};
use crate::store::redis::url::{Host, Settings};

/// One server's clock, as seen from here.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) place: String,
    /// How far it is ahead of ours in milliseconds, and the error bound; or why it could not be read.
    pub(crate) ahead: Result<(i64, i64), String>,
}

/// Reads a server's clock; of a few tries, the one with the shortest round trip counts.
pub(crate) async fn read(node: &mut Node) -> Reading {
    let mut best: Option<(i64, i64)> = None;
    let mut trouble = "no answer".to_owned();
    for _ in 0..TRIES {
        let before = now();
        let answer = node.ask(&["TIME"]).await;
        let after = now();
        let time = answer.map_err(|error| said(&error)).and_then(|answer| {
            let time = <(u64, u64)>::from_redis_value(answer);
            time.map_err(|_| "unexpected reply".to_owned())
        });
        match time {
            Ok((seconds, micros)) => {
                let theirs = Duration::from_secs(seconds) + Duration::from_micros(micros);
                let (ahead, doubt) = offset(before, theirs, after);
                if best.is_none_or(|(_, least)| doubt < least) {
                    best = Some((ahead, doubt));
                }
            }
            Err(why) => trouble = why,
        }
    }
    Reading {
        place: node.place.clone(),
        ahead: best.ok_or(trouble),
    }
}

/// Reads the clocks of servers that may become masters.
pub(super) async fn read_all(settings: &Settings, hosts: &[Host]) -> Vec<Reading> {
    let mut readings = Vec::with_capacity(hosts.len());
    for host in hosts {
        let opened = Node::open_as(settings, host, &settings.access).await;
        readings.push(match opened {
            Ok(mut node) => read(&mut node).await,
            Err(error) => Reading {
                place: host.to_string(),
                ahead: Err(said(&error)),
            },
        });
    }
    readings
}

/// Compares the clocks with ours, and with each other.
pub(super) fn compare(readings: &[Reading]) -> Vec<Finding> {
    let mut findings = unread(readings);
    let known: Vec<_> = known(readings).collect();
    let far: Vec<_> = known
        .iter()
        .filter(|(_, ahead, doubt)| ahead.abs() - doubt > FAR_MS)
        .map(|(place, ahead, _)| {
            let way = if *ahead < 0 { "behind" } else { "ahead of" };
            format!("the clock of {place} is {} {way} that", seconds(*ahead))
        })
        .collect();
    if !far.is_empty() {
        findings.push(CHECK.warning(
            format!("{} of this machine", far.join(", ")),
            "set the clocks (NTP); leases do not depend on them, only fences, which follow the \
             server's, and people who read times",
        ));
    }
    if let Some(spread) = Spread::of(readings)
        && spread.surely_ms() > FAR_MS
    {
        findings.push(CHECK.warning(
            spread.to_string(),
            "set the clocks (NTP): a fence may become smaller when a lock moves between them",
        ));
    }
    if findings.is_empty() {
        let widest = known.iter().map(|(_, ahead, _)| ahead.abs()).max();
        let widest = seconds(widest.unwrap_or(0));
        findings.push(CHECK.fine(format!("at most {widest} from this machine's clock")));
    }
    findings
}

/// Reports the clocks that could not be read.
pub(crate) fn unread(readings: &[Reading]) -> Vec<Finding> {
    let unread = readings.iter().filter_map(|Reading { place, ahead }| {
        let why = ahead.as_ref().err()?;
        Some(CHECK.unknown(
            format!("{place}: not checked: {why}"),
            "see that the server runs and allows TIME, which locks need as well",
        ))
    });
    unread.collect()
}

/// Returns the clocks that could be read: where, how far ahead of ours, and the error bound.
fn known(readings: &[Reading]) -> impl Iterator<Item = (&str, i64, i64)> {
    readings.iter().filter_map(|Reading { place, ahead }| {
        let (ahead, doubt) = *ahead.as_ref().ok()?;
        Some((place.as_str(), ahead, doubt))
    })
}

/// The two clocks that are the farthest apart.
#[derive(Debug)]
pub(crate) struct Spread<'a> {
    fast: &'a str,
    slow: &'a str,
    pub(crate) apart_ms: i64,
    /// The error bound of that.
    pub(crate) doubt_ms: i64,
}

impl<'a> Spread<'a> {
    /// Compares the clocks that could be read; `None` if there are not two.
    pub(crate) fn of(readings: &'a [Reading]) -> Option<Self> {
        let (slow, low, one) = known(readings).min_by_key(|(_, ahead, _)| *ahead)?;
        let (fast, high, other) = known(readings).max_by_key(|(_, ahead, _)| *ahead)?;
        (known(readings).count() > 1).then_some(Self {
            fast,
            slow,
            apart_ms: high - low,
            doubt_ms: one + other,
        })
    }

    /// Returns how far they are apart at least.
    pub(crate) fn surely_ms(&self) -> i64 {
        self.apart_ms - self.doubt_ms
    }
}

impl std::fmt::Display for Spread<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { fast, slow, .. } = self;
        let apart = seconds(self.apart_ms);
        write!(f, "the clock of {fast} is {apart} ahead of {slow}'s")
    }
}

/// Returns how far ahead a clock is that was read between two moments of ours, and the error bound.
fn offset(before: Duration, theirs: Duration, after: Duration) -> (i64, i64) {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let doubt = after.saturating_sub(before) / 2;
    let ours = before + doubt;
    (millis(theirs) - millis(ours), millis(doubt) + 1)
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Formats a time for people.
pub(crate) fn seconds(millis: i64) -> String {
    match millis.unsigned_abs() {
        millis if millis < 1000 => format!("{millis} ms"),
        millis => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
    }
}

pub(crate) const CHECK: Check = Check("clock");

/// The difference from which people notice.
pub(crate) const FAR_MS: i64 = 1000;

const TRIES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    fn reading(place: &str, ahead: i64, doubt: i64) -> Reading {
        Reading {
            place: place.to_owned(),
            ahead: Ok((ahead, doubt)),
        }
    }

    #[test]
    fn the_round_trip_is_taken_into_account() {
        let ms = Duration::from_millis;
        assert_eq!(offset(ms(1000), ms(1500), ms(3000)), (-500, 1001));
        assert_eq!(offset(ms(1000), ms(9000), ms(1000)), (8000, 1));
    }

    #[test]
    fn only_what_is_surely_far_is_a_warning() {
        let verdicts = |readings: &[Reading]| {
            let found = compare(readings);
            found
                .iter()
                .map(|finding| finding.verdict)
                .collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&[reading("a", 900, 1)]), [Verdict::Fine]);
        assert_eq!(verdicts(&[reading("a", 1500, 800)]), [Verdict::Fine]);
        assert_eq!(verdicts(&[reading("a", -1500, 1)]), [Verdict::Warning]);
        let apart = [reading("a", -700, 1), reading("b", 700, 1)];
        assert_eq!(verdicts(&apart), [Verdict::Warning]);
        let silent = Reading {
            place: "a".to_owned(),
            ahead: Err("NOPERM".to_owned()),
        };
        assert_eq!(verdicts(&[silent]), [Verdict::Unknown]);
    }
}
