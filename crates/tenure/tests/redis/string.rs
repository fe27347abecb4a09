//! Locks that other libraries share.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use tenure::driver::{About, Answer, Claim, Life, Mode, News, Wait};
use tenure::{Error, Fence, Health, Outcome, Owner};
use tenure_testkit::RedisServer;
use tokio::time::timeout;

use crate::storms::calls;
use crate::wire::Wire;
use crate::{LONG, PATIENCE, chain, millis, open, until, until_renewed};

const STRING: &str = "?layout=string";

fn start() -> (RedisServer, String) {
    let server = RedisServer::start().unwrap();
    let url = format!("{}{STRING}", server.url());
    (server, url)
}

/// Waits until somebody has asked to be told of changes; the server knows them by their requests.
async fn until_watching(server: &RedisServer, count: u64) {
    until("a client to watch", async || calls(server, "pttl") >= count).await;
}

#[tokio::test]
async fn an_owner_enters_again_and_leaves_as_often() {
    let (server, url) = start();
    let client = open(&url).await;
    let lock = client.mutex("a").ttl(LONG).owner(Owner::current());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    assert_eq!(outer.fence(), inner.fence());
    assert_eq!(
        inner.release().await.unwrap(),
        Outcome::Lowered { depth: 1 }
    );
    assert_eq!(server.cli(&["EXISTS", "a"]), "1");
    assert_eq!(outer.release().await.unwrap(), Outcome::Released);
    assert_eq!(server.cli(&["EXISTS", "a"]), "0");
}

#[tokio::test]
async fn a_waiter_is_told_when_another_program_deletes_the_key() {
    let (server, url) = start();
    let client = open(&url).await;
    // Without an end, as other libraries make them; and with one so far away that nobody would ask
    // again before.
    for command in [
        &["SET", "a", "other"][..],
        &["SET", "a", "other", "PX", "1000000"],
    ] {
        server.cli(command);
        let before = calls(&server, "pttl");
        let waiting = client.mutex("a");
        let waiting = tokio::spawn(async move { waiting.lock().await });
        until_watching(&server, before + 1).await;
        server.cli(&["DEL", "a"]);
        let deleted = Instant::now();
        let guard = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
        println!("told after {:?}", deleted.elapsed());
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_waiter_is_told_of_a_release_in_its_own_and_in_another_client() {
    let (server, url) = start();
    let (ann, bob) = (open(&url).await, open(&url).await);
    for holder in [&ann, &bob] {
        let guard = holder.mutex("a").ttl(LONG).lock().await.unwrap();
        let before = calls(&server, "pttl");
        let waiting = ann.mutex("a").ttl(LONG);
        let waiting = tokio::spawn(async move { waiting.lock().await });
        until_watching(&server, before + 1).await;
        let older = guard.fence();
        guard.release().await.unwrap();
        let next = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
        assert!(older < next.fence());
        next.release().await.unwrap();
    }
}

/// The server does not tell a client of its own changes.
#[tokio::test]
async fn a_waiter_is_told_of_its_own_clients_release_after_another_gave_up() {
    let (_server, url) = start();
    let driver = tenure::store::redis::open(&url).await.unwrap();
    let (holder, first, second) = (claim("ann"), claim("bob"), claim("eve"));
    let answer = driver.acquire(&holder).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)));
    for waiter in [&first, &second] {
        let answer = driver.acquire(waiter).await.unwrap();
        assert!(matches!(answer, Answer::Queued { .. }));
    }
    driver.withdraw(&first).await.unwrap();
    driver.withdraw(&holder).await.unwrap();
    let news = timeout(PATIENCE, driver.news()).await.unwrap();
    assert_eq!(news, News::AskAgain(Some(holder.name)));
}

#[tokio::test]
async fn a_lease_cannot_be_called_back() {
    let (server, url) = start();
    let driver = tenure::store::redis::open(&url).await.unwrap();
    let mut claim = claim("ann");
    claim.tell_if_wanted = true;
    let error = driver.acquire(&claim).await.unwrap_err();
    assert!(
        chain(&error).contains("layout=string cannot call a lease back"),
        "{error}"
    );
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

fn claim(owner: &str) -> Claim {
    Claim {
        name: "a".parse().unwrap(),
        owner: Owner::named(owner).unwrap(),
        mode: Mode::Exclusive,
        ttl: LONG,
        depth: 1,
        wait: Wait::InLine,
        life: Life::Client,
        fences: 1,
        tell_if_wanted: false,
        about: About::this_process(None),
    }
}

#[tokio::test]
async fn a_waiter_gets_in_when_a_foreign_lock_ends() {
    let (server, url) = start();
    let client = open(&url).await;
    let begun = Instant::now();
    server.cli(&["SET", "a", "other", "PX", "700"]);
    let guard = timeout(PATIENCE, client.mutex("a").lock())
        .await
        .unwrap()
        .unwrap();
    println!("in after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= millis(699), "{:?}", begun.elapsed());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn fences_grow_unless_they_are_off() {
    let (server, url) = start();
    let client = open(&url).await;
    let mut last: Option<Fence> = None;
    for round in 0..10 {
        let guard = client.mutex("a").lock().await.unwrap();
        assert!(last < Some(guard.fence()));
        last = Some(guard.fence());
        guard.release().await.unwrap();
        if round % 3 == 0 {
            server.cli(&["FLUSHALL"]);
        }
    }
    let client = open(&format!("{url}&fences=off")).await;
    for _ in 0..3 {
        let guard = client.mutex("a").lock().await.unwrap();
        assert_eq!(guard.fence().get(), 1);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn without_scripts_none_is_run() {
    for fences in ["on", "off"] {
        let server = RedisServer::start().unwrap();
        let url = format!("{}{STRING}&scripts=off&fences={fences}", server.url());
        let (ann, bob) = (open(&url).await, open(&url).await);
        let guard = ann.mutex("a").ttl(LONG).lock().await.unwrap();
        assert!(bob.mutex("a").try_lock().await.unwrap().is_none());
        until_renewed(&server, &guard).await;
        assert_eq!(guard.health(), Health::Held);
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        let next = bob.mutex("a").lock().await.unwrap();
        assert_eq!(next.release().await.unwrap(), Outcome::Released);
        for command in ["eval", "evalsha", "script|load", "fcall"] {
            assert_eq!(calls(&server, command), 0, "{command}");
        }
        assert!(calls(&server, "watch") > 0);
    }
}

#[tokio::test]
async fn what_a_string_cannot_be_is_refused_with_a_sentence() {
    let (server, url) = start();
    let client = open(&url).await;
    for lock in [client.rwlock("a").read(), client.semaphore("a", 3).take(1)] {
        let error = lock.lock().await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(
            chain(&error).contains("layout=string has exclusive locks alone"),
            "{error}"
        );
    }
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    let error = client.list(None).await.unwrap_err();
    assert!(chain(&error).contains("name the lock"), "{error}");
}

#[tokio::test]
async fn a_key_without_an_end_is_held_by_another() {
    let (server, url) = start();
    let client = open(&url).await;
    server.cli(&["SET", "a", "other"]);
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    let name = "a".parse().unwrap();
    let listed = client.list(Some(&name)).await.unwrap();
    assert_eq!(listed[0].holders.len(), 1);
    assert_eq!(server.cli(&["GET", "a"]), "other");
}

#[tokio::test]
async fn answers_that_are_lost_leave_nothing_behind() {
    for options in ["", "&fences=off", "&scripts=off", "&scripts=off&fences=off"] {
        let wire = Wire::start(&format!("{STRING}{options}")).await;
        wire.proxy.lose_reply_then_cut(b"\r\na\r\n");
        let guard = wire.client.mutex("a").ttl(LONG).lock().await;
        let guard = guard.unwrap_or_else(|error| panic!("{options}: {}", chain(&error)));
        wire.swallowed(1).await;
        assert!(wire.direct.mutex("a").try_lock().await.unwrap().is_none());
        wire.proxy.lose_reply_then_cut(b"\r\na\r\n");
        let released = guard.release().await;
        wire.swallowed(2).await;
        println!("{options}: the holder is told {released:?}");
        let next = timeout(PATIENCE, wire.direct.mutex("a").lock()).await;
        let next = next.unwrap().unwrap();
        assert_eq!(next.release().await.unwrap(), Outcome::Released);
        until("the key to be gone", async || {
            wire.server.cli(&["EXISTS", "a"]) == "0"
        })
        .await;
    }
}

#[tokio::test]
async fn a_string_lock_and_a_lock_of_redis_py_exclude_each_other() {
    let (server, url) = start();
    let mut python = Python::start(&server);
    let client = open(&url).await;
    let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    assert_eq!(python.ask("try"), "False");
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    // Its default has no end.
    assert_eq!(python.ask("try"), "True");
    assert_eq!(server.cli(&["PTTL", "a"]), "-1");
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    let waiting = client.mutex("a").ttl(LONG);
    let before = calls(&server, "pttl");
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_watching(&server, before + 1).await;
    assert_eq!(python.ask("release"), "None");
    let guard = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    python.tell("wait");
    guard.release().await.unwrap();
    assert_eq!(python.answer(), "True");
    assert_eq!(python.ask("release"), "None");
    assert_eq!(server.cli(&["EXISTS", "a"]), "0");
}

/// A program of another language that uses the lock of its own library.
struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Python {
    fn start(server: &RedisServer) -> Self {
        let program = "/usr/bin/python3";
        let found = Command::new(program).args(["-c", "import redis"]).output();
        assert!(
            found.is_ok_and(|output| output.status.success()),
            "python3-redis is not installed; install it with: apt-get install python3-redis"
        );
        let mut child = Command::new(program)
            .args(["-u", "-c", PROGRAM, &server.port().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            child,
            input,
            output: BufReader::new(output),
        }
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        self.answer()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROGRAM: &str = r#"
import sys, redis
lock = redis.Redis(port=int(sys.argv[1])).lock("a")
for order in sys.stdin:
    if order.strip() == "try":
        print(lock.acquire(blocking=False))
    elif order.strip() == "wait":
        print(lock.acquire(blocking_timeout=20))
    else:
        print(lock.release())
"#;
