//! Locks that are shared with other libraries.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::{Answer, Claim, Driver, Loss, News, Release, Released};
use tenure::{Error, Fence, Health, Outcome, Owner};
use tenure_testkit::{Fault, Proxy, RedisCluster, RedisServer};
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

/// Waits until a client has asked for notifications of changes, which the server's command counts
/// show.
async fn until_watching(server: &RedisServer, count: u64) {
    until("a client to watch", async || calls(server, "pttl") >= count).await;
}

/// The rules of the contract, except for what strings lack. A string contains neither the client
/// nor the fence nor the reason of its holder, and strings that are locks cannot be distinguished
/// from others.
macro_rules! rules {
    ($options:literal) => {
        tenure::conformance! {
            std::future::ready(crate::string::Strings::start($options));
            a_busy_claim_changes_nothing,
            a_grant_lasts_for_as_long_as_the_store_says,
            a_handed_over_lease_is_what_was_asked_for,
            a_name_that_stays_taken_goes_to_the_next_in_time,
            a_name_that_stays_taken_is_nobodys_and_then_free,
            a_name_that_stays_taken_outlives_its_client,
            a_lease_by_client_ends_with_its_client,
            a_lease_by_ttl_expires,
            a_lease_lasts_for_its_ttl,
            a_renewal_after_expiry_does_not_revive_the_lease,
            a_renewal_extends_the_lease,
            a_second_release_says_gone,
            a_short_lease_after_a_long_one_lets_the_next_in,
            a_strangers_renewal_changes_nothing,
            an_eviction_moves_the_fence_on,
            an_exclusive_lock_refuses_a_second_owner,
            an_expired_lease_frees_the_name,
            an_expired_lease_lets_the_next_in,
            an_old_fence_changes_nothing,
            asking_again_restarts_the_lease,
            evicting_a_free_name_returns_nothing,
            fences_grow_whatever_ended_the_lease_before,
            fences_leave_room_for_the_block_that_was_reserved,
            news_is_not_lost_when_a_wait_is_given_up,
            one_of_many_claims_at_once_is_granted,
            renewals_are_answered_in_their_order,
            the_same_claim_asked_twice_is_granted_once,
            unusual_names_are_distinct_locks,
            withdrawing_a_granted_claim_lets_the_next_in,
        }
    };
}

mod rules {
    rules!("");
}

mod rules_without_scripts {
    rules!("&scripts=off");
}

/// A server, and clients of its string locks.
struct Strings {
    _server: RedisServer,
    url: String,
}

impl Strings {
    fn start(options: &str) -> Self {
        let (server, url) = start();
        let url = format!("{}&connect_timeout=20s{options}", crate::patient(&url));
        Self {
            _server: server,
            url,
        }
    }
}

#[async_trait]
impl Fixture for Strings {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::redis::open(&self.url).await.unwrap()
    }
}

#[tokio::test]
async fn a_nested_call_leaves_the_lock_to_the_outer_one() {
    let (server, url) = start();
    let client = open(&url).await;
    let lock = client.mutex("a").ttl(LONG).reentrant();
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

/// The reply was lost, and the next grant was made before the release is retried.
#[tokio::test]
async fn a_release_that_is_sent_again_leaves_the_next_grant_alone() {
    for options in ["", "&scripts=off"] {
        let (server, url) = start();
        let driver = tenure::store::redis::open(&format!("{url}{options}")).await;
        let driver = driver.unwrap();
        let (old, new) = (claim(), claim());
        for (claim, stays_taken) in [(&old, millis(0)), (&new, millis(1))] {
            let answer = driver.acquire(claim).await.unwrap();
            assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
            let release = release(claim, stays_taken);
            let first = driver.release(&release).await.unwrap();
            assert_eq!(first, Released::Freed { left: 0 });
            until("the lock to be free", async || {
                server.cli(&["EXISTS", "a"]) == "0"
            })
            .await;
            let next = claim_with_value(&*driver, &server).await;
            let again = driver.release(&release).await.unwrap();
            assert_eq!(again, Released::NotHeld(Loss::TakenOver));
            driver.withdraw(claim).await.unwrap();
            assert_eq!(server.cli(&["GET", "a"]), next.id.as_str());
            driver.withdraw(&next).await.unwrap();
        }
    }
}

/// A lock that stays taken after its release belongs to nobody, not even to its last holder.
#[tokio::test]
async fn a_lock_that_stays_taken_is_nobodys() {
    for options in ["", "&scripts=off"] {
        let (server, url) = start();
        let driver = tenure::store::redis::open(&format!("{url}{options}")).await;
        let driver = driver.unwrap();
        let claim = claim_with_value(&*driver, &server).await;
        let release = release(&claim, LONG);
        let freed = driver.release(&release).await.unwrap();
        assert_eq!(freed, Released::Freed { left: 0 });
        let again = driver.release(&release).await.unwrap();
        assert!(matches!(again, Released::NotHeld(_)), "{again:?}");
        driver.withdraw(&claim).await.unwrap();
        let listed = driver.list(Some(&claim.name)).await.unwrap();
        assert_eq!(listed[0].holders[0].depth, 0);
        assert!(listed[0].holders[0].expires_in > LONG / 2);
    }
}

async fn claim_with_value(driver: &dyn Driver, server: &RedisServer) -> Claim {
    let claim = claim();
    let answer = driver.acquire(&claim).await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
    assert_eq!(server.cli(&["GET", "a"]), claim.id.as_str());
    claim
}

fn release(claim: &Claim, stays_taken: Duration) -> Release {
    Release::of(claim).with_stays_taken(stays_taken)
}

#[tokio::test]
async fn a_lock_named_like_the_fence_of_another_is_a_lock() {
    let (_server, url) = start();
    let client = open(&url).await;
    let names = [("x", "{x}:fence"), ("{x}", "{x}:fence"), ("a{", "a{:fence")];
    let swapped = names.map(|(one, other)| (other, one));
    for (one, other) in swapped.into_iter().chain(names) {
        let first = client.mutex(one).try_lock().await.unwrap().unwrap();
        let second = client.mutex(other).try_lock().await.unwrap().unwrap();
        assert_eq!(second.release().await.unwrap(), Outcome::Released);
        assert_eq!(first.release().await.unwrap(), Outcome::Released);
    }
}

#[tokio::test]
async fn a_waiter_is_told_when_another_program_deletes_the_key() {
    let (server, url) = start();
    let client = open(&url).await;
    // Without an expiry, as other libraries create them; and with one so far away that nobody would
    // ask again before it.
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

/// The server does not notify a client of its own changes.
#[tokio::test]
async fn a_waiter_is_told_of_its_own_clients_release_after_another_gave_up() {
    let (_server, url) = start();
    let driver = tenure::store::redis::open(&url).await.unwrap();
    let (holder, first, second) = (claim(), claim(), claim());
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

fn claim() -> Claim {
    Claim::new("a".parse().unwrap(), LONG)
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
    for lock in [
        client.rwlock("a").read(),
        client.semaphore("a", 3).take(1),
        client.mutex("a").owner(Owner::unique()),
        client.mutex("a").keep(LONG),
    ] {
        let error = lock.lock().await.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
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

/// The connection is cut after the reply that the lock is still held; when the next connection is
/// open, another client holds it.
#[tokio::test]
async fn a_release_on_a_connection_that_was_lost_half_way_leaves_the_next_holder_alone() {
    let server = RedisServer::start().unwrap();
    let cluster = RedisCluster::start(1, 0).unwrap();
    let servers = [(&server, "redis"), (cluster.server(0), "redis+cluster")];
    for (server, scheme) in servers {
        let proxy = Proxy::start(server.port()).unwrap();
        let port = proxy.port().to_string();
        if scheme == "redis+cluster" {
            server.cli(&["CONFIG", "SET", "cluster-announce-port", &port]);
        }
        let url = format!("{scheme}://127.0.0.1:{port}/{STRING}&scripts=off");
        let client = open(&url).await;
        // The connection for changes is opened with the first of them.
        let guard = client.mutex("a").lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        // Whether the client notices the cut before it continues is a matter of luck.
        for round in 1..=10 {
            let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
            proxy.forward_reply_then_cut(b"WATCH");
            proxy.set(Fault::Refuse);
            let release = tokio::spawn(guard.release());
            until("the connection to be cut", async || {
                proxy.connections_cut() == round
            })
            .await;
            server.cli(&["SET", "a", "other"]);
            proxy.set(Fault::Pass);
            let released = release.await.unwrap();
            assert!(
                !matches!(released, Ok(Outcome::Released)),
                "{scheme}: {released:?}"
            );
            client.settled().await;
            assert_eq!(server.cli(&["GET", "a"]), "other", "{scheme}");
            server.cli(&["DEL", "a"]);
        }
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
    // By default it has no expiry.
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

/// A program in another language that uses the lock of its own library.
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
        // This fails only if it has already ended.
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
