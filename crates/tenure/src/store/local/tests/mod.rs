//! Tests of what is specific to this store; the rules for all stores are in `conformance`.

mod damage;
mod ends;
mod forks;
mod line;
mod links;
mod namespaces;
mod removed;
mod rights;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::driver::{Life, Loss, Wait};
use crate::name::Fence;

/// Not a test: the other process of the tests above.
#[tokio::test]
async fn child_process() {
    let Ok(order) = std::env::var("TENURE_TEST_CHILD") else {
        return;
    };
    let mut words = order.split(' ');
    let (verb, name, folder) = (
        words.next().unwrap(),
        words.next().unwrap(),
        words.next().unwrap(),
    );
    let local = Local::open(Some(Path::new(folder))).await.unwrap();
    let claim = claim(name, Wait::InLine);
    let answer = local.acquire(&claim).await.unwrap();
    println!("ready {answer:?}");
    std::io::stdout().flush().unwrap();
    if verb == "release-unsaid" {
        release_unsaid(&local, &claim).await;
    }
    if verb != "busy" {
        tokio::time::sleep(TTL).await;
        return;
    }
    loop {
        local.release(&release(&claim)).await.unwrap();
        local.acquire(&claim).await.unwrap();
    }
}

/// Releases once somebody waits, and is killed before it can send the message.
async fn release_unsaid(local: &Local, claim: &Claim) {
    while local.list(Some(&claim.name)).await.unwrap()[0]
        .waiters
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let section = local.state.enter().await.unwrap();
    let release = release(claim);
    let released = local.state.change(section, local.session, |change| {
        change.name(&claim.name, |ledger, at| ledger.release(&release, at))
    });
    assert_eq!(released.unwrap().1.len(), 1, "one is to be told");
    let myself = rustix::process::getpid();
    rustix::process::kill_process(myself, rustix::process::Signal::KILL).unwrap();
}

/// Starts another process, and waits until it holds the name or waits in line for it.
fn child(folder: &TempDir, order: &str) -> Child {
    ready(spawn(folder, order))
}

fn ready(mut child: Child) -> Child {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("ready")));
    child
}

fn spawn(folder: &TempDir, order: &str) -> Child {
    command(folder, order)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn command(folder: &TempDir, order: &str) -> Command {
    command_of(&std::env::current_exe().unwrap(), folder, order)
}

fn command_of(program: &Path, folder: &TempDir, order: &str) -> Command {
    let mut command = Command::new(program);
    let order = format!("{order} {}", folder.path().display());
    command
        .args([
            "--exact",
            "store::local::tests::child_process",
            "--nocapture",
        ])
        .env("TENURE_TEST_CHILD", order)
        .stdout(Stdio::piped());
    command
}

/// Holds `count` names as `from` that `to` waits for, and releases them all.
async fn hand_over(from: &Local, to: &Local, count: usize) {
    let mut held = Vec::new();
    for count in 0..count {
        let name = format!("{:x}-{count}", to.session);
        let (hers, his) = (claim(&name, Wait::No), claim(&name, Wait::InLine));
        granted(from, &hers).await;
        queued(to, &his).await;
        held.push(hers);
    }
    for hers in held {
        from.release(&release(&hers)).await.unwrap();
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn open(folder: &TempDir) -> Local {
    Local::open(Some(folder.path())).await.unwrap()
}

fn state_file(folder: &TempDir) -> PathBuf {
    folder::Folder::open(folder.path()).unwrap().state()
}

/// Returns the path of the file that shows that a client is alive.
fn presence_file(folder: &TempDir, local: &Local) -> PathBuf {
    let clients = folder.path().join("clients");
    clients.join(format!("{:032x}", local.session))
}

fn claim(name: &str, wait: Wait) -> Claim {
    Claim::new(name.parse().unwrap(), TTL).with_wait(wait)
}

fn release(claim: &Claim) -> Release {
    Release::of(claim)
}

async fn granted(local: &Local, claim: &Claim) -> Fence {
    match local.acquire(claim).await.unwrap() {
        Answer::Granted(grant) => grant.fence,
        other => panic!("{other:?}"),
    }
}

async fn queued(local: &Local, claim: &Claim) {
    let answer = local.acquire(claim).await.unwrap();
    assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
}

async fn told_granted(local: &Local, claim: &Claim) -> Fence {
    match next(local).await {
        News::Granted {
            name,
            claim: id,
            grant,
            ..
        } => {
            assert_eq!((&name, &id), (&claim.name, &claim.id));
            grant.fence
        }
        other => panic!("{other:?}"),
    }
}

async fn next(local: &Local) -> News {
    let news = timeout(Duration::from_secs(30), local.news());
    news.await.expect("news, long before a lease ends")
}

/// Longer than any test runs.
const TTL: Duration = Duration::from_secs(60);
