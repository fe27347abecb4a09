//! Wrong usage, and the pages that explain the right one.

mod common;

use std::fs::{self, File};
use std::process::Stdio;

use crate::common::{Ended, Place, bare, end};

#[test]
fn wrong_usage_gives_2_and_a_sentence() {
    let place = Place::new();
    let long = "a".repeat(256);
    let cases: &[&[&str]] = &[
        &["run", "", "--", "true"],
        &["run", &long, "--", "true"],
        &["run", "a\u{1b}[31mb", "--", "true"],
        &["run", "a\nb", "--", "true"],
        &["run", "a", "--owner", "", "--", "true"],
        &["run", "a", "--owner", &long, "--", "true"],
        &["run", "a", "--reason", "a\u{7}b", "--", "true"],
        &["run", "a", "--ttl", "0s", "--", "true"],
        &["run", "a", "--ttl", "30", "--", "true"],
        &["run", "a", "--ttl", "-1s", "--", "true"],
        &["run", "a", "--ttl", "1000000d", "--", "true"],
        &["run", "a", "--ttl", "99999999999999999999s", "--", "true"],
        &["run", "a", "--ttl", "\u{1b}]0;x\u{7}", "--", "true"],
        &["run", "a", "--max-hold", "0s", "--", "true"],
        &["run", "a", "--permits", "3", "--", "true"],
        &["run", "a", "--permits", "0/3", "--", "true"],
        &["run", "a", "--permits", "4/3", "--", "true"],
        &["run", "a", "--permits", "1/3", "--shared", "--", "true"],
        &["run", "a", "--wait", "1s", "--no-wait", "--", "true"],
        &["run", "a", "--busy-code", "256", "--", "true"],
        &["run", "a"],
        &["run", "a", "--"],
        &["run", "a", "true"],
        &["run"],
        &["acquire", ""],
        &["renew", "a"],
        &["renew", "a", "--owner", "x", "--ttl", "0s"],
        &["release", "a", "--owner", "x", "--fence", "0"],
        &["watch", "--every", "0s"],
        &["show", ""],
        &["evict", ""],
        &["no-such-verb"],
        &["completions", "no-such-shell"],
        &["--store", "", "ls"],
        &["--store", "nonsense", "ls"],
        &["--store", "gopher://x", "ls"],
    ];
    for case in cases {
        let ended = place.run(case);
        assert_eq!(ended.code, 2, "{case:?}: {}", ended.err);
        assert!(ended.err.starts_with("tenure: "), "{case:?}: {}", ended.err);
        let for_a_script = if case[0] == "acquire" {
            "case $- in"
        } else {
            ""
        };
        assert!(ended.out.starts_with(for_a_script), "{case:?}");
        assert_eq!(ended.out.is_empty(), for_a_script.is_empty(), "{case:?}");
        let unsafe_to_print = |c: char| c.is_control() && c != '\n';
        assert!(
            !ended.err.contains(unsafe_to_print),
            "{case:?}: {:?}",
            ended.err
        );
    }
}

#[test]
fn without_a_verb_the_verbs_are_shown() {
    let ended = Place::new().run(&[]);
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    assert!(ended.err.contains("evict"), "{}", ended.err);
}

#[test]
fn a_duration_is_answered_with_what_to_write() {
    let place = Place::new();
    let cases = [
        ("90", "Write 90s"),
        ("1.5s", "write 1s500ms"),
        ("5 min", "write 5m"),
        ("-5s", "write 5s"),
    ];
    for (wrong, right) in cases {
        for flag in ["--ttl", "--wait", "--at-least", "--max-hold", "--grace"] {
            let ended = place.run(&["run", "a", flag, wrong, "--", "true"]);
            assert_eq!(ended.code, 2, "{flag} {wrong}: {}", ended.err);
            assert!(ended.err.contains(right), "{flag} {wrong}: {}", ended.err);
        }
    }
}

#[test]
fn a_command_without_dashes_is_answered_with_where_they_go() {
    let place = Place::new();
    let cases: &[&[&str]] = &[
        &["run", "a", "echo", "hi"],
        &["run", "a", "--wait", "5s", "echo", "-n"],
        &["run", "--shared", "a", "echo", "--", "hi"],
    ];
    for case in cases {
        let ended = place.run(case);
        assert_eq!(ended.code, 2, "{case:?}: {}", ended.err);
        let told = "tenure: put -- before 'echo': tenure run NAME -- echo …\n";
        assert_eq!(ended.err, told, "{case:?}");
    }
    let other = place.run(&["show", "a", "b"]);
    assert!(
        other.err.contains("unexpected argument 'b'"),
        "{}",
        other.err
    );
}

#[test]
fn a_missing_command_is_answered_with_the_usage() {
    let ended = Place::new().run(&["run", "a"]);
    assert!(ended.err.contains("-- <COMMAND>"), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "one sentence: {}", ended.err);
}

#[test]
fn passwords_are_not_printed() {
    let place = Place::new();
    let url = "gopher://user:hunter2@x/0?password=hunter2";
    let cases: &[&[&str]] = &[
        &["--store", url, "ls"],
        &[url],
        &["ls", "a", url],
        &["run", "a", url],
        &["--help"],
    ];
    for case in cases {
        let ended = end(place.tenure(case).env("TENURE_STORE", url));
        assert!(!ended.err.contains("hunter2"), "{case:?}: {}", ended.err);
        assert!(!ended.out.contains("hunter2"), "{case:?}: {}", ended.out);
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_told_in_one_sentence() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let in_a_file = format!("local:{}/store", place.path("file").display());
    for (store, code) in [(in_a_file.as_str(), 78), ("local:/proc/tenure", 69)] {
        let ended = place.run(&["--store", store, "run", "a", "--", "touch", "never"]);
        assert_eq!(ended.code, code, "{store}: {}", ended.err);
        assert!(ended.err.starts_with("tenure: "), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
    assert!(!place.path("never").exists());
}

#[test]
fn the_store_is_named_by_flag_or_environment_or_is_the_users_own() {
    let place = Place::new();
    let named = format!("local:{}", place.path("named").display());
    assert_eq!(place.run(&["--store", &named, "ls"]).code, 0);
    assert!(place.path("named/format").exists());
    assert_eq!(
        place.run(&["ls", "--store", &named]).code,
        0,
        "also after the verb"
    );
    assert!(!place.path("store").exists());
    assert_eq!(place.run(&["ls"]).code, 0);
    assert!(place.path("store/format").exists());
    let own = end(bare(&["ls"]).env("XDG_STATE_HOME", place.path("state")));
    assert_eq!(own.code, 0, "{}", own.err);
    assert!(place.path("state/tenure/format").exists());
}

#[test]
fn a_store_that_keeps_no_other_command_out_is_refused() {
    let place = Place::new();
    for verb in [
        &["run", "a", "--", "touch", "never"][..],
        &["ls"],
        &["doctor"],
    ] {
        for store in ["memory:", "memory:shared"] {
            let ended = place.run(&[&["--store", store], verb].concat());
            assert_eq!(ended.code, 2, "{verb:?}: {}", ended.err);
            assert!(ended.err.contains("use local:"), "{verb:?}: {}", ended.err);
        }
    }
    assert!(!place.path("never").exists());
    let help = end(&mut bare(&["--help"])).out;
    assert!(!help.contains("memory:"), "{help}");
}

#[test]
fn a_store_in_the_home_directory_is_found() {
    let place = Place::new();
    for (store, folder) in [("local:~", "."), ("local:~/locks", "locks")] {
        let mut command = place.tenure(&["--store", store, "run", "a", "--", "env"]);
        let ended = end(command.env("HOME", place.path("")));
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{store}");
        assert!(place.path(folder).join("format").exists(), "{store}");
        let absolute = format!("TENURE_STORE=local:{}", place.path("").display());
        assert!(ended.out.contains(&absolute), "{}", ended.out);
    }
    assert!(!place.path("~").exists());
    for (store, home) in [("local:~ann/locks", "/"), ("local:~", "")] {
        let ended = end(place.tenure(&["--store", store, "ls"]).env("HOME", home));
        assert_eq!(ended.code, 2, "{store}: {}", ended.err);
        assert!(ended.err.contains("write the whole path"), "{}", ended.err);
    }
}

#[test]
fn a_relative_folder_is_told_in_full() {
    let place = Place::new();
    let ended = place.run(&["--store", "local:locks", "ls"]);
    assert_eq!(ended.code, 0);
    let folder = place.path("locks").canonicalize().unwrap();
    let told = format!("tenure: local:locks is {}, ", folder.display());
    assert!(ended.err.starts_with(&told), "{}", ended.err);
    let inner = format!("cd /; {} ls", env!("CARGO_BIN_EXE_tenure"));
    let nested = ["run", "a", "--quiet", "--", "sh", "-c", &inner];
    let ended = end(place.tenure(&nested).env("TENURE_STORE", "local:locks"));
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert!(
        ended.out.contains("exclusive"),
        "the same store: {}",
        ended.out
    );
}

#[test]
fn help_teaches_with_examples_and_exit_codes() {
    let help = end(&mut bare(&["--help"]));
    assert_eq!(help.code, 0);
    for text in [
        "Examples:",
        "Exit codes:",
        "76",
        "TENURE_STORE",
        "tenure run",
    ] {
        assert!(help.out.contains(text), "{text}");
    }
    for verb in VERBS {
        let help = end(&mut bare(&[verb, "--help"]));
        assert_eq!(help.code, 0);
        assert!(help.out.contains("Examples:"), "{verb}");
    }
}

#[test]
fn the_exit_codes_say_which_verbs_end_with_1() {
    let place = Place::new();
    assert_eq!(place.run(&["ls"]).code, 0);
    assert_eq!(place.run(&["show", "a"]).code, 1);
    assert_eq!(place.run(&["evict", "a"]).code, 1);
    let help = end(&mut bare(&["--help"])).out;
    assert!(help.contains("    1  show, evict: nobody holds"), "{help}");
}

#[test]
fn an_output_that_cannot_be_written_gives_74_and_a_sentence() {
    let place = Place::new();
    let held = place.run(&["acquire", "a", "--owner", "ann"]);
    assert_eq!(held.code, 0, "{}", held.err);
    let cases: &[&[&str]] = &[
        &["ls"],
        &["ls", "--json"],
        &["show", "a"],
        &["show", "a", "--json"],
        &["watch", "--plain"],
        &["watch", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &["completions", "bash"],
        &["man"],
        &["evict", "a"],
    ];
    for case in cases {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = place.tenure(case);
        command.stdin(Stdio::null()).stdout(full);
        let ended = command.stderr(Stdio::piped()).spawn().unwrap();
        let ended = Ended::from(ended.wait_with_output().unwrap());
        assert_eq!(ended.code, 74, "{case:?}: {}", ended.err);
        let sentence = "tenure: the output could not be written: ";
        assert!(ended.err.starts_with(sentence), "{case:?}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{case:?}: {}", ended.err);
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let page = end(&mut bare(&["completions", shell]));
        assert_eq!(page.code, 0);
        assert!(page.out.contains("evict"), "{shell}");
    }
}

#[test]
fn the_manual_has_every_verb_and_the_exit_codes() {
    let page = end(&mut bare(&["man"]));
    assert_eq!(page.code, 0);
    assert!(page.out.contains(".TH"), "a manual page");
    assert!(page.out.contains("Exit codes"));
    assert!(!page.out.contains("run(1)"), "no page that is not there");
    assert!(!page.out.contains("TORTURE"), "no verb of the workbench");
    for verb in VERBS {
        let title = format!(".SH \"TENURE {}\"", verb.to_uppercase());
        assert!(page.out.contains(&title), "{verb}");
    }
}

const VERBS: [&str; 11] = [
    "run",
    "acquire",
    "renew",
    "release",
    "ls",
    "show",
    "watch",
    "evict",
    "doctor",
    "completions",
    "man",
];
