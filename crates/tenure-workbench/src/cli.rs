//! The verbs of the workbench, and what each verb calls.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tenure_cli::{Result, Store, exit_code, output, usage};

use crate::{bench, demo, lab, torture};

/// Measures tenure, shows what it does, and tries to break it.
#[derive(Debug, Parser)]
#[command(
    name = "tenure",
    version,
    max_term_width = 100,
    subcommand_required = true
)]
#[command(after_long_help = exit_code::WORKBENCH_HELP)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    store: Store,

    /// Say on stderr what is asked and answered (TENURE_LOG sets how much)
    #[arg(short, long, global = true, display_order = 901)]
    verbose: bool,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Bench(bench::BenchArgs),
    #[command(hide = true)]
    BenchChild,
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    DemoCacheCopy,
    #[command(hide = true)]
    DemoCopy,
    Lab(lab::LabArgs),
    #[command(hide = true)]
    LabClient,
    Torture(torture::TortureArgs),
    #[command(hide = true)]
    TortureClient,
}

/// Does what the command line asks for.
pub(crate) fn run() -> Result<ExitCode> {
    let cli: Cli = match usage::parse() {
        Ok(cli) => cli,
        Err(explained) => return explained,
    };
    output::start_log(cli.verbose.then_some("tenure=debug"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(dispatch(cli));
    // Does not wait for a thread that is blocked by another process's file lock.
    runtime.shutdown_background();
    done
}

async fn dispatch(cli: Cli) -> Result<ExitCode> {
    let store = cli.store;
    match cli.verb {
        Verb::Bench(args) => bench::bench(&store, args).await,
        Verb::BenchChild => bench::run_child(&store).await,
        Verb::Demo(args) => demo::demo(&store, args).await,
        Verb::DemoCacheCopy => demo::cache::play(&store).await,
        Verb::DemoCopy => demo::flash_sale::copy().await,
        Verb::Lab(args) => lab::lab(&args),
        Verb::LabClient => lab::run_client().await,
        Verb::Torture(args) => torture::torture(&store, args).await,
        Verb::TortureClient => torture::run_client(&store).await,
    }
}
