//! What somebody who may write to the directory can put in place of its files.
//!
//! None of these tests needs another user: following a link has the same effect for all users.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::fs::{CWD, FileType, mknodat};

use super::*;

#[tokio::test]
async fn an_overflow_writes_to_no_file_that_was_put_in_place_of_a_client() {
    let links: [fn(&Path, &Path) -> io::Result<()>; 2] =
        [|to, at| symlink(to, at), |to, at| fs::hard_link(to, at)];
    for link in links {
        let (folder, outside) = (folder(), folder());
        let victim = outside.path().join("victim");
        fs::write(&victim, "victim").unwrap();
        let (ann, bob) = (open(&folder).await, open(&folder).await);
        let presence = presence_file(&folder, &bob);
        fs::rename(&presence, outside.path().join("presence")).unwrap();
        link(&victim, &presence).unwrap();
        hand_over(&ann, &bob, 30).await;
        assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
    }
}

#[tokio::test]
async fn a_message_goes_to_no_socket_that_a_link_leads_to() {
    let (folder, outside) = (folder(), folder());
    let victim = outside.path().join("victim");
    let victim_socket = UnixDatagram::bind(&victim).unwrap();
    victim_socket.set_nonblocking(true).unwrap();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let socket = presence_file(&folder, &bob).with_extension("sock");
    fs::remove_file(&socket).unwrap();
    symlink(&victim, &socket).unwrap();
    hand_over(&ann, &bob, 1).await;
    let heard = victim_socket
        .recv(&mut [0; 1024])
        .map_err(|error| error.kind());
    assert_eq!(heard, Err(io::ErrorKind::WouldBlock));
}

#[tokio::test]
async fn a_link_in_place_of_a_new_socket_gives_no_rights_to_its_target() {
    let (folder, outside) = (folder(), folder());
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o2770)).unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "").unwrap();
    fs::set_permissions(&victim, PermissionsExt::from_mode(0o600)).unwrap();
    drop(open(&folder).await);
    let (clients, target) = (folder.path().join("clients"), victim.clone());
    let attacker = Attacker::start(move || {
        for file in fs::read_dir(&clients).unwrap().flatten() {
            let path = file.path();
            let is_socket = path.extension().is_some_and(|end| end == "sock");
            if is_socket && fs::remove_file(&path).is_ok() {
                let _ = symlink(&target, &path);
            }
        }
    });
    for round in 0..500 {
        // Calls may fail because of what the attacker breaks.
        drop(Local::open(Some(folder.path())).await);
        let mode = fs::metadata(&victim).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "the victim's mode after round {round}");
    }
    drop(attacker);
}

#[tokio::test]
async fn a_link_in_place_of_the_state_makes_no_file() {
    let (folder, outside) = (folder(), folder());
    drop(open(&folder).await);
    let (state, victim) = (state_file(&folder), outside.path().join("victim"));
    let (whole, next) = (outside.path().join("whole"), outside.path().join("next"));
    fs::copy(&state, &whole).unwrap();
    let target = victim.clone();
    let attacker = Attacker::start(move || {
        fs::copy(&whole, &next).unwrap();
        fs::rename(&next, &state).unwrap();
        symlink(&target, &next).unwrap();
        fs::rename(&next, &state).unwrap();
    });
    for round in 0..500 {
        // Calls may fail because of what the attacker breaks.
        drop(Local::open(Some(folder.path())).await);
        assert!(!victim.exists(), "the victim after round {round}");
    }
    drop(attacker);
}

/// A thread that repeats the same action as fast as it can, until it is dropped.
struct Attacker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    fn start(attack: impl Fn() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                attack();
            }
        });
        let thread = Some(thread);
        Self { over, thread }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the test takes precedence.
            let _ = thread.join();
        }
    }
}

#[tokio::test]
async fn links_in_place_of_the_files_are_refused() {
    for file in ["lock", "format", "fence", "state", "clients"] {
        let (folder, outside) = (folder(), folder());
        drop(open(&folder).await);
        let path = match file {
            "state" => state_file(&folder),
            other => folder.path().join(other),
        };
        let target = outside.path().join("target");
        fs::rename(&path, &target).unwrap();
        symlink(&target, &path).unwrap();
        let error = Local::open(Some(folder.path())).await.unwrap_err();
        let Error::Unavailable { source, .. } = error else {
            panic!("{file}: {error:?}");
        };
        assert!(source.to_string().contains("is a link"), "{file}: {source}");
    }
}

#[tokio::test]
async fn a_second_name_of_a_file_that_is_written_is_refused() {
    for file in ["lock", "state"] {
        let (folder, outside) = (folder(), folder());
        drop(open(&folder).await);
        let path = match file {
            "state" => state_file(&folder),
            other => folder.path().join(other),
        };
        fs::hard_link(&path, outside.path().join("second")).unwrap();
        let error = Local::open(Some(folder.path())).await.unwrap_err();
        let Error::Unavailable { source, .. } = error else {
            panic!("{file}: {error:?}");
        };
        assert!(source.to_string().contains("hard link"), "{file}: {source}");
    }
}

/// Opening a pipe blocks until the other end is opened, unless `O_NONBLOCK` is set.
#[test]
fn a_pipe_in_place_of_a_file_keeps_nobody_waiting() {
    for file in ["lock", "format", "fence", "state"] {
        within_patience(file, async move || {
            let folder = folder();
            drop(open(&folder).await);
            let path = match file {
                "state" => state_file(&folder),
                other => folder.path().join(other),
            };
            fs::remove_file(&path).unwrap();
            make_pipe(&path);
            let error = Local::open(Some(folder.path())).await.unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        });
    }
    within_patience("a client", async || {
        let folder = folder();
        let (ann, bob) = (open(&folder).await, open(&folder).await);
        granted(&ann, &claim("a", Wait::No)).await;
        let presence = presence_file(&folder, &ann);
        fs::remove_file(&presence).unwrap();
        make_pipe(&presence);
        let busy = bob.acquire(&claim("a", Wait::No)).await.unwrap();
        assert_eq!(busy, Answer::Busy, "a client that cannot be seen is alive");
        hand_over(&bob, &ann, 30).await;
    });
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, 0o666.into(), 0).unwrap();
}

/// Runs a test on its own thread and runtime, so that a blocking call does not block the test
/// itself.
fn within_patience<F: Future<Output = ()>>(
    what: &'static str,
    test: impl FnOnce() -> F + Send + 'static,
) {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(test());
        done.send(()).unwrap();
    });
    let result = result.recv_timeout(Duration::from_secs(30));
    assert_eq!(result, Ok(()), "{what}");
}
