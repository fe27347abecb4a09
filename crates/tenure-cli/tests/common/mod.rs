//! Helpers that the tests of the command share.

mod place;

pub(crate) use place::*;

/// The built command.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure");
