//! The minimal rule that `tenure doctor` prints: it is sufficient, and every part of it is
//! necessary.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::driver::{
    Answer, Claim, Driver, Mode, News, Release, Released, Renewal, Renewed, Wait,
};
use tenure::{ClaimId, Error, Fence, Finding, Name, Owner, Verdict};
use tenure_testkit::{RedisCluster, RedisSentinel, RedisServer};
use tokio::time::{sleep, timeout};

use crate::chain;

#[tokio::test]
async fn the_rule_of_the_hash_layout_is_the_least() {
    let server = RedisServer::builder().user("default off").start().unwrap();
    let all = [&server];
    the_rule_is_the_least(&all, &|user| with(&server, user, "")).await;
}

#[tokio::test]
async fn the_rule_of_another_database_is_the_least() {
    let server = RedisServer::builder().user("default off").start().unwrap();
    let all = [&server];
    the_rule_is_the_least(&all, &|user| with(&server, user, "db=3")).await;
}

#[tokio::test]
async fn the_rule_of_grants_that_replicas_confirm_is_the_least() {
    let server = RedisServer::builder().user("default on nopass ~* &* +@all");
    let server = server.start().unwrap();
    let replica = RedisServer::builder().replica_of(server.plain_port());
    let replica = replica.start().unwrap();
    replica.wait_until_linked().unwrap();
    let all = [&server];
    the_rule_is_the_least(&all, &|user| with(&server, user, "replicas=1")).await;
}

#[tokio::test]
async fn the_rule_of_the_string_layout_is_the_least() {
    let server = RedisServer::builder().user("default off").start().unwrap();
    let all = [&server];
    for options in ["", "&scripts=off", "&fences=off", "&fences=off&scripts=off"] {
        let options = format!("layout=string&prefix=lock:{options}");
        the_rule_is_the_least(&all, &|user| with(&server, user, &options)).await;
    }
}

#[tokio::test]
async fn the_rule_of_a_cluster_is_the_least() {
    let options = RedisServer::builder().user("default on nopass ~* &* +@all");
    let cluster = RedisCluster::start_with(2, 0, &options).unwrap();
    let servers: Vec<_> = cluster.servers().iter().collect();
    for options in ["", "layout=string&prefix=lock:"] {
        the_rule_is_the_least(&servers, &|user| {
            let port = cluster.server(0).port();
            format!("redis+cluster://{user}:{PASSWORD}@127.0.0.1:{port}?{options}")
        })
        .await;
    }
}

#[tokio::test]
async fn the_rule_behind_sentinels_is_the_least() {
    let options = RedisServer::builder().user("default on nopass ~* &* +@all");
    let sentinels = RedisSentinel::start_with(&options, None).unwrap();
    let master = sentinels.servers().iter().collect::<Vec<_>>();
    let port = sentinels.sentinel_ports()[0];
    the_rule_is_the_least(&master, &|user| {
        format!(
            "redis+sentinel://{user}:{PASSWORD}@127.0.0.1:{port}/{}",
            RedisSentinel::MASTER
        )
    })
    .await;
}

#[tokio::test]
async fn the_rule_of_nodes_that_vote_is_the_least() {
    let start = || RedisServer::builder().user("default on nopass ~* &* +@all");
    let servers: Vec<_> = (0..3).map(|_| start().start().unwrap()).collect();
    let all: Vec<_> = servers.iter().collect();
    the_rule_is_the_least(&all, &|user| {
        let node = |server: &RedisServer| format!("{user}:{PASSWORD}@127.0.0.1:{}", server.port());
        let nodes: Vec<_> = servers.iter().map(node).collect();
        format!("redlock://{}?restart_delay=off&timeout=2s", nodes.join(","))
    })
    .await;
}

fn with(server: &RedisServer, user: &str, options: &str) -> String {
    format!("{}?{options}", server.url_as(user, PASSWORD))
}

/// Takes the rule as the doctor prints it, and leaves out one command after the other.
async fn the_rule_is_the_least(servers: &[&RedisServer], url: &dyn Fn(&str) -> String) {
    // Everything is permitted except what a provider would reserve for itself.
    set(
        servers,
        &[
            "all",
            "on",
            &format!(">{PASSWORD}"),
            "~*",
            "&*",
            "+@all",
            "-acl",
        ],
    );
    let line = line_of(&tenure::doctor(&url("all")).await.unwrap());
    let rules = rules_of(&line);
    set(servers, &[&["least"], &rules[..]].concat());
    forget_scripts(servers);
    if let Err(error) = exercise(servers, &url("least")).await {
        panic!("{line} is not enough: {}", chain(&error));
    }
    let found = tenure::doctor(&url("least")).await.unwrap();
    assert_eq!(rights(&found).verdict, Verdict::Fine, "{found:?}");
    let granted = |rule: &&&str| rule.starts_with(['+', '~', '&']);
    let granted: Vec<_> = rules.iter().filter(granted).collect();
    assert!(granted.len() > 5, "{line}");
    for (number, left_out) in granted.into_iter().enumerate() {
        let user = format!("user-{number}");
        let rest = rules.iter().filter(|rule| *rule != left_out).copied();
        let rest: Vec<_> = std::iter::once(user.as_str()).chain(rest).collect();
        set(servers, &rest);
        forget_scripts(servers);
        for server in servers {
            server.cli(&["CONFIG", "RESETSTAT"]);
        }
        let url = url(&user);
        let refused = exercise(servers, &url).await.is_err() || sends_ping(servers);
        assert!(refused, "{left_out} is not needed: {line}");
        names_what_is_missing(&url, left_out).await;
    }
}

/// Returns whether a `PING` was refused.
///
/// The client of a cluster checks its connections with `PING`, and reconnects if it is refused.
/// Whether this loses a request is a matter of luck.
fn sends_ping(servers: &[&RedisServer]) -> bool {
    servers.iter().any(|server| {
        let calls = server.cli(&["INFO", "commandstats"]);
        let mut pings = calls
            .lines()
            .filter(|line| line.starts_with("cmdstat_ping:"));
        pings.any(|line| !line.contains("rejected_calls=0,"))
    })
}

/// Checks that the doctor reports what is missing, if a connection is possible at all.
async fn names_what_is_missing(url: &str, rule: &str) {
    let Ok(found) = tenure::doctor(url).await else {
        assert_eq!(rule, "+select");
        return;
    };
    let rights = rights(&found);
    assert_eq!(rights.verdict, Verdict::Problem, "{rule}: {rights:?}");
    let lacks = match rule.split_at(1) {
        ("+", command) => format!("lacks the right to {command}"),
        ("~", _) => "lacks the keys".to_owned(),
        _ => "lacks the channels".to_owned(),
    };
    assert!(rights.found.contains(&lacks), "{rights:?}");
}

fn rights(found: &[Finding]) -> &Finding {
    found
        .iter()
        .find(|finding| finding.check == "rights")
        .unwrap()
}

fn line_of(found: &[Finding]) -> String {
    let advice = rights(found).advice.as_deref().unwrap();
    let at = advice.find("ACL SETUSER").unwrap();
    advice[at..].replace(">PASSWORD", &format!(">{PASSWORD}"))
}

/// Returns the rules of a line, without the command and the user.
fn rules_of(line: &str) -> Vec<&str> {
    line.split(' ').skip(3).collect()
}

fn set(servers: &[&RedisServer], rules: &[&str]) {
    for server in servers {
        server.cli(&[&["ACL", "SETUSER"], rules].concat());
    }
}

/// Flushes the scripts, because otherwise `EVAL` would not be needed.
fn forget_scripts(servers: &[&RedisServer]) {
    for server in servers {
        // A replica has none, and refuses.
        let _ = server.command(&["SCRIPT", "FLUSH"]);
    }
}

/// Does everything that locks support, and fails if any of it fails.
async fn exercise(servers: &[&RedisServer], url: &str) -> tenure::Result<()> {
    let votes = url.starts_with("redlock:");
    let (one, other) = if votes {
        let one = tenure::store::redlock::open(url).await?;
        (one, tenure::store::redlock::open(url).await?)
    } else {
        let one = tenure::store::redis::open(url).await?;
        (one, tenure::store::redis::open(url).await?)
    };
    let play = Play {
        one,
        other,
        is_hash: !url.contains("layout=string"),
        confirms: url.contains("replicas=") || url.contains("cluster") || votes,
        votes,
        tells: !(url.contains("cluster") && url.contains("layout=string")),
    };
    play.hand_over().await?;
    if votes {
        play.agree_on_a_fence(servers).await?;
    }
    if play.is_hash {
        play.share().await?;
        if !votes {
            play.take_permits().await?;
        }
        play.call_back().await?;
        play.one.list(None).await?;
    }
    play.evict().await?;
    play.stay_taken().await
}

struct Play {
    one: Arc<dyn Driver>,
    other: Arc<dyn Driver>,
    is_hash: bool,
    /// Whether a grant has to be confirmed by asking again.
    confirms: bool,
    /// Whether several servers have to agree on it.
    votes: bool,
    /// Whether waiters are notified at all.
    tells: bool,
}

impl Play {
    /// Locks, waits in line, lists, renews, releases, receives news, withdraws.
    async fn hand_over(&self) -> tenure::Result<()> {
        let name = name();
        let ann = claim(&name, Mode::Exclusive);
        let bob = claim(&name, Mode::Exclusive);
        let fence = granted(self.one.acquire(&ann).await?)?;
        assert_eq!(granted(self.one.acquire(&ann).await?)?, fence);
        for _ in 0..2 {
            assert!(matches!(
                self.other.acquire(&bob).await?,
                Answer::Queued { .. }
            ));
        }
        assert_eq!(self.one.list(Some(&name)).await?.len(), 1);
        let renewed = self.one.renew(&[renewal(&ann, fence)]).await?;
        assert!(matches!(renewed[..], [Renewed::Extended { .. }]));
        let lost = self.other.renew(&[renewal(&bob, fence)]).await?;
        assert!(matches!(lost[..], [Renewed::Lost(_)]));
        assert_eq!(
            self.one.release(&release(&ann, fence)).await?,
            Released::Freed { left: 0 }
        );
        self.hear(&bob).await?;
        self.other.withdraw(&bob).await
    }

    /// Gives each node another last fence, so that they agree on one in a second round.
    async fn agree_on_a_fence(&self, servers: &[&RedisServer]) -> tenure::Result<()> {
        let name = name();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        for (seconds, server) in (10..).step_by(10).zip(servers) {
            let ahead = (now + Duration::from_secs(seconds)).as_micros().to_string();
            server.cli(&["SET", &format!("tenure:{{{name}}}:fence"), &ahead]);
        }
        let ann = claim(&name, Mode::Exclusive);
        let fence = granted(self.one.acquire(&ann).await?)?;
        self.one.release(&release(&ann, fence)).await?;
        Ok(())
    }

    /// Waits for the grant, and takes it.
    async fn hear(&self, claim: &Claim) -> tenure::Result<()> {
        if self.tells {
            let news = timeout(Duration::from_secs(10), self.other.news()).await;
            if let Ok(News::Granted { .. }) = news {
                return Ok(());
            }
            assert!(matches!(news, Ok(News::AskAgain(_))), "{news:?}");
            assert!(self.confirms || !self.is_hash, "{news:?}");
        }
        let mut answer = self.other.acquire(claim).await?;
        if self.votes {
            // One node may have notified it before the others know.
            for _ in 0..100 {
                let Answer::Queued { ask_again } = answer else {
                    break;
                };
                let pause = ask_again.unwrap_or(A_MOMENT).min(A_MOMENT);
                sleep(pause).await;
                answer = self.other.acquire(claim).await?;
            }
        }
        granted(answer)?;
        Ok(())
    }

    /// Locks with several readers, one of them for an owner with two claims, and then with a writer.
    async fn share(&self) -> tenure::Result<()> {
        let name = name();
        let ann = claim(&name, Mode::Shared).with_owner(Owner::unique());
        let again = ann.clone().with_id(ClaimId::unique());
        let bob = claim(&name, Mode::Shared);
        let writer = claim(&name, Mode::Exclusive);
        let first = granted(self.one.acquire(&ann).await?)?;
        let second = granted(self.other.acquire(&bob).await?)?;
        granted(self.one.acquire(&again).await?)?;
        assert!(matches!(
            self.other.acquire(&writer).await?,
            Answer::Queued { .. }
        ));
        self.one.renew(&[renewal(&ann, first)]).await?;
        let released = self.one.release(&release(&ann, first)).await?;
        assert_eq!(released, Released::Freed { left: 1 });
        self.one.withdraw(&again).await?;
        self.other.release(&release(&bob, second)).await?;
        self.hear(&writer).await?;
        self.other.withdraw(&writer).await
    }

    async fn take_permits(&self) -> tenure::Result<()> {
        let name = name();
        let ann = claim(&name, Mode::Permits { take: 1, of: 3 });
        let bob = claim(&name, Mode::Permits { take: 1, of: 2 });
        let first = granted(self.one.acquire(&ann).await?)?;
        let second = granted(self.other.acquire(&bob).await?)?;
        self.one.release(&release(&ann, first)).await?;
        self.other.release(&release(&bob, second)).await?;
        Ok(())
    }

    /// Keeps a lease until somebody else asks.
    async fn call_back(&self) -> tenure::Result<()> {
        let name = name();
        let ann = claim(&name, Mode::Exclusive).told_if_wanted();
        let fence = granted(self.one.acquire(&ann).await?)?;
        let bob = claim(&name, Mode::Exclusive).with_wait(Wait::No);
        assert_eq!(self.other.acquire(&bob).await?, Answer::Busy);
        let wanted = async {
            // Nodes that vote also report earlier events.
            while !matches!(self.one.news().await, News::Wanted { .. }) {}
        };
        let told = timeout(Duration::from_secs(10), wanted).await;
        assert!(told.is_ok(), "nobody is told");
        self.one.release(&release(&ann, fence)).await?;
        Ok(())
    }

    async fn evict(&self) -> tenure::Result<()> {
        let name = name();
        granted(self.one.acquire(&claim(&name, Mode::Exclusive)).await?)?;
        assert_eq!(self.other.evict(&name).await?.len(), 1);
        Ok(())
    }

    async fn stay_taken(&self) -> tenure::Result<()> {
        let name = name();
        let ann = claim(&name, Mode::Exclusive);
        let fence = granted(self.one.acquire(&ann).await?)?;
        let release = release(&ann, fence).with_stays_taken(Duration::from_millis(50));
        assert_eq!(
            self.one.release(&release).await?,
            Released::Freed { left: 0 }
        );
        Ok(())
    }
}

fn name() -> Name {
    Name::new(&format!("rights-{:x}", fastrand::u64(..))).unwrap()
}

fn claim(name: &Name, mode: Mode) -> Claim {
    Claim::new(name.clone(), Duration::from_secs(30)).with_mode(mode)
}

/// Returns the fence of a grant. Nobody else asks for the name, so any other answer is a fault: if
/// several servers vote and all of them refuse, this may look like a lost vote.
fn granted(answer: Answer) -> tenure::Result<Fence> {
    match answer {
        Answer::Granted(grant) => Ok(grant.fence),
        other => Err(Error::Unavailable {
            driver: "test",
            source: format!("not granted: {other:?}").into(),
        }),
    }
}

fn renewal(claim: &Claim, fence: Fence) -> Renewal {
    Renewal::of(claim).with_fence(fence)
}

fn release(claim: &Claim, fence: Fence) -> Release {
    Release::of(claim).with_fence(fence)
}

const PASSWORD: &str = "hunter2";

const A_MOMENT: Duration = Duration::from_millis(50);
