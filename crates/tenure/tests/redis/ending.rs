//! What a program leaves behind when its runtime ends.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use tenure::{Client, Error, Guard, Name, Owner};
use tenure_testkit::{Fault, Proxy, RedisServer};
use tokio::runtime::{Builder, Runtime};

use crate::{LONG, PATIENCE, open, until};

/// Runs a `main` on a runtime with one thread and on one with two, and returns how many of the
/// locks that [`locked`] takes are still held afterwards.
fn left_behind<F: Future<Output = ()>>(url: &str, main: impl Fn(String) -> F) -> [usize; 2] {
    runtimes().map(|runtime| {
        runtime.block_on(main(url.to_owned()));
        let ending = Instant::now();
        drop(runtime);
        let is_in_time = ending.elapsed() < LONGEST_END / 4;
        one_thread().block_on(async {
            let client = open(url).await;
            let mut held = held(&client).await;
            // What a machine that stood still left unsent is sent a little later.
            while held > 0 && !is_in_time && ending.elapsed() < PATIENCE {
                held = self::held(&client).await;
            }
            held
        })
    })
}

/// How many of the locks are held.
async fn held(client: &Client) -> usize {
    let mut held = 0;
    for number in 0..LOCKS {
        let name: Name = name(number).parse().unwrap();
        held += client.list(Some(&name)).await.unwrap().len();
    }
    held
}

/// How long the end of a program waits for all its releases at most.
const LONGEST_END: Duration = Duration::from_secs(1);

/// The maximum number of locks that a test takes.
const LOCKS: usize = 100;

fn name(number: usize) -> String {
    format!("a {number}")
}

fn runtimes() -> [Runtime; 2] {
    let mut several = Builder::new_multi_thread();
    let several = several.worker_threads(2).enable_all().build();
    [one_thread(), several.unwrap()]
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn locked(client: &Client, number: usize) -> Guard {
    client
        .mutex(&name(number))
        .ttl(LONG)
        .try_lock()
        .await
        .unwrap()
        .expect("free")
}

#[test]
fn a_guard_dropped_at_the_end_of_main_leaves_nothing() {
    let server = RedisServer::start().unwrap();
    for layout in ["", "?layout=string"] {
        let left = left_behind(&format!("{}{layout}", server.url()), |url| async move {
            let client = open(&url).await;
            let _guard = locked(&client, 0).await;
        });
        assert_eq!(left, [0, 0], "{layout}");
    }
}

#[test]
fn many_guards_dropped_at_the_end_of_main_leave_nothing() {
    let server = RedisServer::start().unwrap();
    let left = left_behind(&server.url(), |url| async move {
        let client = open(&url).await;
        let mut guards = Vec::new();
        for number in 0..LOCKS {
            guards.push(locked(&client, number).await);
        }
    });
    assert_eq!(left, [0, 0]);
}

#[test]
fn a_guard_in_a_task_that_the_runtime_drops_leaves_nothing() {
    let server = RedisServer::start().unwrap();
    let left = left_behind(&server.url(), |url| async move {
        let client = open(&url).await;
        let guard = locked(&client, 0).await;
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        });
        tokio::task::yield_now().await;
    });
    assert_eq!(left, [0, 0]);
}

#[test]
fn a_guard_that_outlives_its_runtime_leaves_nothing() {
    let server = RedisServer::start().unwrap();
    for runtime in runtimes() {
        let (client, guard) = runtime.block_on(async {
            let client = open(&server.url()).await;
            let guard = locked(&client, 0).await;
            (client, guard)
        });
        drop(runtime);
        drop(guard);
        drop(client);
    }
    assert_eq!(left_behind(&server.url(), |_| async {}), [0, 0]);
}

#[test]
fn a_kept_lease_is_not_left_behind() {
    let server = RedisServer::start().unwrap();
    let left = left_behind(&server.url(), |url| async move {
        let client = open(&url).await;
        let kept = client.mutex(&name(0)).ttl(LONG).keep(LONG);
        kept.try_lock()
            .await
            .unwrap()
            .expect("free")
            .release()
            .await
            .unwrap();
    });
    assert_eq!(left, [0, 0]);
}

#[test]
fn a_claim_in_flight_at_the_end_is_withdrawn() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    for runtime in runtimes() {
        runtime.block_on(async {
            let client = open(&url).await;
            // From now on the server knows the scripts.
            locked(&client, 1).await.release().await.unwrap();
            let before = proxy.replies_swallowed();
            proxy.set(Fault::LoseReplies);
            tokio::spawn(async move { locked(&client, 0).await });
            until("the claim to arrive", async || {
                proxy.replies_swallowed() > before
            })
            .await;
            proxy.set(Fault::Pass);
        });
    }
    assert_eq!(left_behind(&server.url(), |_| async {}), [0, 0]);
}

/// Not about speed: without a limit a program could hang when it ends.
#[test]
fn a_server_that_stands_still_does_not_keep_a_program_from_ending() {
    let server = RedisServer::start().unwrap();
    let runtime = one_thread();
    runtime.block_on(async {
        let client = open(&server.url()).await;
        let mut guards = Vec::new();
        for number in 0..20 {
            guards.push(locked(&client, number).await);
        }
        server.freeze().unwrap();
    });
    let ending = Instant::now();
    drop(runtime);
    let ended = ending.elapsed();
    server.thaw().unwrap();
    assert!(ended < Duration::from_secs(10), "{ended:?}");
}

/// Not a test: a program that is not async, and ends right after it has dropped a guard.
#[test]
fn blocking_program() {
    if let Ok(url) = std::env::var(PROGRAM) {
        let client = tenure::blocking::open(&url).unwrap();
        let _guard = client.mutex(&name(0)).ttl(LONG).lock().unwrap();
    }
}

/// The variable with the store of a program; without it the programs do nothing.
const PROGRAM: &str = "TENURE_TEST_PROGRAM";

/// Runs one of the programs to its end.
fn run_program(program: &str, server: &RedisServer) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", program]);
    let ended = command.env(PROGRAM, server.url()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn a_blocking_guard_dropped_at_the_end_of_main_leaves_nothing() {
    let server = RedisServer::start().unwrap();
    for _ in 0..5 {
        run_program("ending::blocking_program", &server);
        assert_eq!(left_behind(&server.url(), |_| async {}), [0, 0]);
    }
}

#[test]
fn a_blocking_client_can_wait_for_what_it_keeps() {
    let server = RedisServer::start().unwrap();
    let client = tenure::blocking::open(&server.url()).unwrap();
    let other = tenure::blocking::open(&server.url()).unwrap();
    let kept = client.mutex("a").ttl(LONG).keep(LONG);
    kept.lock().unwrap().release().unwrap();
    assert_eq!(other.list(None).unwrap().len(), 1);
    client.settled();
    assert!(other.list(None).unwrap().is_empty());
}

/// Forks; the child runs `act` and ends, and this process waits for it.
#[allow(
    unsafe_code,
    reason = "the test has one thread, so that the child may do anything"
)]
fn in_a_child(act: impl FnOnce()) {
    // SAFETY: there is no other thread that could hold a lock that the child needs.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let failed = catch_unwind(AssertUnwindSafe(act)).is_err();
        // SAFETY: ends the process without running the exit handlers of the parent.
        unsafe { libc::_exit(i32::from(failed)) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn a_forked_child_gives_nothing_back_that_is_its_parents() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_gives_nothing_back_that_is_its_parents",
    ) {
        return;
    }
    let server = RedisServer::start().unwrap();
    let runtime = one_thread();
    let (client, guard) = runtime.block_on(async {
        let client = open(&server.url()).await;
        let guard = locked(&client, 0).await;
        (client, guard)
    });
    let mut inherited = Some((runtime, client, guard));
    in_a_child(|| {
        // It may even use the runtime for a while before everything ends.
        if let Some((runtime, client, guard)) = inherited.take() {
            drop(guard);
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
            drop(client);
            drop(runtime);
        }
    });
    assert_eq!(left_behind(&server.url(), |_| async {}), [1, 1]);
    drop(inherited);
    assert_eq!(left_behind(&server.url(), |_| async {}), [0, 0]);
}

#[test]
fn a_forked_child_is_refused_its_parents_client() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_is_refused_its_parents_client",
    ) {
        return;
    }
    let server = RedisServer::start().unwrap();
    let runtime = one_thread();
    let client = runtime.block_on(open(&server.url()));
    in_a_child(|| {
        runtime.block_on(async {
            let locked = client.mutex(&name(0)).try_lock().await;
            assert!(matches!(locked, Err(Error::Unavailable { .. })), "lock");
            let listed = client.list(None).await;
            assert!(matches!(listed, Err(Error::Unavailable { .. })), "list");
        });
    });
    assert_eq!(left_behind(&server.url(), |_| async {}), [0, 0]);
}

#[test]
fn owners_that_are_unique_are_so_in_forked_children() {
    if !tenure_testkit::alone(
        module_path!(),
        "owners_that_are_unique_are_so_in_forked_children",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let _used = Owner::unique();
    for child in ["ann", "bob"] {
        in_a_child(|| {
            let owners = format!("{} {}", Owner::unique(), Owner::current());
            std::fs::write(folder.path().join(child), owners).unwrap();
        });
    }
    let [ann, bob] = ["ann", "bob"].map(|child| {
        let owners = std::fs::read_to_string(folder.path().join(child)).unwrap();
        owners.split(' ').map(str::to_owned).collect::<Vec<_>>()
    });
    assert_ne!(ann[0], bob[0]);
    assert_ne!(ann[1], bob[1]);
    assert_ne!(ann[1], Owner::current().to_string());
}

#[test]
fn a_forked_child_of_blocking_code_can_open_its_own_client() {
    if !tenure_testkit::alone(
        module_path!(),
        "a_forked_child_of_blocking_code_can_open_its_own_client",
    ) {
        return;
    }
    let server = RedisServer::start().unwrap();
    let parents = tenure::blocking::open(&server.url()).unwrap();
    let guard = parents.mutex(&name(1)).ttl(LONG).lock().unwrap();
    in_a_child(|| {
        let refused = parents.mutex(&name(0)).try_lock();
        assert!(matches!(refused, Err(Error::Unavailable { .. })));
        let own = tenure::blocking::open(&server.url()).unwrap();
        assert!(own.mutex(&name(1)).try_lock().unwrap().is_none());
        drop(own.mutex(&name(0)).ttl(LONG).try_lock().unwrap().unwrap());
    });
    assert_eq!(left_behind(&server.url(), |_| async {}), [1, 1]);
    drop(guard);
    assert_eq!(left_behind(&server.url(), |_| async {}), [0, 0]);
}

/// Not a test: a program whose client has guards to release twice after the end of its runtime.
#[test]
fn goodbye_program() {
    if let Ok(url) = std::env::var(PROGRAM) {
        let guards = one_thread().block_on(async {
            let client = open(&url).await;
            [locked(&client, 0).await, locked(&client, 1).await]
        });
        let [first, second] = guards;
        drop(first);
        std::thread::sleep(Duration::from_millis(1500));
        drop(second);
    }
}

#[test]
fn a_client_says_goodbye_more_than_once() {
    let server = RedisServer::start().unwrap();
    for _ in 0..3 {
        run_program("ending::goodbye_program", &server);
        assert_eq!(left_behind(&server.url(), |_| async {}), [0, 0]);
    }
}

/// Not about speed: ten clients would take ten times as long.
#[test]
fn the_end_takes_no_longer_for_many_clients() {
    let server = RedisServer::start().unwrap();
    let runtime = one_thread();
    runtime.block_on(async {
        let mut held = Vec::new();
        for number in 0..10 {
            let client = open(&server.url()).await;
            let guard = locked(&client, number).await;
            held.push((client, guard));
        }
        server.freeze().unwrap();
    });
    let ending = Instant::now();
    drop(runtime);
    let ended = ending.elapsed();
    server.thaw().unwrap();
    assert!(ended < Duration::from_secs(8), "{ended:?}");
}
