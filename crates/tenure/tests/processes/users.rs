//! Processes of different users.
//!
//! Only root can act as other users. Without root all of them are the same user, and the tests
//! prove less.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

use crate::worker::Worker;
use crate::{LONG_MS, folder};

/// Users and groups that own nothing.
const ANN: u32 = 64_001;
const BOB: u32 = 64_002;
const EVE: u32 = 64_020;
const GROUP: u32 = 64_100;
const OTHERS: u32 = 64_101;

#[tokio::test]
async fn a_folder_that_is_not_writable_is_unavailable_and_says_why() {
    let shared = SharedFolder::with_mode(0o755);
    if !is_root() {
        fs::set_permissions(&shared.folder, PermissionsExt::from_mode(0o555)).unwrap();
    }
    let mut eve = shared.start(EVE, OTHERS);
    let said = eve.answer().await;
    assert!(said.starts_with("error Unavailable"), "{said}");
    assert!(said.contains("is not writable for this user"), "{said}");
    let made = fs::read_dir(&shared.folder).unwrap().count();
    assert_eq!(made, 0, "nothing is left in it");
}

#[tokio::test]
async fn two_users_of_a_group_exclude_each_other_and_hand_over() {
    let shared = SharedFolder::with_mode(0o2770);
    let (mut ann, mut bob) = shared.two().await;
    for _ in 0..5 {
        let hers = ann.granted(&lock()).await;
        assert_eq!(bob.ask("try a").await, "busy");
        bob.tell(&lock());
        assert_eq!(ann.ask("release a").await, "Released");
        let his = bob.told_granted().await;
        assert!(hers < his, "{hers} was granted before {his}");
        assert_eq!(ann.ask("try a").await, "busy");
        assert_eq!(bob.ask("release a").await, "Released");
    }
}

/// The first process creates the files; nobody may find one that they cannot use yet.
#[tokio::test]
async fn users_who_open_a_new_folder_at_once_all_get_in() {
    for _ in 0..20 {
        let shared = SharedFolder::with_mode(0o2770);
        let mut users: Vec<_> = (0..6).map(|user| shared.start(ANN + user, GROUP)).collect();
        for user in &mut users {
            assert_eq!(user.answer().await, "ready");
        }
    }
}

#[tokio::test]
async fn the_group_need_not_be_the_users_first() {
    let shared = SharedFolder::with_mode(0o770);
    let mut ann = shared.start(ANN, GROUP);
    assert_eq!(ann.answer().await, "ready");
    ann.granted(&lock()).await;
    ann.ended().await;
    let mut bob = shared.start(BOB, GROUP);
    assert_eq!(bob.answer().await, "ready");
    bob.granted(&lock()).await;
}

#[tokio::test]
async fn the_death_of_one_user_is_noticed_by_the_other() {
    let shared = SharedFolder::with_mode(0o2770);
    let (mut ann, mut bob) = shared.two().await;
    ann.granted(&lock()).await;
    bob.tell(&lock());
    let mut cid = shared.start(BOB, GROUP);
    assert_eq!(cid.answer().await, "ready");
    assert_eq!(cid.ask("list").await, "1");
    ann.kill();
    bob.told_granted().await;
    bob.kill();
    // The files of dead processes are removed, although they belonged to others.
    let mut dan = shared.start(ANN, GROUP);
    assert_eq!(dan.answer().await, "ready");
    let files = fs::read_dir(shared.folder.join("clients")).unwrap().count();
    assert_eq!(files, 4, "cid's and dan's");
}

#[tokio::test]
async fn a_stranger_to_the_group_is_kept_out() {
    if !is_root() {
        eprintln!("only root can play a stranger");
        return;
    }
    let shared = SharedFolder::with_mode(0o2770);
    let (mut ann, _bob) = shared.two().await;
    ann.granted(&lock()).await;
    let mut eve = shared.start(EVE, OTHERS);
    let said = eve.answer().await;
    assert!(said.starts_with("error Unavailable"), "{said}");
    assert!(said.contains("is not writable for this user"), "{said}");
    assert_eq!(ann.ask("health a").await, "Held");
}

/// Like /tmp: everybody may write, but only remove their own files.
#[tokio::test]
async fn users_share_a_folder_that_is_open_to_all() {
    let shared = SharedFolder::with_mode(0o1777);
    let mut ann = shared.start(ANN, OTHERS);
    assert_eq!(ann.answer().await, "ready");
    let mut eve = shared.start(EVE, GROUP);
    assert_eq!(eve.answer().await, "ready");
    ann.granted(&lock()).await;
    eve.tell(&lock());
    ann.kill();
    eve.told_granted().await;
}

/// A directory for several users, and this program where all of them can start it.
struct SharedFolder {
    _whole: TempDir,
    folder: PathBuf,
    program: PathBuf,
}

impl SharedFolder {
    fn with_mode(mode: u32) -> Self {
        let whole = folder();
        fs::set_permissions(whole.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (folder, program) = (whole.path().join("store"), whole.path().join("program"));
        fs::create_dir(&folder).unwrap();
        if is_root() {
            chown(&folder, None, Some(GROUP)).unwrap();
        }
        fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
        link_or_copy(&std::env::current_exe().unwrap(), &program);
        Self {
            _whole: whole,
            folder,
            program,
        }
    }

    fn start(&self, user: u32, group: u32) -> Worker {
        let mut command = Command::new(&self.program);
        if is_root() {
            command.uid(user).gid(group);
        }
        Worker::start_by(command, "hand", &self.folder)
    }

    async fn two(&self) -> (Worker, Worker) {
        let (mut ann, mut bob) = (self.start(ANN, GROUP), self.start(BOB, GROUP));
        assert_eq!(ann.answer().await, "ready");
        assert_eq!(bob.answer().await, "ready");
        (ann, bob)
    }
}

fn link_or_copy(from: &Path, to: &Path) {
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).unwrap();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn lock() -> String {
    format!("lock a ttl={LONG_MS}")
}
