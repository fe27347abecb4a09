//! `demo`: shows what goes wrong without a lock, and that it does not with one.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use tenure_cli::{Result, Store};

pub(crate) mod cache;
pub(crate) mod flash_sale;
mod summary;

/// Show with real processes what a lock is good for
#[derive(Debug, Args)]
#[command(subcommand_value_name = "DEMO", subcommand_help_heading = "Demos")]
#[command(disable_help_subcommand = true)]
#[command(after_long_help = "\
Examples:
  tenure demo flash-sale
  tenure demo flash-sale --lock none
  tenure demo flash-sale --all
  tenure demo cache")]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Debug, Subcommand)]
enum Demo {
    FlashSale(Box<flash_sale::FlashSaleArgs>),
    Cache(cache::CacheArgs),
}

/// Runs the requested demo.
pub(crate) async fn demo(store: &Store, args: DemoArgs) -> Result<ExitCode> {
    match args.demo {
        Demo::Cache(args) => cache::cache(store, args).await,
        Demo::FlashSale(args) => flash_sale::flash_sale(store, *args).await,
    }
}
