//! Programs that lock with Curator and kazoo, on the same path as ours.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tenure::{Client, Name};
use tenure_testkit::ZooKeeperServer;

use crate::common::{entry, got, open_with, until, until_waiting, waiter};

/// A program of another kind that locks as it is told; killed on drop.
struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a Curator program.
    fn curator(server: &ZooKeeperServer, kind: &str, path: &str) -> Self {
        let classes = server.folder().join("classes");
        if !classes.join("Peer.class").exists() {
            compile(&classes);
        }
        let mut command = Command::new("java");
        command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.args(["-cp", &format!("{}:{}", classes.display(), jars()), "Peer"]);
        Self::start(command, server, kind, path)
    }

    /// Starts a kazoo program.
    fn kazoo(server: &ZooKeeperServer, kind: &str, path: &str) -> Self {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(Path::new(SOURCES).join("peer.py"));
        Self::start(command, server, kind, path)
    }

    fn start(mut command: Command, server: &ZooKeeperServer, kind: &str, path: &str) -> Self {
        let connect = format!("127.0.0.1:{}", server.port());
        command.args([&connect, kind, path]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the peer is installed");
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut peer = Self {
            child,
            orders,
            answers,
        };
        assert_eq!(peer.answer(), "ready", "{INSTALL}");
        peer
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        self.orders.flush().unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn does(&mut self, order: &str) -> String {
        self.order(order);
        self.answer()
    }

    /// Kills it as `kill -9` does.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles the Curator program, with the compiler that Debian has as a plain program.
fn compile(classes: &Path) {
    let source = Path::new(SOURCES).join("Peer.java");
    let compiled = Command::new("ecj")
        .args([
            "-proc:none",
            "-nowarn",
            "--release",
            "11",
            "-cp",
            &jars(),
            "-d",
        ])
        .arg(classes)
        .arg(source)
        .status();
    assert!(compiled.expect(INSTALL).success(), "{INSTALL}");
}

fn jars() -> String {
    let jars = [
        "curator-recipes",
        "curator-framework",
        "curator-client",
        "zookeeper",
        "zookeeper-jute",
        "guava",
        "slf4j-api",
        "slf4j-nop",
    ];
    let paths = jars.map(|jar| format!("/usr/share/java/{jar}.jar"));
    paths.join(":")
}

/// Each takes the lock from the other: while one has it the other waits, and is let in afterwards.
async fn exclude_each_other(locks: &Client, name: &str, mut peer: Peer) {
    let held = locks.mutex(name).lock().await.unwrap();
    assert_eq!(peer.does("try"), "busy");
    peer.order("acquire");
    until_waiting(locks, name, 1).await;
    held.release().await.unwrap();
    assert_eq!(peer.answer(), "acquired");
    assert!(locks.mutex(name).try_lock().await.unwrap().is_none());
    let waiting = waiter(locks, name);
    until_waiting(locks, name, 1).await;
    assert!(!waiting.is_finished());
    assert_eq!(peer.does("release"), "released");
    let held = got(waiting).await;
    // Killed while it waits behind us, it leaves the line; killed while it holds, the lock comes free.
    peer.order("acquire");
    until_waiting(locks, name, 1).await;
    held.release().await.unwrap();
    assert_eq!(peer.answer(), "acquired");
    let waiting = waiter(locks, name);
    until_waiting(locks, name, 1).await;
    peer.kill();
    got(waiting).await.release().await.unwrap();
}

/// Both add to a number in a file, which only a lock makes right.
async fn count_together(server: &ZooKeeperServer, locks: &Client, name: &str, mut peer: Peer) {
    let file = server.folder().join("number");
    std::fs::write(&file, "0").unwrap();
    peer.order(&format!("count {TIMES} {}", file.display()));
    for _ in 0..TIMES {
        let guard = locks.mutex(name).lock().await.unwrap();
        let number: u32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        std::fs::write(&file, (number + 1).to_string()).unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(peer.answer(), "counted");
    let number = std::fs::read_to_string(&file).unwrap();
    assert_eq!(number.trim(), (2 * TIMES).to_string());
}

/// A client that is killed: its session ends by itself, and the peer gets the lock.
async fn frees_when_killed(server: &ZooKeeperServer, layout: &str, name: &str, mut peer: Peer) {
    // A client that only the servers can end: its connection goes through a proxy that forwards nothing any more.
    let proxy = tenure_testkit::Proxy::start(server.port()).unwrap();
    let options = format!("session=2s&timeout=1s&connect_timeout=1s&{layout}");
    let ann = open_with(&server.url_on(proxy.port()), &options).await;
    let held = ann.mutex(name).lock().await.unwrap();
    peer.order("acquire");
    let others = open_with(&server.url(), &format!("timeout=20s&{layout}")).await;
    until_waiting(&others, name, 1).await;
    proxy.set(tenure_testkit::Fault::Freeze);
    assert_eq!(peer.answer(), "acquired");
    // Told before the peer had it.
    assert!(matches!(held.health(), tenure::Health::Lost(_)));
    proxy.set(tenure_testkit::Fault::Pass);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curators_mutex_and_ours_exclude_each_other() {
    let server = ZooKeeperServer::start().unwrap();
    let locks = open_with(&server.url(), "timeout=20s").await;
    exclude_each_other(&locks, "a", Peer::curator(&server, "mutex", "/tenure/a")).await;
    count_together(
        &server,
        &locks,
        "b",
        Peer::curator(&server, "mutex", "/tenure/b"),
    )
    .await;
    frees_when_killed(
        &server,
        "",
        "c",
        Peer::curator(&server, "mutex", "/tenure/c"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curators_read_write_lock_and_ours_exclude_each_other() {
    let server = ZooKeeperServer::start().unwrap();
    let locks = open_with(&server.url(), "timeout=20s&layout=readwrite").await;
    exclude_each_other(&locks, "a", Peer::curator(&server, "write", "/tenure/a")).await;
    let mut reader = Peer::curator(&server, "read", "/tenure/b");
    let mut writer = Peer::curator(&server, "write", "/tenure/b");
    let read = locks.rwlock("b").read();
    // Readers of both kinds go together, and writers of both kinds wait.
    let ours = read.lock().await.unwrap();
    assert_eq!(reader.does("acquire"), "acquired");
    assert_eq!(writer.does("try"), "busy");
    assert!(
        locks
            .rwlock("b")
            .write()
            .try_lock()
            .await
            .unwrap()
            .is_none()
    );
    ours.release().await.unwrap();
    assert!(
        locks
            .rwlock("b")
            .write()
            .try_lock()
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(reader.does("release"), "released");
    let ours = locks.rwlock("b").write().lock().await.unwrap();
    assert_eq!(reader.does("try"), "busy");
    assert_eq!(writer.does("try"), "busy");
    ours.release().await.unwrap();
    assert_eq!(writer.does("acquire"), "acquired");
    assert!(read.try_lock().await.unwrap().is_none());
    assert_eq!(writer.does("release"), "released");
    count_together(
        &server,
        &locks,
        "c",
        Peer::curator(&server, "write", "/tenure/c"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoos_locks_and_ours_exclude_each_other() {
    let server = ZooKeeperServer::start().unwrap();
    let locks = open_with(&server.url(), "timeout=20s&layout=kazoo").await;
    exclude_each_other(&locks, "a", Peer::kazoo(&server, "lock", "/tenure/a")).await;
    count_together(
        &server,
        &locks,
        "b",
        Peer::kazoo(&server, "lock", "/tenure/b"),
    )
    .await;
    frees_when_killed(
        &server,
        "layout=kazoo",
        "c",
        Peer::kazoo(&server, "lock", "/tenure/c"),
    )
    .await;
    let mut reader = Peer::kazoo(&server, "read", "/tenure/d");
    let mut writer = Peer::kazoo(&server, "write", "/tenure/d");
    let ours = locks.rwlock("d").read().lock().await.unwrap();
    assert_eq!(reader.does("acquire"), "acquired");
    assert_eq!(writer.does("try"), "busy");
    assert_eq!(reader.does("release"), "released");
    ours.release().await.unwrap();
    assert_eq!(writer.does("acquire"), "acquired");
    assert!(locks.rwlock("d").read().try_lock().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoos_lock_with_patterns_and_ours_exclude_each_other() {
    let server = ZooKeeperServer::start().unwrap();
    let locks = open_with(&server.url(), "timeout=20s").await;
    exclude_each_other(&locks, "a", Peer::kazoo(&server, "patterns", "/tenure/a")).await;
    count_together(
        &server,
        &locks,
        "b",
        Peer::kazoo(&server, "patterns", "/tenure/b"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_holders_are_listed_as_what_they_are_and_can_be_evicted() {
    let server = ZooKeeperServer::start().unwrap();
    let locks = open_with(&server.url(), "timeout=20s").await;
    for (mut peer, name, program) in [
        (Peer::curator(&server, "mutex", "/tenure/a"), "a", "curator"),
        (Peer::kazoo(&server, "lock", "/tenure/b"), "b", "kazoo"),
    ] {
        assert_eq!(peer.does("acquire"), "acquired");
        let waiting = waiter(&locks, name);
        until_waiting(&locks, name, 1).await;
        let found = entry(&locks, name).await;
        assert_eq!(found.holders.len(), 1, "{found:?}");
        let owner = found.holders[0].owner.as_str();
        assert!(owner.starts_with(&format!("{program}/")), "{owner}");
        let reason = found.holders[0].about.reason.as_deref().unwrap_or_default();
        assert!(reason.to_lowercase().contains(program), "{reason}");
        let only: Name = name.parse().unwrap();
        assert_eq!(locks.evict(&only).await.unwrap().len(), 1);
        got(waiting).await.release().await.unwrap();
        until("nobody to be left", async || {
            entry(&locks, name).await.is_empty()
        })
        .await;
    }
}

/// How often each adds to the number.
const TIMES: u32 = 30;

/// Where the sources of the peers are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zookeeper/peers");

const INSTALL: &str = "apt-get install libcurator-recipes-java ecj python3-kazoo";
