//! Redis, compared with bare locks on the same server: `SET NX PX`, and a token in a list.

use std::cell::RefCell;

use redis::{Client, RedisError};
use tenure::url::StoreUrl;

use super::prelude::*;
use crate::recipes;

mod bare;
mod control;
mod monitor;

use bare::{client, name_of};
use control::{Control, is_blocked};
use monitor::Monitor;

pub(super) const KIND: Kind = Kind {
    schemes: recipes::SCHEMES,
    plain: recipes::PLAIN_SCHEMES,
    look: |opened| match recipes::is_one_server(&opened.url) {
        true => Ok(Box::new(Redis::look(&opened.url)?)),
        false => Err(Failure::usage(
            "bench measures one Redis server; name it with --store redis://",
        )),
    },
    bare_locks: &[SET, TOKEN],
    open_bare: |lock, urls| Box::pin(bare::open(lock, urls)),
};

/// `redis:`, and a connection that only inspects.
#[derive(Debug)]
pub(super) struct Redis {
    client: Client,
    control: Control,
    layout: Layout,
    /// What the server does not permit us to see.
    missing: Option<String>,
    /// The keys of the tokens, which are removed at the end.
    tokens: RefCell<Vec<String>>,
}

impl Redis {
    /// Connects to the server of a store.
    pub(super) fn look(url: &StoreUrl) -> Result<Self> {
        let client = client(&url.reveal())?;
        let control = Control::open(&client).map_err(|error| failed(&error))?;
        let missing = missing(&client, &control);
        Ok(Self {
            client,
            control,
            layout: Layout::of(url),
            missing,
            tokens: RefCell::default(),
        })
    }
}

impl BenchStore for Redis {
    fn rows(&self) -> Vec<Row> {
        let rows = ROWS.iter().copied();
        match self.layout {
            Layout::Open => rows.collect(),
            Layout::Hash => rows.filter(|row| row.who == TENURE).collect(),
            // This layout has no visible line, so nobody can see when somebody waits.
            Layout::String => {
                let alone = [Pair, Parallel, Hot, Team, Many];
                let own = rows.filter(|row| row.who == TENURE);
                own.filter(|row| alone.contains(&row.workload)).collect()
            }
        }
    }

    fn subject(&self, label: &'static str, workload: Workload) -> Subject {
        let own = Subject {
            leases: LEASES,
            ttl: (workload == Crash).then_some(TTL),
            keep: (workload == Keep).then_some(KEEP),
            ..Subject::tenure(workload)
        };
        match (label, workload) {
            (SET, Hot | Keep) => self.subject(SET, Pair),
            (TOKEN, Keep) => self.subject(TOKEN, Handover),
            (SET | TOKEN, _) => Subject::bare(label, workload, Who::bare(label)),
            (STRING | NO_FENCES, _) => Subject {
                label,
                options: label,
                ..own
            },
            _ => own,
        }
    }

    /// Puts the only token into its list.
    fn prepare(&self, who: &Who, name: &str) -> Result<()> {
        if *who != Who::bare(TOKEN) {
            return Ok(());
        }
        self.tokens.borrow_mut().push(name.to_owned());
        let ask = |command: &redis::Cmd| self.control.ask::<()>(command);
        let put = ask(redis::cmd("DEL").arg(name))
            .and_then(|()| ask(redis::cmd("LPUSH").arg(name).arg("token")));
        put.map_err(|error| failed(&error))
    }

    fn is_blocked(&self, process: u32) -> Result<bool> {
        let listed = self.control.clients();
        // Without a list this is not known, and the pause that follows has to suffice.
        Ok(listed.map_or(true, |list| is_blocked(&list, &name_of(process))))
    }

    fn counter(&self) -> Result<Option<Box<dyn Counter>>> {
        if self.missing.is_some() {
            return Ok(None);
        }
        let monitor = Monitor::start(&self.client).map_err(|error| failed(&error))?;
        Ok(Some(Box::new(monitor)))
    }

    fn server_time(&self) -> Option<Duration> {
        self.control.server_time().ok()?
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        for key in self.tokens.borrow().iter() {
            // If this fails, a list of one word is left behind.
            let _ = self.control.ask::<()>(redis::cmd("DEL").arg(key));
        }
    }
}

/// The layout that the URL asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// None, so all of them are measured.
    Open,
    Hash,
    String,
}

impl Layout {
    fn of(url: &StoreUrl) -> Self {
        match url.option("layout") {
            Some("string") => Self::String,
            Some(_) => Self::Hash,
            None => Self::Open,
        }
    }
}

/// Tries every way to inspect the server, and returns what it refuses.
fn missing(client: &Client, control: &Control) -> Option<String> {
    let refused = |what: &str, error: RedisError| {
        format!("commands and the server's processor time may be missing: {what} failed: {error}")
    };
    if let Err(error) = control.server_time() {
        return Some(refused("INFO", error));
    }
    if let Err(error) = control.clients() {
        return Some(refused("CLIENT LIST", error));
    }
    let counted = Monitor::start(client);
    counted.err().map(|error| refused("MONITOR", error))
}

fn failed(error: &RedisError) -> Failure {
    let sentence = format!("the Redis server cannot be measured: {error}; check --store");
    Failure::unavailable(sentence)
}

pub(super) const SET: &str = "bare SET";
pub(super) const TOKEN: &str = "bare BLPOP";
const STRING: &str = "layout=string";
const NO_FENCES: &str = "layout=string&fences=off";

const LEASES: u32 = 10_000;

/// Longer than any pause between two uses in a measurement.
const KEEP: Duration = Duration::from_secs(10);

/// The ttl of a holder that is killed.
const TTL: Duration = Duration::from_secs(2);

#[rustfmt::skip] // A table: one row of the report in each line.
const ROWS: [Row; 31] = [
    row(Pair, "per_second", "lock + release", PerSecond, Some(SET), RatioAtLeast(0.9)),
    row(Pair, "per_second", STRING, PerSecond, Some(SET), RatioAtLeast(0.97)).of(STRING),
    row(Pair, "per_second", NO_FENCES, PerSecond, Some(SET), RatioAtLeast(0.97)).of(NO_FENCES),
    row(Pair, "p50_us", "p50", Micros, Some(SET), Aim::None),
    row(Pair, "p99_us", "p99", Micros, Some(SET), Aim::None),
    row(Pair, "commands_each", "commands each", Number, Some(SET), AtMost(2.0)),
    row(Pair, "commands_each", "the same, layout=string", Number, Some(SET), AtMost(2.0)).of(STRING),
    row(Pair, "server_us_each", "server time each", Micros, Some(SET), Aim::None),
    row(Keep, "per_second", "lock + release, kept", PerSecond, Some(SET), RatioAtLeast(50.0)),
    row(Keep, "p50_us", "claim of another, p50", Micros, Some(TOKEN), RatioAtMost(1.5)),
    row(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(SET), RatioAtLeast(0.5)),
    row(Parallel, "per_second", STRING, PerSecond, Some(SET), RatioAtLeast(0.9)).of(STRING),
    row(Parallel, "per_second", NO_FENCES, PerSecond, Some(SET), RatioAtLeast(0.9)).of(NO_FENCES),
    row(Parallel, "server_us_each", "server time each", Micros, Some(SET), Aim::None),
    row(Handover, "p50_us", "release to grant, p50", Micros, Some(TOKEN), RatioAtMost(1.2)),
    row(Handover, "p99_us", "release to grant, p99", Micros, Some(TOKEN), Aim::None),
    row(Handover, "commands_each", "commands each", Number, Some(TOKEN), AtMost(2.0)),
    row(Hot, "per_second", "64 tasks, one name", PerSecond, Some(SET), RatioAtLeast(40.0)),
    row(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond, Some(TOKEN), RatioAtLeast(0.97)),
    row(Crowd, "fairness", "Jain's index", Number, Some(TOKEN), AtLeast(0.99)),
    row(Crowd, "longest_wait_turns", "longest wait, in turns", Number, Some(TOKEN), AtMost(1.5)),
    row(Crowd, "commands_each", "commands each", Number, Some(TOKEN), AtMost(2.1)),
    row(Team, "ideal_percent", "64 tasks, 1 ms inside", Percent, None, AtLeast(95.0)),
    row(Crash, "p50_late_ms", "kill -9, after the ttl, p50", Millis, None, AtMost(20.0)),
    row(Crash, "worst_late_ms", "kill -9, after the ttl, worst", Millis, None, AtMost(20.0)),
    row(Idle, "commands_per_second", "200 waiters, commands", PerSecond, None, AtMost(1.0)),
    row(Idle, "cpu_percent", "of a core", Percent, None, Aim::None),
    row(Many, "cpu_percent", "10,000 leases, of a core", Percent, None, AtMost(2.0)),
    row(Many, "server_percent", "the server, of a core", Percent, None, AtMost(2.0)),
    row(Many, "bytes_per_lease", "memory per lease", Bytes, None, Aim::None),
    row(Many, "lost", "leases lost", Number, None, AtMost(0.0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_measured_alone_if_the_url_names_it() {
        let cases = [
            ("redis://x/", Layout::Open),
            ("redis://x/?prefix=a", Layout::Open),
            ("redis://x/?layout=hash", Layout::Hash),
            ("redis://x/?prefix=a&layout=string", Layout::String),
        ];
        for (url, layout) in cases {
            let parsed = StoreUrl::parse(url).unwrap();
            assert_eq!(Layout::of(&parsed), layout, "{url}");
        }
    }

    #[test]
    fn every_row_compares_those_who_are_measured() {
        for row in &ROWS {
            assert!([TENURE, STRING, NO_FENCES].contains(&row.who), "{row:?}");
            let floors = [None, Some(SET), Some(TOKEN)];
            assert!(floors.contains(&row.floor), "{row:?}");
        }
    }
}
