//! Helpers that the tests of the command share.

mod place;
mod terminal;

pub(crate) use place::*;
#[allow(unused_imports, reason = "not every test file needs a terminal")]
pub(crate) use terminal::Terminal;

/// The built command.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure");
