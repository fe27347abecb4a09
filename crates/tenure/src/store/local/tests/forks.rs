//! Child processes, with and without their own program.
#![allow(
    unsafe_code,
    reason = "forks: the child only does what the test says, and exits"
)]

use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll, Waker};

use super::*;

#[tokio::test]
async fn a_program_that_is_started_inherits_nothing_of_the_folder() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    hand_over(&ann, &bob, 1).await;
    let program = Command::new("sh")
        .args(["-c", "ls -l /proc/$$/fd"])
        .output()
        .unwrap();
    let files = String::from_utf8(program.stdout).unwrap();
    assert!(files.contains("->"), "{files}");
    let path = folder.path().canonicalize().unwrap();
    for ours in [path.to_str().unwrap(), "memfd", "tenure"] {
        assert!(!files.contains(ours), "{files}");
    }
}

#[tokio::test]
async fn a_forked_child_that_drops_a_client_ends_nothing() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_that_drops_a_client_ends_nothing",
    ) {
        return;
    }
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    granted(&ann, &claim("a", Wait::No)).await;
    let (hers, his) = (claim("b", Wait::No), claim("b", Wait::InLine));
    granted(&ann, &hers).await;
    queued(&bob, &his).await;
    forked(|| {
        for client in [&ann, &bob] {
            // SAFETY: the child exits before its own copy is used again.
            drop(unsafe { std::ptr::read(std::ptr::from_ref(client)) });
        }
    });
    let busy = bob.acquire(&claim("a", Wait::No)).await.unwrap();
    assert_eq!(busy, Answer::Busy);
    // The clients still receive messages.
    ann.release(&release(&hers)).await.unwrap();
    told_granted(&bob, &his).await;
}

#[tokio::test]
async fn a_forked_child_cannot_use_its_parents_client() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_cannot_use_its_parents_client",
    ) {
        return;
    }
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let (hers, his) = (claim("a", Wait::No), claim("a", Wait::InLine));
    granted(&ann, &hers).await;
    queued(&bob, &his).await;
    ann.release(&release(&hers)).await.unwrap();
    forked(|| {
        let Poll::Ready(answer) = poll(bob.release(&release(&his))) else {
            panic!("it waits");
        };
        let Err(Error::Unavailable { source, .. }) = answer else {
            panic!("{answer:?}");
        };
        let said = source.to_string();
        assert!(said.contains("forked"), "{said}");
        assert!(poll(bob.news()).is_pending(), "news of the parent");
    });
    told_granted(&bob, &his).await;
}

/// The parent is inside a change when it forks.
#[tokio::test]
async fn a_forked_child_does_not_leave_its_parents_section() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_does_not_leave_its_parents_section",
    ) {
        return;
    }
    let folder = folder();
    let ann = open(&folder).await;
    let section = ann.state.enter().await.unwrap();
    forked(|| {
        // SAFETY: the child exits before its own copy is used again.
        drop(unsafe { std::ptr::read(&raw const section) });
    });
    let other = fs::File::open(folder.path().join("lock")).unwrap();
    let refused = other.try_lock().is_err();
    drop(section);
    assert!(refused);
}

#[tokio::test]
async fn a_forked_child_can_open_a_client_of_its_own() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_can_open_a_client_of_its_own",
    ) {
        return;
    }
    let folder = folder();
    let ann = open(&folder).await;
    granted(&ann, &claim("a", Wait::No)).await;
    forked(|| {
        let path = folder.path().to_owned();
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let bob = Local::open(Some(&path)).await.unwrap();
                let busy = bob.acquire(&claim("a", Wait::No)).await.unwrap();
                assert_eq!(busy, Answer::Busy);
                granted(&bob, &claim("b", Wait::No)).await;
            });
        });
        thread.join().unwrap();
    });
    granted(&ann, &claim("b", Wait::No)).await;
}

/// A program without other threads, which forks and lets the child run to the end of its `main`.
#[test]
fn a_forked_child_that_drops_its_runtime_ends_nothing() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_that_drops_its_runtime_ends_nothing",
    ) {
        return;
    }
    let folder = folder();
    let url = format!("local:{}", folder.path().display());
    let runtime = runtime();
    let (locks, guard, mut other) = runtime.block_on(async {
        let locks = crate::open(&url).await.unwrap();
        let guard = locks.mutex("a").lock().await.unwrap();
        // This makes the client watch a process.
        let other = child(&folder, "hold b");
        let lock = locks.mutex("b");
        tokio::select! {
            granted = lock.lock() => panic!("{granted:?}"),
            () = until_waiting(&locks, "b") => {}
        }
        (locks, guard, other)
    });
    forked(|| {
        // SAFETY: the child exits before its own copies are used again.
        unsafe {
            drop(std::ptr::read(&raw const guard));
            drop(std::ptr::read(&raw const locks));
            // This does not wait for threads, which the child does not have.
            std::ptr::read(&raw const runtime).shutdown_background();
        }
    });
    runtime.block_on(async {
        let lock = locks.mutex("b");
        let (granted, ()) = tokio::join!(timeout(Duration::from_secs(30), lock.lock()), async {
            until_waiting(&locks, "b").await;
            other.kill().unwrap();
            other.wait().unwrap();
        });
        let his = granted.expect("told of the other's end").unwrap();
        his.release().await.unwrap();
        let outcome = guard.release().await.unwrap();
        assert_eq!(outcome, crate::Outcome::Released);
    });
}

/// If a child kept the parent's files open, the parent's client would stay alive after the parent
/// ended.
#[test]
fn a_forked_child_that_drops_a_reentrant_guard_keeps_no_file_open() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_that_drops_a_reentrant_guard_keeps_no_file_open",
    ) {
        return;
    }
    let folder = folder();
    let url = format!("local:{}", folder.path().display());
    let runtime = runtime();
    let (locks, guard) = runtime.block_on(async {
        let locks = crate::open(&url).await.unwrap();
        let guard = locks.mutex("a").reentrant().lock().await.unwrap();
        (locks, guard)
    });
    let path = folder.path().canonicalize().unwrap();
    let open_files = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        let files = descriptors.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        files.filter(|file| file.starts_with(&path)).count()
    };
    assert_ne!(open_files(), 0);
    forked(|| {
        // SAFETY: the child exits before its own copies are used again.
        unsafe {
            drop(std::ptr::read(&raw const guard));
            drop(std::ptr::read(&raw const locks));
            std::ptr::read(&raw const runtime).shutdown_background();
        }
        assert_eq!(open_files(), 0);
    });
    runtime.block_on(guard.release()).unwrap();
}

async fn until_waiting(locks: &crate::Client, name: &str) {
    let name = name.parse().unwrap();
    while locks.list(Some(&name)).await.unwrap()[0].waiters.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Polls once, like a runtime that has nothing else to do.
fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs `work` in a forked child, and fails if it fails there.
fn forked(work: impl FnOnce()) {
    // SAFETY: the child has a copy of this thread only. It exits without unwinding into the harness,
    // and `work` uses no lock that another thread of the harness could have held.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process can fork");
    if child == 0 {
        let done = std::panic::catch_unwind(AssertUnwindSafe(work));
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let child = rustix::process::Pid::from_raw(child);
    let ended = rustix::process::waitpid(child, rustix::process::WaitOptions::empty()).unwrap();
    let status = ended.unwrap().1;
    assert_eq!(status.exit_status(), Some(0), "the child");
}
