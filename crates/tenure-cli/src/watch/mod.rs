//! `tenure watch`.
use std::process::ExitCode;
use crate::cli::WatchArgs;
use crate::error::Result;
use crate::store::Store;
pub(crate) async fn watch(store: &Store, args: WatchArgs) -> Result<ExitCode> { let _ = (store, args, ); Ok(crate::exit_code::DONE) }
