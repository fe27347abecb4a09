//! Parses the replies of `look.lua` and `evict.lua`: who holds a name and who waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{FromRedisValue, Value};

use crate::driver::{About, Entry, Holder, Life, Mode, Waiter};
use crate::name::{ClaimId, Fence, Name, Owner};

/// The state of one name in the server.
#[derive(Debug)]
pub(crate) struct Snapshot {
    now_us: u64,
    left_ms: u64,
    lease: HashMap<String, String>,
    ends: Vec<(String, u64)>,
    line: Vec<String>,
    places: HashMap<String, String>,
    /// The number of subscribers of each waiter's inbox; empty if unknown.
    listeners: Vec<u64>,
}

/// The reply of the scripts: the server's time, the ttl of the lease's key, the lease, the ends,
/// the line, the places and the subscribers.
type Answer = (
    u64,
    i64,
    HashMap<String, String>,
    Vec<(String, f64)>,
    Vec<String>,
    HashMap<String, String>,
    Vec<u64>,
);

impl Snapshot {
    /// Parses a script's reply; `None` if it is malformed.
    pub(crate) fn read(answer: Value) -> Option<Self> {
        let (now_us, left_ms, lease, ends, line, places, listeners): Answer =
            FromRedisValue::from_redis_value(answer).ok()?;
        let ends = ends.into_iter().map(|(id, end)| Some((id, whole(end)?)));
        Some(Self {
            now_us,
            // Negative for a key that does not exist or does not expire.
            left_ms: u64::try_from(left_ms).unwrap_or(0),
            lease,
            ends: ends.collect::<Option<_>>()?,
            line,
            places,
            listeners,
        })
    }

    /// Returns who holds the name and who waits.
    pub(crate) fn entry(&self, name: Name) -> Entry {
        Entry {
            name,
            holders: self.holders(),
            waiters: self.waiters(),
        }
    }

    /// Lists the holders, oldest first.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        match self.lease.get("\u{1}") {
            Some(head) if head.starts_with('M') => self.many(),
            Some(head) => self.plain(head).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn plain(&self, head: &str) -> Option<Holder> {
        let (claim, depth) = self
            .lease
            .iter()
            .find(|(field, _)| !field.starts_with(|letter: char| letter.is_control()))?;
        let mut words = head.splitn(4, ' ');
        // A fence is the time of its grant, or slightly later after a burst of grants.
        let (fence, who) = (words.next()?, words.next()?);
        let about = words.nth(1)?;
        Some(Holder {
            claim: ClaimId::new(claim).ok()?,
            owner: Owner::shown(claim),
            mode: Mode::Exclusive,
            fence: Fence::new(fence.parse().ok()?)?,
            depth: depth.parse().ok()?,
            life: life(who),
            about: read_about(about),
            held: self.since(fence)?,
            expires_in: Duration::from_millis(self.left_ms),
        })
    }

    fn many(&self) -> Vec<Holder> {
        let alive = |(_, end): &&(String, u64)| end.saturating_mul(1000) > self.now_us;
        let alive = self.ends.iter().filter(alive);
        let mut found: Vec<_> = alive
            .filter_map(|(id, end)| self.one_of_many(id, *end))
            .collect();
        found.sort_by_key(|(since, holder)| (*since, holder.fence));
        let mut holders: Vec<_> = found.into_iter().map(|(_, holder)| holder).collect();
        // The owner's field also counts expired claims, until the next change of the name.
        count_owners(&mut holders);
        holders
    }

    /// Returns one of several holders and when it was granted; its depth counts itself only.
    fn one_of_many(&self, id: &str, end: u64) -> Option<(u64, Holder)> {
        let (who, claim) = id.split_once(':')?;
        let (part, owner) = split_owner(self.lease.get(&format!("\u{3}{id}"))?, claim);
        let mut words = part.splitn(4, ' ');
        let (fence, _, since) = (words.next()?, words.next()?, words.next()?);
        let about = words.next()?;
        let (grant, depth) = match who {
            "!" => (format!("\u{4}{fence}"), 0),
            _ => (format!("\u{2}{owner}"), 1),
        };
        let (_, mode) = self.lease.get(&grant)?.split_once(' ')?;
        let end = Duration::from_millis(end);
        let holder = Holder {
            claim: ClaimId::new(claim).ok()?,
            owner: Owner::shown(owner),
            mode: read_mode(mode)?,
            fence: Fence::new(fence.parse().ok()?)?,
            depth,
            life: life(who),
            about: read_about(about),
            held: self.since(since)?,
            expires_in: end.saturating_sub(Duration::from_micros(self.now_us)),
        };
        Some((since.parse().ok()?, holder))
    }

    /// Lists the live waiters, first to last.
    fn waiters(&self) -> Vec<Waiter> {
        let line = self.line.iter().enumerate();
        let here = line.filter(|(index, _)| self.listeners.get(*index) != Some(&0));
        here.filter_map(|(_, id)| self.waiter(id)).collect()
    }

    fn waiter(&self, id: &str) -> Option<Waiter> {
        let (_, claim) = id.split_once(':')?;
        let (place, owner) = split_owner(self.places.get(id)?, claim);
        let words: Vec<_> = place.splitn(9, ' ').collect();
        let [mode, _, _, _, _, asked, _, deadline, about] = words[..] else {
            return None;
        };
        let deadline: u64 = deadline.parse().ok()?;
        (deadline.saturating_mul(1000) > self.now_us).then_some(())?;
        Some(Waiter {
            claim: ClaimId::new(claim).ok()?,
            owner: Owner::shown(owner),
            mode: read_mode(mode)?,
            about: read_about(about),
            waited: self.since(asked)?,
        })
    }

    fn since(&self, micros: &str) -> Option<Duration> {
        let since: u64 = micros.parse().ok()?;
        Some(Duration::from_micros(self.now_us.saturating_sub(since)))
    }
}

/// Sets the depth of each holder to the number of live claims that its owner has among them.
pub(crate) fn count_owners(holders: &mut [Holder]) {
    let mut depths: HashMap<Owner, u32> = HashMap::new();
    for holder in holders.iter().filter(|holder| holder.depth > 0) {
        *depths.entry(holder.owner.clone()).or_default() += 1;
    }
    for holder in holders.iter_mut().filter(|holder| holder.depth > 0) {
        holder.depth = depths[&holder.owner];
    }
}

/// Splits off the owner of a claim; a claim without an owner is its own.
fn split_owner<'a>(text: &'a str, claim: &'a str) -> (&'a str, &'a str) {
    text.split_once('\n').unwrap_or((text, claim))
}

/// Returns what ends the lease, for a lease of a client, of nobody, or of a name that stays taken.
fn life(who: &str) -> Life {
    match who {
        "-" | "!" => Life::Ttl,
        _ => Life::Client,
    }
}

/// Formats a mode for the scripts.
pub(crate) fn write_mode(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "x".to_owned(),
        Mode::Shared => "s".to_owned(),
        Mode::Permits { take, of } => format!("p{take}/{of}"),
    }
}

fn read_mode(text: &str) -> Option<Mode> {
    match text {
        "x" => Some(Mode::Exclusive),
        "s" => Some(Mode::Shared),
        _ => {
            let (take, of) = text.strip_prefix('p')?.split_once('/')?;
            let (take, of) = (take.parse().ok()?, of.parse().ok()?);
            Some(Mode::Permits { take, of })
        }
    }
}

/// Formats who asks: the process, the machine, and the reason if there is one.
pub(crate) fn write_about(about: &About) -> String {
    let About { reason, host, pid } = about;
    // Host names have no spaces; one that does must not be parsed as a reason.
    let host = if host.contains(' ') { "?" } else { host };
    match reason {
        Some(reason) => format!("{pid} {host} {reason}"),
        None => format!("{pid} {host}"),
    }
}

fn read_about(text: &str) -> About {
    let mut words = text.splitn(3, ' ');
    let pid = words.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
    let host: Arc<str> = words.next().unwrap_or_default().into();
    let reason = words.next().map(Into::into);
    About { reason, host, pid }
}

/// Converts a score to a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time in milliseconds, far below what the type holds"
)]
fn whole(number: f64) -> Option<u64> {
    number.is_finite().then_some(number as u64)
}
