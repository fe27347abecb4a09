//! The flags of the flash sale, and their checks.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::lock_kind::LockKind;
use super::record::FaultKind;
use tenure_cli::{Failure, Result, duration};

/// Sell out a small stock to many buyers at once
///
/// Starts several copies of a small web service, each in its own process, and a load balancer in front
/// of them. A sale reads the stock, checks it, and writes it back one lower: two copies that do so at
/// the same time sell the same piece twice. The lock prevents that. While it is held, a nested step
/// takes the same lock again, and the stock checks the fence of each write.
///
/// Without --store nothing of yours is touched: the locks live in a directory that is removed at the
/// end. With a Redis server or a database as the store, the stock lives there too; with redlock://, on
/// the first of its servers.
///
/// Faults happen in the middle of a sale, after its read and before its write.
///
/// Exits with 1 if tenure oversold or lost an update, if a requested fault did not happen, or if with
/// --pause no other copy took over or the late write was not refused. The other locks exit with 0
/// whatever they do: most of them are broken on purpose.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure demo flash-sale                                 # sells exactly 5000
  tenure demo flash-sale --lock none                     # sells more than there is
  tenure demo flash-sale --lock process --copies 3
  tenure demo flash-sale --pause --kill                  # a killed copy, and a frozen one
  tenure demo flash-sale --slow 20s --ttl 2s             # a sale that outlives its lease
  tenure demo flash-sale --store redis://127.0.0.1/
  tenure demo flash-sale --store postgres://user:password@127.0.0.1/database --all
  tenure demo flash-sale --lock optimistic               # a version instead of a lock, on MariaDB
  tenure demo flash-sale --all --slow 5s --kill          # every lock side by side
  tenure demo flash-sale --json | jq .[0].totals")]
pub(crate) struct FlashSaleArgs {
    /// Pieces to sell [default: 5000, with --all 500]
    #[arg(long, value_name = "NUMBER", value_parser = number(1, MOST))]
    stock: Option<u64>,

    /// Buyers, each with one request [default: 4 for each piece]
    #[arg(long, value_name = "NUMBER", value_parser = number(1, MOST))]
    buyers: Option<u64>,

    /// Requests in flight at the same time [default: 64, with --page 16]
    #[arg(long, value_name = "NUMBER", value_parser = small(1, 1000))]
    at_once: Option<u32>,

    /// Copies of the service
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = small(1, 64))]
    pub(super) copies: u32,

    /// The lock that the copies use
    #[arg(
        long,
        value_name = "LOCK",
        default_value = "tenure",
        conflicts_with = "all"
    )]
    pub(super) lock: LockKind,

    /// Every lock that works on the store in turn, side by side; without --store, on a Redis server
    #[arg(long)]
    pub(super) all: bool,

    /// How long a lease lasts unless renewed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "3s")]
    pub(super) ttl: Duration,

    /// How long each sale takes between its read and its write [default: 0ms, with --page 30s for the
    /// whole stock]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    think: Option<Duration>,

    /// One sale takes this long; its lease is renewed meanwhile
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(super) slow: Option<Duration>,

    /// One copy is frozen for longer than its lease lasts, then writes: the fence refuses the write
    #[arg(long)]
    pub(super) pause: bool,

    /// One copy is killed, and a new process takes its place
    #[arg(long)]
    pub(super) kill: bool,

    /// The load balancer: nginx if it is installed, or the built-in one
    #[arg(long, value_name = "FRONT", default_value = "auto")]
    pub(super) front: FrontKind,

    /// The port of the load balancer [default: any free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: Option<u16>,

    /// Print JSON: an array of the records, one for each lock
    #[arg(long)]
    pub(super) json: bool,

    /// Write the sales as charts into one HTML file
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,

    /// Show the sale on a page in the browser, where others can be started, until Ctrl-C
    ///
    /// The sale begins when the page is open, or when Enter is pressed. It takes half a minute, so that
    /// there is time to freeze and kill copies by hand.
    #[arg(long, conflicts_with = "json")]
    pub(super) page: bool,

    /// The port of the page [default: any free port]
    #[arg(long, value_name = "PORT", requires = "page", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) page_port: Option<u16>,
}

/// The load balancer in front of the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FrontKind {
    /// nginx if it is installed
    Auto,
    /// The built-in one
    Own,
    /// nginx
    Nginx,
}

impl FlashSaleArgs {
    /// Checks the flags that depend on each other.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |sentence: &str| Err(Failure::usage(sentence));
        if self.ttl < SHORTEST_TTL || self.ttl > LONGEST {
            return wrong("--ttl must be between 100ms and 1h; write for example --ttl 3s");
        }
        if self.think.is_some_and(|think| think > LONGEST)
            || self.slow.is_some_and(|slow| slow > LONGEST)
        {
            return wrong("--think and --slow must be at most 1h; write for example --slow 20s");
        }
        if self.slow.is_some_and(|slow| slow.is_zero()) {
            return wrong("--slow must be longer than 0s; write for example --slow 20s");
        }
        if self.slow.is_some() && !self.all && self.lock == LockKind::None {
            return wrong("--slow needs a lock that others wait for; choose another --lock");
        }
        if self.pause && self.copies < 2 {
            return wrong("--pause needs another copy that takes over; write --copies 2");
        }
        if self.stock() < FEWEST_FOR_FAULTS && !self.faults().is_empty() {
            return wrong("a fault needs a sale to happen in; write --stock 10 or more");
        }
        if self.buyers() < self.stock() && !self.faults().is_empty() {
            return wrong(
                "a fault needs enough buyers; write at least as many --buyers as --stock",
            );
        }
        Ok(())
    }

    /// Returns the number of pieces to sell.
    pub(super) fn stock(&self) -> u64 {
        let usual = match self.all {
            // The slowest lock decides how long it takes.
            true => 500,
            false => 5000,
        };
        self.stock.unwrap_or(usual)
    }

    /// Returns the number of buyers, each with one request.
    pub(super) fn buyers(&self) -> u64 {
        let usual = 4 * self.stock();
        self.buyers.unwrap_or_else(|| usual.min(MOST))
    }

    /// Returns the number of requests in flight at the same time.
    pub(super) fn at_once(&self) -> u32 {
        let usual = match self.page {
            // Without a lock all of them sell at the same time: fewer buyers keep that sale visible.
            true => 16,
            false => 64,
        };
        self.at_once.unwrap_or(usual)
    }

    /// Returns how long each sale takes between its read and its write.
    pub(super) fn think(&self) -> Duration {
        let usual = match self.page {
            true => {
                let pieces = u32::try_from(self.stock()).unwrap_or(u32::MAX);
                (PAGED / pieces).max(SHORTEST_THINK)
            }
            false => Duration::ZERO,
        };
        self.think.unwrap_or(usual)
    }

    /// Returns the requested faults.
    pub(super) fn faults(&self) -> Vec<FaultKind> {
        let asked = [
            (self.kill, FaultKind::Kill),
            (self.slow.is_some(), FaultKind::Slow),
            (self.pause, FaultKind::Pause),
        ];
        let asked = asked.into_iter().filter(|(asked, _)| *asked);
        asked.map(|(_, kind)| kind).collect()
    }
}

fn number(least: u64, most: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(least..=most)
}

fn small(least: i64, most: i64) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(least..=most)
}

/// How long the stock lasts on the page, so that there is time to freeze and kill copies by hand.
const PAGED: Duration = Duration::from_secs(30);
/// The resolution of the timer.
const SHORTEST_THINK: Duration = Duration::from_millis(1);
const SHORTEST_TTL: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);
const MOST: u64 = 1_000_000;
const FEWEST_FOR_FAULTS: u64 = 10;
