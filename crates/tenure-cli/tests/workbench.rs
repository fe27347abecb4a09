//! Verbs of the workbench, which the command hands over to the other program.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Ended, Place, bare, end};

/// Prints its store and its arguments.
const SHOW: &str = "#!/bin/sh\necho \"$TENURE_STORE\"; echo \"$@\"\n";

#[test]
fn in_a_clone_cargo_builds_and_runs_it() {
    let place = Place::new();
    fs::create_dir(place.path("tenure-cli")).unwrap();
    fs::create_dir(place.path("tenure-workbench")).unwrap();
    let mut command = installed(&place, &["--store", "local:/x", "bench", "--help", "-v"]);
    let called = command
        .env("CARGO", script(&place, "cargo"))
        .env("CARGO_MANIFEST_DIR", place.path("tenure-cli"));
    let manifest = place.path("tenure-workbench/Cargo.toml");
    let expected = format!(
        "local:/x\nrun --manifest-path {} --profile bin -- bench --help -v\n",
        manifest.display()
    );
    assert_eq!(ok(called), expected);
}

#[test]
fn elsewhere_it_is_the_program_beside_the_command() {
    let place = Place::new();
    let mut command = installed(&place, &["-v", "lab", "setnx"]);
    script(&place, "bin/tenure-workbench");
    assert_eq!(ok(&mut command), "\n--verbose lab setnx\n");
}

#[test]
fn without_it_the_command_says_where_it_is_to_be_had() {
    let place = Place::new();
    for verb in ["bench", "demo", "lab", "torture"] {
        let ended = end(&mut installed(&place, &[verb, "--whatever"]));
        assert_eq!(ended.code, 2, "{ended:?}");
        let advice = format!("cargo run --release -- {verb}");
        assert!(ended.err.contains(&advice), "{}", ended.err);
    }
}

/// Returns a copy of the command in another directory, not started by Cargo.
fn installed(place: &Place, arguments: &[&str]) -> Command {
    let built = bare(arguments);
    let folder = place.path("bin");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(built.get_program(), folder.join("tenure")).unwrap();
    let mut command = Command::new(folder.join("tenure"));
    command.args(arguments);
    for variable in ["CARGO", "CARGO_MANIFEST_DIR", "TENURE_STORE"] {
        command.env_remove(variable);
    }
    command
}

fn script(place: &Place, name: &str) -> std::path::PathBuf {
    let path = place.path(name);
    fs::write(&path, SHOW).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn ok(command: &mut Command) -> String {
    let Ended { code, out, err, .. } = end(command);
    assert_eq!(code, 0, "{err}");
    out
}
