//! Passwords that are neither in a process list nor in the URL.

mod common;

use std::fs;

use tenure_testkit::RedisServer;

use crate::common::{Ended, Place, bare, end, path_with_tenure};

/// Runs a script with a server that needs a password.
fn shell(place: &Place, server: &RedisServer, script: &str) -> Ended {
    let mut command = std::process::Command::new("sh");
    command.args(["-ec", script]).current_dir(place.path(""));
    command.env("PATH", path_with_tenure());
    end(command.env("URL", format!("redis://127.0.0.1:{}", server.port())))
}

#[test]
fn a_password_comes_from_a_file_or_a_variable() {
    let place = Place::new();
    let server = RedisServer::builder().password("hunter2").start().unwrap();
    fs::write(place.path("password"), "hunter2\n").unwrap();
    let scripts = [
        "tenure --store $URL --password-file password run a -- true",
        "TENURE_PASSWORD_FILE=password tenure --store $URL run a -- true",
        "TENURE_PASSWORD=hunter2 tenure --store $URL run a -- true",
        "TENURE_PASSWORD=wrong tenure --store $URL --password-file password run a -- true",
    ];
    for script in scripts {
        let ended = shell(&place, &server, script);
        assert_eq!(ended.code, 0, "{script}: {}", ended.err);
    }
    let ended = shell(
        &place,
        &server,
        "TENURE_PASSWORD=wrong tenure --store $URL ls",
    );
    assert_eq!(ended.code, 78, "{}", ended.err);
}

#[test]
fn commands_inside_find_the_password_file_and_not_the_password() {
    let place = Place::new();
    let server = RedisServer::builder().password("hunter2").start().unwrap();
    fs::write(place.path("password"), "hunter2").unwrap();
    let script = r#"
        tenure --store $URL --password-file password run a -- sh -ec '
            mkdir -p d; cd d; tenure show a; env; tr "\\0" " " </proc/$PPID/cmdline'
        tenure --store $URL --password-file password acquire b
        eval "$(tenure --password-file password --store $URL acquire c)"
        tenure release c"#;
    let ended = shell(&place, &server, script);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(
        ended.out.contains("TENURE_PASSWORD_FILE=/"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("released c"), "{}", ended.out);
    assert!(!ended.out.contains("hunter2"), "{}", ended.out);
}

#[test]
fn a_password_file_that_cannot_be_used_is_told() {
    let place = Place::new();
    fs::write(place.path("empty"), "\n").unwrap();
    for file in ["missing", "empty"] {
        let file = place.path(file).display().to_string();
        let ended = end(&mut bare(&["--password-file", &file, "acquire", "a"]));
        assert_eq!(ended.code, 2, "{}", ended.err);
        assert!(ended.err.contains(&file), "{}", ended.err);
        assert!(
            ended.out.contains("exit 2"),
            "ends the script: {}",
            ended.out
        );
    }
}
