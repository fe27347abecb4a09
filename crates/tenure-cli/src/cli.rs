//! The flags and verbs of `tenure`, and what each verb calls.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use tokio::runtime::Runtime;

use crate::ask::Ask;
use crate::error::Result;
use crate::store::{self, Store};
use crate::workbench::{WorkbenchArgs, become_workbench};
use crate::{by_hand, doctor, duration, exit_code, inspect, output, pages, run, usage, watch};

/// Locks that hold across processes and machines.
///
/// `tenure run NAME -- COMMAND` waits until nobody else holds NAME, runs COMMAND while holding it,
/// and releases NAME when COMMAND ends, however it ends. Others that ask for NAME wait in line, first
/// come, first served.
#[derive(Debug, Parser)]
#[command(
    name = "tenure",
    version,
    max_term_width = 100,
    subcommand_required = true
)]
#[command(after_long_help = after_help())]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    store: Store,

    /// Read the password of the store from the first line of this file, if its URL has none; else it
    /// is taken from TENURE_PASSWORD
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        display_order = 900,
        env = store::PASSWORD_FILE,
        hide_env_values = true
    )]
    password_file: Option<PathBuf>,

    /// Say on stderr what is asked and answered (TENURE_LOG sets how much)
    #[arg(short, long, global = true, display_order = 901)]
    verbose: bool,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(RunArgs),
    Acquire(AcquireArgs),
    Renew(RenewArgs),
    Release(ReleaseArgs),
    Ls(LsArgs),
    Show(ShowArgs),
    Watch(WatchArgs),
    Evict(EvictArgs),
    Doctor(DoctorArgs),
    #[command(hide = true)]
    Bench(WorkbenchArgs),
    #[command(hide = true)]
    Demo(WorkbenchArgs),
    #[command(hide = true)]
    Lab(WorkbenchArgs),
    #[command(hide = true)]
    Torture(WorkbenchArgs),
    /// Print completions for a shell
    #[command(after_long_help = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    #[command(after_long_help = "\
Examples:
  tenure man | man -l -
  tenure man > ~/.local/share/man/man1/tenure.1")]
    Man,
}

impl Verb {
    /// Returns whether the user wants to see errors alone.
    fn is_quiet(&self) -> bool {
        match self {
            Self::Run(args) => args.ask.quiet,
            Self::Acquire(args) => args.ask.quiet,
            _ => false,
        }
    }
}

/// Hold a lock around a command
///
/// Waits in line for NAME, starts COMMAND, renews the lease while it runs, and releases it when it
/// ends. The exit code is COMMAND's; if a signal ends COMMAND, `tenure` releases the lock and dies by
/// the same signal, so that ctrl-c also ends the script around it. COMMAND finds TENURE_NAME, TENURE_OWNER, TENURE_FENCE and
/// the TENURE_STORE of --store in its environment; the fence is a number that grows with every grant: send it along with what you
/// write, and let the receiver refuse smaller ones.
///
/// Inside COMMAND, `tenure run NAME` would wait for ever and so is refused; to enter again, use
/// --owner "$TENURE_OWNER".
///
/// COMMAND runs in a process group of its own. Signals are passed on to the whole group. If the
/// lease cannot be renewed, or --max-hold is reached, the group is sent TERM while --grace is left
/// (but not before two thirds of the time are over) and KILL when the lease ends, so that it is gone
/// before another can hold NAME. If an operator evicts NAME, others may hold it at once: the group
/// is sent TERM immediately, and KILL after --grace. If `tenure` is killed with -9, the group is
/// killed too. Processes that have left the group, as daemons do, or that run as another user are
/// not reached.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure run nightly-backup -- ./backup.sh
  tenure run deploy --wait 10m --reason 'release 1.4' -- make deploy
  tenure run report --no-wait --at-least 1m -- ./report   # from cron on many machines
  tenure run report --no-wait --busy-code 0 --quiet -- ./report   # no mail if it runs elsewhere
  tenure run gpu --permits 1/4 -- ./train
  tenure run catalog --shared -- ./read-only-job
  tenure run stock -- sh -c 'psql -v fence=$TENURE_FENCE -f sell.sql'")]
pub(crate) struct RunArgs {
    /// What to lock
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) ask: Ask,

    /// Keep NAME taken for at least this long, even if COMMAND ends sooner
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,

    /// End COMMAND rather than hold NAME for longer
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// How long COMMAND has between TERM and KILL when the lock is lost
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5s")]
    pub(crate) grace: Duration,

    /// The exit code if the lock is busy or not free in time
    #[arg(long, value_name = "CODE", default_value_t = exit_code::BUSY)]
    pub(crate) busy_code: u8,

    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Take a lock by hand, for scripts
///
/// Prints the name, owner, claim, fence, ttl and the URL of --store, as assignments for a shell. The
/// lease belongs to no process: it lasts for its ttl unless renewed, whichever process exits. Anybody
/// who knows the owner can renew and release it. An owner that acquires a lock three times has three
/// leases, to be released one by one. A script that acquires several locks gives each of its calls the
/// same --owner.
///
/// On failure it prints a line that ends the script that evaluates it, with the same exit code (an
/// interactive shell stays open). If the output cannot be written, the lock is released.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lease=$(tenure acquire job --ttl 60s) || exit   # ends the script if there is no lock
  eval \"$lease\"                                   # exports TENURE_OWNER, TENURE_FENCE and more
  trap 'tenure release job' EXIT
  trap 'exit 1' INT TERM HUP                      # sh runs no EXIT trap when a signal ends it
  tenure renew job                                # for another 60s
  if lease=$(tenure acquire job --no-wait); then eval \"$lease\"; else echo busy; fi
  tenure acquire deploy --no-wait --json | jq -r .owner")]
pub(crate) struct AcquireArgs {
    /// What to lock
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) ask: Ask,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restart the ttl of a lock that was acquired by hand
///
/// Renews all leases of the owner, unless --claim or --fence says which. Ends with 76 if the owner does
/// not hold the lock any more; nothing is changed then. Under 'tenure run' there is nothing to renew:
/// it does so itself.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure renew deploy                     # after: eval \"$lease\", see 'tenure acquire --help'
  tenure renew deploy --owner job-7 --ttl 10m")]
pub(crate) struct RenewArgs {
    /// What is locked
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) held: HeldArgs,

    /// How long the lease lasts from now [default: the ttl that `tenure acquire` printed, if it is in
    /// the environment; else 30s, or what is left of the lease if that is more]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
}

/// Release a lock that was acquired by hand
///
/// Releases one lease: the newest of the owner, or that of --claim. Says how many claims of the
/// owner still hold the lock. Ends with 76 if the owner does not hold it; nothing is changed then.
/// With --claim it is safe to repeat a release: the repeat ends with 76, and releases nothing more.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure release deploy --owner \"$TENURE_OWNER\"
  tenure release deploy --owner \"$TENURE_OWNER\" --claim \"$TENURE_CLAIM\"
  tenure release deploy --owner job-7 --json | jq .left")]
pub(crate) struct ReleaseArgs {
    /// What is locked
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) held: HeldArgs,
}

/// Selects leases that were acquired by hand.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// Who holds it, as `tenure acquire` printed it [env: TENURE_OWNER, unless
    /// TENURE_NAME is another name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,

    /// Which of the owner's claims, as `tenure acquire` printed it
    #[arg(long, value_name = "TEXT")]
    pub(crate) claim: Option<String>,

    /// Which grant; any of this owner's if not given
    #[arg(long, value_name = "NUMBER")]
    pub(crate) fence: Option<u64>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// List who holds what, and who waits
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure ls
  tenure ls 'deploy/*'
  tenure ls --json | jq '.[] | select(.waiters != []) | .name'")]
pub(crate) struct LsArgs {
    /// Only names that match; * stands for any text, ? for one character
    pub(crate) pattern: Option<String>,

    /// Print JSON: an array of {name, mode, holders, waiters}
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show who holds one lock and who waits for it
///
/// Ends with 1 if nobody does.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure show deploy
  tenure show deploy --json | jq '.holders[0].fence'")]
pub(crate) struct ShowArgs {
    /// The lock
    pub(crate) name: String,

    /// Print JSON: an object {name, mode, holders, waiters}
    #[arg(long)]
    pub(crate) json: bool,
}

/// Watch locks being acquired and released
///
/// On a terminal this is a live screen; q ends it, / filters. In a pipe, or with --plain or --json,
/// it prints a line for each change: held (when the watch begins), waiting, granted, left (the
/// line), released, expired. An eviction looks like a release. A lock that is acquired and released
/// between two looks is not seen.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure watch
  tenure watch 'deploy/*' --plain
  tenure watch --json --every 100ms | jq -c 'select(.event == \"expired\")'")]
pub(crate) struct WatchArgs {
    /// Only names that match; * stands for any text, ? for one character
    pub(crate) pattern: Option<String>,

    /// Print lines, also on a terminal
    #[arg(long)]
    pub(crate) plain: bool,

    /// Print a JSON object for each change
    #[arg(long)]
    pub(crate) json: bool,

    /// How often to look
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "500ms")]
    pub(crate) every: Duration,
}

/// Take a lock away from whoever holds it
///
/// The next grant gets a larger fence, the holders are notified, and the next in line get the lock. A
/// holder that ignores the notification may still write: only a resource that checks fences keeps it
/// out. Ends with 1 if nobody held the lock.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure evict deploy")]
pub(crate) struct EvictArgs {
    /// The lock
    pub(crate) name: String,

    /// Print JSON: the holders that it was taken from
    #[arg(long)]
    pub(crate) json: bool,
}

/// Look for settings of the store that endanger locks
///
/// Prints a line for each check: ok, warning (locks hold, but not through everything), problem (locks
/// do not work or are lost in daily use) or unknown (the store would not show it); and what to do.
/// For Redis that is eviction, persistence, replicas, clocks, versions, the user's rights with the
/// least rule that works, and the state of a cluster or of sentinels. Keys of a random name are used to try
/// out what is allowed, and one lock of a random name is taken and released; nobody else's lock is
/// touched.
///
/// Ends with 1 if there is a problem. Warnings and unknowns alone end with 0.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  tenure doctor
  tenure --store redis://127.0.0.1/ doctor
  tenure --store redlock://host1,host2,host3 doctor
  tenure doctor --json | jq '.findings[] | select(.verdict != \"ok\")'")]
pub(crate) struct DoctorArgs {
    /// Print JSON: an object {store, problems, warnings, unknown, findings}
    #[arg(long)]
    pub(crate) json: bool,
}

/// Does what the command line asks for.
pub(crate) fn run() -> Result<ExitCode> {
    let done = parse_and_run();
    if let Err(failure) = &done {
        by_hand::end_script(failure);
    }
    done
}

fn parse_and_run() -> Result<ExitCode> {
    let cli: Cli = match usage::parse() {
        Ok(cli) => cli,
        Err(explained) => return explained,
    };
    output::start_log(cli.verbose.then_some("tenure=debug"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(dispatch(cli));
    match &done {
        Err(failure) if failure.is_store_away() => leave(runtime),
        // Does not wait for a thread that is blocked by another process's file lock.
        _ => runtime.shutdown_background(),
    }
    done
}

/// Exits without a last attempt to undo requests in flight.
///
/// When a runtime is dropped, the client makes that attempt over a new connection, and waits for it.
/// The store was unavailable until the end of `--wait` or of the lease.
#[expect(
    clippy::mem_forget,
    reason = "nobody holds a lock, and the process ends"
)]
fn leave(runtime: Runtime) {
    std::mem::forget(runtime);
}

async fn dispatch(cli: Cli) -> Result<ExitCode> {
    let verbose = cli.verbose;
    let store = cli.store.with_password(cli.password_file.as_deref())?;
    let store = match &cli.verb {
        // The workbench has uses for other stores too.
        Verb::Bench(_) | Verb::Demo(_) | Verb::Lab(_) | Verb::Torture(_)
        // These ask no store.
        | Verb::Completions { .. } | Verb::Man => store,
        verb => store.for_processes(|note| {
            if !verb.is_quiet() {
                anstream::eprintln!("tenure: {}", output::escape(note));
            }
        })?,
    };
    match cli.verb {
        Verb::Run(args) => run::run(&store, args).await,
        Verb::Acquire(args) => by_hand::acquire(&store, args).await,
        Verb::Renew(args) => by_hand::renew(&store, args).await,
        Verb::Release(args) => by_hand::release(&store, args).await,
        Verb::Ls(args) => inspect::ls(&store, args).await,
        Verb::Show(args) => inspect::show(&store, args).await,
        Verb::Watch(args) => watch::watch(&store, args).await,
        Verb::Evict(args) => inspect::evict(&store, args).await,
        Verb::Doctor(args) => doctor::doctor(&store, args).await,
        Verb::Bench(args) => Err(become_workbench("bench", &store, verbose, args)),
        Verb::Demo(args) => Err(become_workbench("demo", &store, verbose, args)),
        Verb::Lab(args) => Err(become_workbench("lab", &store, verbose, args)),
        Verb::Torture(args) => Err(become_workbench("torture", &store, verbose, args)),
        Verb::Completions { shell } => pages::completions(Cli::command(), shell),
        Verb::Man => pages::manual(Cli::command()),
    }
}

fn after_help() -> String {
    format!(
        "\
Examples:
  tenure run nightly-backup -- ./backup.sh
  tenure run deploy --no-wait -- make deploy || echo 'somebody else deploys'
  tenure ls
  tenure watch

{}
In a clone of the repository there are also bench, demo, lab and torture:
  cargo run --release -- bench --help

{}",
        store::help(),
        exit_code::HELP
    )
}
