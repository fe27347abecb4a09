//! The options of the command, and its output.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;

use crate::bugs::Bug;
use crate::generate::{Scope, Stores, generate};
use crate::judge::{Finding, judge};
use crate::run::run as simulate;
use crate::search::{Coverage, Search};
use crate::{shrink, story};

/// Simulates whole systems of tenure clients from seeds, and judges whether their locks kept their promises.
///
/// Each seed is one run in virtual time: a few clients with tasks that use the whole API, a
/// network, one store, several servers that vote or a database, and faults. A run that breaks a
/// promise is shrunk and told as a story, with the command that replays it.
#[derive(Debug, Parser)]
#[command(name = "tenure-sim", after_help = EXAMPLES)]
struct Options {
    /// How many seeds to run.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Replays this seed, with its story.
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How long to run, such as 60s or 10m, regardless of the number of seeds.
    #[arg(long = "for", value_parser = duration)]
    time: Option<Duration>,
    /// How many threads to use.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Continues after a finding, and counts findings by promise.
    #[arg(long)]
    keep_going: bool,
    /// Lists all seeds with findings, instead of the first few for each promise.
    #[arg(long)]
    list: bool,
    /// Excludes owners that are used more than once, and re-entry.
    #[arg(long)]
    no_owners: bool,
    /// Excludes faults.
    #[arg(long)]
    no_faults: bool,
    /// Excludes store clocks that jump forward.
    #[arg(long)]
    no_store_jumps: bool,
    /// Which stores to simulate: any, single, redlock or sql.
    #[arg(long, default_value = "any", value_parser = stores)]
    store: Stores,
    /// Tells the story of the whole run instead of the smallest one that breaks the same promise.
    #[arg(long)]
    whole: bool,
    /// Switches on a planted bug, which the run should then find.
    #[arg(long)]
    bug: Option<String>,
    /// Lists the planted bugs.
    #[arg(long)]
    bugs: bool,
}

const EXAMPLES: &str = "Examples:
  tenure-sim --seeds 100000          runs seeds 0 to 99999, stops at the first finding
  tenure-sim --for 60s --from 5000   runs for a minute, from seed 5000 on
  tenure-sim --seed 4711             replays one seed and tells its story
  tenure-sim --bugs                  lists the planted bugs
  tenure-sim --bug release-swallowed shows that the simulator finds one of them

Exit codes: 0 no promise was broken, 1 one was, 2 wrong usage.";

/// Runs the command.
///
/// # Errors
///
/// Wrong usage.
pub fn run() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if options.bugs {
        for bug in Bug::ALL {
            println!("{:<28} {}", bug.name(), bug.about());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bug = match &options.bug {
        None => None,
        Some(name) => match Bug::named(name) {
            Some(bug) => Some(bug),
            None => bail!("there is no planted bug {name:?}, --bugs lists them"),
        },
    };
    match options.seed {
        Some(seed) => Ok(replay(&options, seed, bug)),
        None => Ok(search(&options, bug)),
    }
}

fn search(options: &Options, bug: Option<Bug>) -> ExitCode {
    let search = Search {
        from: options.from,
        seeds: if options.time.is_some() {
            u64::MAX
        } else {
            options.seeds
        },
        time: options.time,
        threads: options.threads,
        bug,
        scope: options.scope(bug),
        keep_going: options.keep_going,
    };
    let start = Instant::now();
    let searched = search.run(|done, found| {
        eprint!(
            "\r{done} seeds, {:.0}/s, {} with findings ",
            speed(done, start),
            found.len()
        );
    });
    eprintln!();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} seeds in {seconds:.1} s, {:.0}/s",
        searched.seeds,
        speed(searched.seeds, start)
    );
    show(&searched.coverage);
    if options.keep_going {
        let mut by_promise = std::collections::BTreeMap::<_, Vec<u64>>::new();
        for (seed, found) in &searched.found {
            by_promise.entry(&found.promise).or_default().push(*seed);
        }
        for (promise, seeds) in by_promise {
            let first: Vec<_> = seeds
                .iter()
                .take(if options.list { usize::MAX } else { 8 })
                .map(u64::to_string)
                .collect();
            println!(
                "{promise}: {} seeds, such as {}",
                seeds.len(),
                first.join(" ")
            );
        }
    } else if let Some((seed, finding)) = searched.found.first_key_value() {
        explain(options, *seed, bug, finding);
    }
    if searched.found.is_empty() {
        println!("no promise was broken");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn replay(options: &Options, seed: u64, bug: Option<Bug>) -> ExitCode {
    let plan = generate(seed, options.scope(bug));
    let ran = simulate(&plan, bug, false);
    let (findings, _) = judge(&plan, &ran);
    let Some(finding) = findings.first() else {
        println!(
            "seed {seed}: no promise was broken in {} events",
            ran.history.len()
        );
        if options.whole {
            for line in simulate(&plan, bug, true).lines {
                println!("{:>9} µs  {}", line.at_us, line.text);
            }
        }
        return ExitCode::SUCCESS;
    };
    explain(options, seed, bug, finding);
    ExitCode::FAILURE
}

/// Tells a finding as a short story.
fn explain(options: &Options, seed: u64, bug: Option<Bug>, finding: &Finding) {
    println!("\nseed {seed} breaks a promise");
    let plan = generate(seed, options.scope(bug));
    let (plan, finding) = if options.whole {
        (plan, finding.clone())
    } else {
        shrink(&plan, finding, bug)
    };
    let ran = simulate(&plan, bug, true);
    print!("{}", story::tell(&plan, &ran.lines, &finding));
    println!("replay: {}", options.command(seed));
}

impl Options {
    fn scope(&self, bug: Option<Bug>) -> Scope {
        Scope {
            owners: !self.no_owners && bug.is_none_or(Bug::needs_owners),
            faults: !self.no_faults,
            store_jumps: !self.no_store_jumps,
            stores: bug.map_or(self.store, Bug::stores),
        }
    }

    /// Returns the command that replays a seed.
    fn command(&self, seed: u64) -> String {
        let mut command = format!("cargo run --release -p tenure-sim -- --seed {seed}");
        if self.no_owners {
            command += " --no-owners";
        }
        if self.no_faults {
            command += " --no-faults";
        }
        if self.no_store_jumps {
            command += " --no-store-jumps";
        }
        match self.store {
            Stores::Any => {}
            Stores::Single => command += " --store single",
            Stores::Redlock => command += " --store redlock",
            Stores::Sql => command += " --store sql",
        }
        if let Some(bug) = &self.bug {
            command += &format!(" --bug {bug}");
        }
        command
    }
}

fn show(coverage: &Coverage) {
    println!(
        "{} claims, {} grants, {} contended, {} losses",
        coverage.claims, coverage.granted, coverage.contended, coverage.lost
    );
    let faults: Vec<_> = coverage
        .faults
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    println!("faults: {}", faults.join(", "));
}

/// Returns the seeds per second.
fn speed(seeds: u64, start: Instant) -> f64 {
    let seeds = u32::try_from(seeds).unwrap_or(u32::MAX);
    f64::from(seeds) / start.elapsed().as_secs_f64().max(0.001)
}

/// Parses which stores to simulate.
fn stores(text: &str) -> anyhow::Result<Stores> {
    match text {
        "any" => Ok(Stores::Any),
        "single" => Ok(Stores::Single),
        "redlock" => Ok(Stores::Redlock),
        "sql" => Ok(Stores::Sql),
        _ => bail!("{text:?} is none of any, single, redlock and sql"),
    }
}

/// Parses a duration such as 60s or 10m.
fn duration(text: &str) -> anyhow::Result<Duration> {
    let at = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: u64 = number
        .parse()
        .with_context(|| format!("{text:?} does not begin with a number"))?;
    match unit {
        "s" | "" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(60 * number)),
        "h" => Ok(Duration::from_secs(3600 * number)),
        _ => bail!("{unit:?} is none of s, m and h"),
    }
}
