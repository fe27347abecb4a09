//! Helpers that the tests of the workbench share with those of the command.

#[path = "../../../tenure-cli/tests/common/place.rs"]
mod place;

pub(crate) use place::*;

/// The built program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure-workbench");
