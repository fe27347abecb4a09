//! The flags of the flash sale, and what they may say.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::demo::flash_sale::lock::LockKind;
use crate::demo::flash_sale::look::LookArgs;
use crate::demo::flash_sale::record::FaultKind;
use tenure_cli::duration;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// Sell out a small stock to many buyers at once
///
/// Starts several copies of a small web service, each a process of its own, and a front that spreads
/// the buyers over them. A sale reads the stock, checks it, and writes it back one lower: two copies
/// that do so at the same time sell the same piece twice. The lock keeps them apart. Inside of it a
/// nested step takes the same lock again, and the stock checks the fence of each write.
///
/// Without --store nothing of yours is touched: the locks live in a folder that is removed at the
/// end. With a Redis server as the store, the stock lives on that server too; with redlock://, on the
/// first of its servers.
///
/// Faults come in the middle of a sale, after its read and before its write.
///
/// Ends with 1 if tenure sold what was not there or lost an update, if a fault that was asked for did
/// not happen, or if with --pause no other copy took over or the late write was not refused. The other
/// locks are broken on purpose, and end with 0 whatever they do.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure demo flash-sale                                 # sells exactly 5000
  tenure demo flash-sale --lock none                     # sells more than there is
  tenure demo flash-sale --lock process --copies 3
  tenure demo flash-sale --pause --kill                  # a killed copy, and a frozen one
  tenure demo flash-sale --slow 20s --ttl 2s             # a sale that outlives its lease
  tenure demo flash-sale --store redis://127.0.0.1/
  tenure demo flash-sale --all --slow 5s --kill          # every lock side by side
  tenure demo flash-sale --json | jq .[0].totals")]
pub(crate) struct FlashSaleArgs {
    /// How many pieces there are to sell [default: 5000, with --all 500]
    #[arg(long, value_name = "NUMBER", value_parser = number(1, MOST))]
    stock: Option<u64>,

    /// How many buyers come, each with one request [default: 4 for each piece]
    #[arg(long, value_name = "NUMBER", value_parser = number(1, MOST))]
    buyers: Option<u64>,

    /// How many buyers wait for an answer at the same time [default: 64, with --page 16]
    #[arg(long, value_name = "NUMBER", value_parser = small(1, 1000))]
    at_once: Option<u32>,

    /// How many copies of the service there are
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = small(1, 64))]
    pub(crate) copies: u32,

    /// What keeps the copies apart
    #[arg(
        long,
        value_name = "LOCK",
        default_value = "tenure",
        conflicts_with = "all"
    )]
    pub(crate) lock: LockKind,

    /// Every lock in turn, side by side
    #[arg(long)]
    pub(crate) all: bool,

    /// How long a lease lasts unless renewed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "3s")]
    pub(crate) ttl: Duration,

    /// How long each sale thinks between its read and its write [default: 0ms, with --page 30s for the
    /// whole stock]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    think: Option<Duration>,

    /// One sale takes so long; its lease is renewed meanwhile
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) slow: Option<Duration>,

    /// One copy is frozen for longer than its lease lasts, then writes: the fence refuses that
    #[arg(long)]
    pub(crate) pause: bool,

    /// One copy is killed, and a new one takes its place
    #[arg(long)]
    pub(crate) kill: bool,

    /// Who spreads the buyers over the copies: nginx if it is installed, or our own
    #[arg(long, value_name = "FRONT", default_value = "auto")]
    pub(crate) front: FrontKind,

    /// The port that the buyers come to; any that is free if not given
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,

    /// Print JSON: an array of the records, one for each lock
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) look: LookArgs,
}

/// Who spreads the buyers over the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FrontKind {
    /// nginx where it is installed
    Auto,
    /// A small one of our own
    Own,
    /// nginx
    Nginx,
}

impl FlashSaleArgs {
    /// Refuses what each flag allows, but not together.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |sentence: &str| Err(Failure::new(exit_code::USAGE, sentence));
        if self.ttl < SHORTEST_TTL || self.ttl > LONGEST {
            return wrong("--ttl is between 100ms and 1h; write for example --ttl 3s");
        }
        if self.think.is_some_and(|think| think > LONGEST)
            || self.slow.is_some_and(|slow| slow > LONGEST)
        {
            return wrong("--think and --slow are at most 1h; write for example --slow 20s");
        }
        if self.slow.is_some_and(|slow| slow.is_zero()) {
            return wrong("--slow 0s is not slow; write for example --slow 20s");
        }
        if self.slow.is_some() && !self.all && self.lock == LockKind::None {
            return wrong("--slow needs a lock that somebody waits for; name another than none");
        }
        if self.pause && self.copies < 2 {
            return wrong("--pause needs another copy that goes on meanwhile; write --copies 2");
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

    /// How many pieces there are to sell.
    pub(crate) fn stock(&self) -> u64 {
        let usual = match self.all {
            // The slowest lock decides how long it takes.
            true => 500,
            false => 5000,
        };
        self.stock.unwrap_or(usual)
    }

    /// How many buyers come.
    pub(crate) fn buyers(&self) -> u64 {
        let usual = 4 * self.stock();
        self.buyers.unwrap_or_else(|| usual.min(MOST))
    }

    /// How many buyers wait for an answer at the same time.
    pub(crate) fn at_once(&self) -> u32 {
        let usual = match self.look.page {
            // Without a lock all of them sell at the same time: fewer buyers keep that sale visible.
            true => 16,
            false => 64,
        };
        self.at_once.unwrap_or(usual)
    }

    /// How long each sale thinks between its read and its write.
    pub(crate) fn think(&self) -> Duration {
        let usual = match self.look.page {
            true => {
                let pieces = u32::try_from(self.stock()).unwrap_or(u32::MAX);
                (PAGED / pieces).max(SHORTEST_THINK)
            }
            false => Duration::ZERO,
        };
        self.think.unwrap_or(usual)
    }

    /// The faults that were asked for.
    pub(crate) fn faults(&self) -> Vec<FaultKind> {
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
/// The resolution of a copy's timer.
const SHORTEST_THINK: Duration = Duration::from_millis(1);
const SHORTEST_TTL: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);
const MOST: u64 = 1_000_000;
const FEWEST_FOR_FAULTS: u64 = 10;
