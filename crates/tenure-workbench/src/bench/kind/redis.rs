//! Redis, beside bare locks on the same server: `SET NX PX`, and a token in a list.

use std::cell::RefCell;
use std::time::Duration;

use redis::{Client, RedisError};

use crate::bench::contender::redis::{client, name_of};
use crate::bench::kind::{Counter, Kind, Subject, TENURE};
use crate::bench::line::Aim::{AtLeast, AtMost, RatioAtLeast, RatioAtMost};
use crate::bench::line::Line;
use crate::bench::line::Unit::{Bytes, Micros, Millis, Number, PerSecond, Percent};
use crate::bench::wire::Who;
use crate::bench::workload::Workload::{
    self, Crash, Crowd, Dead, Handover, Hot, Idle, Keep, Many, Pair, Parallel, Slow, Team,
};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod control;
mod monitor;

use control::{Control, is_blocked};
use monitor::Monitor;

/// `redis:` and a connection that only looks.
#[derive(Debug)]
pub(super) struct Redis {
    client: Client,
    control: Control,
    layout: Layout,
    /// What the server does not let us see.
    missing: Option<String>,
    /// The keys of the tokens, which are removed at the end.
    tokens: RefCell<Vec<String>>,
}

impl Redis {
    /// Connects to the server of a store.
    pub(super) fn look(url: &str) -> Result<Self> {
        let client = client(url)?;
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

    fn tenure(&self, workload: Workload) -> Vec<Subject> {
        let usual = Subject {
            leases: LEASES,
            ttl: (workload == Crash).then_some(TTL),
            keep: (workload == Keep).then_some(KEEP),
            ..Subject::tenure(workload)
        };
        let with = |label| Subject {
            label,
            options: label,
            ..usual.clone()
        };
        if self.layout == Layout::Open && matches!(workload, Pair | Parallel) {
            return vec![usual.clone(), with(STRING), with(NO_FENCES)];
        }
        vec![usual]
    }
}

impl Kind for Redis {
    fn lines(&self) -> Vec<Line> {
        let lines = LINES.iter().copied();
        match self.layout {
            Layout::Open => lines.collect(),
            Layout::Hash => lines.filter(|line| line.who == TENURE).collect(),
            // It has no line that could be seen, so nobody knows when somebody waits.
            Layout::String => {
                let alone = [Pair, Parallel, Hot, Team, Many];
                let own = lines.filter(|line| line.who == TENURE);
                own.filter(|line| alone.contains(&line.workload)).collect()
            }
        }
    }

    fn subjects(&self, workload: Workload) -> Vec<Subject> {
        let set = |workload| bare(SET, workload, Who::RedisSet);
        let token = |workload| bare(TOKEN, workload, Who::RedisToken);
        let floors = match workload {
            Pair | Hot => vec![set(Pair)],
            Keep => vec![set(Pair), token(Handover)],
            Parallel => vec![set(workload)],
            Handover | Crowd => vec![token(workload)],
            Crash | Dead | Idle | Many | Slow | Team => Vec::new(),
        };
        let own = self.tenure(workload).into_iter();
        own.chain(floors).collect()
    }

    /// Puts the one token into its list.
    fn prepare(&self, who: &Who, name: &str) -> Result<()> {
        if *who != Who::RedisToken {
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
        // Without a list we cannot know, and the pause that follows has to do.
        Ok(listed.map_or(true, |list| is_blocked(&list, &name_of(process))))
    }

    fn changes(&self) -> Option<u64> {
        None
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
            // What cannot be removed is a list of one word.
            let _ = self.control.ask::<()>(redis::cmd("DEL").arg(key));
        }
    }
}

/// What the URL says about the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Nothing, so that all of them are measured.
    Open,
    Hash,
    String,
}

impl Layout {
    fn of(url: &str) -> Self {
        let (_, options) = url.split_once('?').unwrap_or_default();
        let mut options = options.split('&');
        match options.find_map(|option| option.strip_prefix("layout=")) {
            Some("string") => Self::String,
            Some(_) => Self::Hash,
            None => Self::Open,
        }
    }
}

fn bare(label: &'static str, workload: Workload, who: Who) -> Subject {
    Subject {
        label,
        who,
        ..Subject::tenure(workload)
    }
}

/// Tries all that looks at the server, and returns what is refused.
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
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

const SET: &str = "bare SET";
const TOKEN: &str = "bare BLPOP";
const STRING: &str = "layout=string";
const NO_FENCES: &str = "layout=string&fences=off";

const LEASES: u32 = 10_000;

/// Longer than any measurement waits between two uses.
const KEEP: Duration = Duration::from_secs(10);

/// Of a holder that is killed.
const TTL: Duration = Duration::from_secs(2);

const LINES: [Line; 31] = [
    Line::new(Pair, "per_second", "lock + release", PerSecond)
        .beside(SET)
        .aims(RatioAtLeast(0.9)),
    Line::new(Pair, "per_second", STRING, PerSecond)
        .of(STRING)
        .beside(SET)
        .aims(RatioAtLeast(0.97)),
    Line::new(Pair, "per_second", NO_FENCES, PerSecond)
        .of(NO_FENCES)
        .beside(SET)
        .aims(RatioAtLeast(0.97)),
    Line::new(Pair, "p50_us", "p50", Micros).beside(SET),
    Line::new(Pair, "p99_us", "p99", Micros).beside(SET),
    Line::new(Pair, "commands_each", "commands each", Number)
        .beside(SET)
        .aims(AtMost(2.0)),
    Line::new(Pair, "commands_each", "the same, layout=string", Number)
        .of(STRING)
        .beside(SET)
        .aims(AtMost(2.0)),
    Line::new(Pair, "server_us_each", "server time each", Micros).beside(SET),
    Line::new(Keep, "per_second", "lock + release, kept", PerSecond)
        .beside(SET)
        .aims(RatioAtLeast(50.0)),
    Line::new(Keep, "p50_us", "claim of another, p50", Micros)
        .beside(TOKEN)
        .aims(RatioAtMost(1.5)),
    Line::new(Parallel, "per_second", "64 tasks, 64 names", PerSecond)
        .beside(SET)
        .aims(RatioAtLeast(0.5)),
    Line::new(Parallel, "per_second", STRING, PerSecond)
        .of(STRING)
        .beside(SET)
        .aims(RatioAtLeast(0.9)),
    Line::new(Parallel, "per_second", NO_FENCES, PerSecond)
        .of(NO_FENCES)
        .beside(SET)
        .aims(RatioAtLeast(0.9)),
    Line::new(Parallel, "server_us_each", "server time each", Micros).beside(SET),
    Line::new(Handover, "p50_us", "release to grant, p50", Micros)
        .beside(TOKEN)
        .aims(RatioAtMost(1.2)),
    Line::new(Handover, "p99_us", "release to grant, p99", Micros).beside(TOKEN),
    Line::new(Handover, "commands_each", "commands each", Number)
        .beside(TOKEN)
        .aims(AtMost(2.0)),
    Line::new(Hot, "per_second", "64 tasks, one name", PerSecond)
        .beside(SET)
        .aims(RatioAtLeast(40.0)),
    Line::new(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond)
        .beside(TOKEN)
        .aims(RatioAtLeast(0.97)),
    Line::new(Crowd, "fairness", "Jain's index", Number)
        .beside(TOKEN)
        .aims(AtLeast(0.99)),
    Line::new(
        Crowd,
        "longest_wait_turns",
        "longest wait, in turns",
        Number,
    )
    .beside(TOKEN)
    .aims(AtMost(1.5)),
    Line::new(Crowd, "commands_each", "commands each", Number)
        .beside(TOKEN)
        .aims(AtMost(2.1)),
    Line::new(Team, "ideal_percent", "64 tasks, 1 ms inside", Percent).aims(AtLeast(95.0)),
    Line::new(Crash, "p50_late_ms", "kill -9, after the ttl, p50", Millis).aims(AtMost(20.0)),
    Line::new(
        Crash,
        "worst_late_ms",
        "kill -9, after the ttl, worst",
        Millis,
    )
    .aims(AtMost(20.0)),
    Line::new(
        Idle,
        "commands_per_second",
        "200 waiters, commands",
        PerSecond,
    )
    .aims(AtMost(1.0)),
    Line::new(Idle, "cpu_percent", "of a core", Percent),
    Line::new(Many, "cpu_percent", "10,000 leases, of a core", Percent).aims(AtMost(2.0)),
    Line::new(Many, "server_percent", "the server, of a core", Percent).aims(AtMost(2.0)),
    Line::new(Many, "bytes_per_lease", "memory per lease", Bytes),
    Line::new(Many, "lost", "leases lost", Number).aims(AtMost(0.0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_measured_alone_if_the_url_names_it() {
        assert_eq!(Layout::of("redis://x/"), Layout::Open);
        assert_eq!(Layout::of("redis://x/?prefix=a"), Layout::Open);
        assert_eq!(Layout::of("redis://x/?layout=hash"), Layout::Hash);
        assert_eq!(
            Layout::of("redis://x/?prefix=a&layout=string"),
            Layout::String
        );
    }

    #[test]
    fn every_line_compares_those_who_are_measured() {
        for line in &LINES {
            assert!([TENURE, STRING, NO_FENCES].contains(&line.who), "{line:?}");
            let floors = [None, Some(SET), Some(TOKEN)];
            assert!(floors.contains(&line.floor), "{line:?}");
        }
    }
}
