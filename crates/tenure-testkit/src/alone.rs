//! Tests that need their own process.

use std::process::Command;

/// Runs a test in a separate process, and returns whether this is that process.
///
/// For tests that fork: the child has only one of its parent's threads, and would wait for ever for
/// a lock that another test held at that moment. `module` is the caller's `module_path!()`, and
/// `test` its name there.
///
/// # Panics
///
/// If the test fails in that process.
#[must_use = "in the process that this returns false in, the test is done"]
pub fn alone(module: &str, test: &str) -> bool {
    // This runner starts a process for each test.
    if std::env::var_os("NEXTEST").is_some() || std::env::var_os(ALONE).is_some() {
        return true;
    }
    let path = match module.split_once("::") {
        Some((_, module)) => format!("{module}::{test}"),
        None => test.to_owned(),
    };
    let program = std::env::current_exe().expect("a test is a program");
    let ended = Command::new(program)
        .args(["--exact", &path])
        .env(ALONE, "1")
        .output()
        .expect("a test can be started again");
    let output = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{output}");
    assert!(output.contains("1 passed"), "{path} is a test: {output}");
    false
}

const ALONE: &str = "TENURE_TESTKIT_ALONE";
