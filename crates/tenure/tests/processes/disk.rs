//! A full disk: nothing is lost, and everything continues when there is space again.

use std::path::Path;
use std::process::Command;

use crate::folder;
use crate::worker::Worker;

#[tokio::test]
async fn locks_that_are_held_are_released_on_a_full_disk() {
    let folder = folder();
    let mut ann = on_a_small_disk(folder.path()).await;
    let before = ann.granted("lock a").await;
    assert_eq!(ann.ask("fill").await, "done");
    assert_eq!(ann.ask("release a").await, "Released");
    // The state has reserved space, so a few locks always work.
    let after = ann.granted("lock a").await;
    assert!(before < after, "{before} was granted before {after}");
    assert_eq!(ann.ask("health a").await, "Held");
    assert_eq!(ann.ask("release a").await, "Released");
}

#[tokio::test]
async fn no_space_is_unavailable_and_passes() {
    let folder = folder();
    let mut ann = on_a_small_disk(folder.path()).await;
    ann.granted("lock a").await;
    assert_eq!(ann.ask("fill").await, "done");
    let said = ann.ask("hold-until-full n").await;
    let (held, why) = said.split_once(' ').unwrap();
    assert!(why.starts_with("error Unavailable"), "{why}");
    assert!(why.contains("no space is left"), "{why}");
    // What was granted is there, and what was refused is not.
    let held: usize = held.parse().unwrap();
    println!("{held} locks fit");
    assert!(held > 100, "{held}");
    assert_eq!(ann.ask("list").await, (held + 1).to_string());
    assert_eq!(ann.ask("health a").await, "Held");
    for count in 0..held {
        assert_eq!(
            ann.ask(&format!("release n{count}")).await,
            "Released",
            "{count}"
        );
    }
    assert_eq!(ann.ask("release a").await, "Released");
    assert_eq!(ann.ask("list").await, "0");
    assert_eq!(ann.ask("make-room").await, "done");
    ann.granted(&format!("lock-many m count={held}")).await;
}

#[tokio::test]
async fn a_client_that_finds_no_space_is_refused_and_leaves_nothing() {
    let folder = folder();
    let mut ann = on_a_small_disk(folder.path()).await;
    assert_eq!(ann.ask("fill").await, "done");
    let said = ann.ask("open-another").await;
    assert!(said.starts_with("error Unavailable"), "{said}");
    assert!(said.contains("no space is left"), "{said}");
    ann.granted("lock a").await;
    assert_eq!(ann.ask("make-room").await, "done");
    assert_eq!(ann.ask("open-another").await, "opened");
    assert_eq!(ann.ask("health a").await, "Held");
}

/// Starts a worker that sees a disk of two megabytes in place of the directory.
///
/// The disk is mounted in a separate namespace, so it disappears with the worker.
async fn on_a_small_disk(folder: &Path) -> Worker {
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let mount = r#"mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@""#;
    command.args(["sh", "-c", mount]).arg(folder);
    command.arg(std::env::current_exe().unwrap());
    let mut hand = Worker::start_by(command, "hand", folder);
    assert_eq!(hand.answer().await, "ready");
    hand
}
