//! The layout that other libraries share: a string with the claim's id, `SET NX PX`.
//!
//! Exclusive locks only, and no line: the first client to ask after a release is granted the lock.
//! The server tells waiters when the key changes (client-side caching), whoever changed it.

use std::collections::{HashMap, HashSet, hash_map};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{FromRedisValue, Pipeline, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::driver::{
    About, Answer, Capabilities, Claim, Clock, Driver, Entry, Fairness, Grant, Holder, Life, Loss,
    News, Release, Released, Renewal, Renewed, Reopening, Wait,
};
use crate::error::{Error, Result};
use crate::name::{ClaimId, Fence, Name};
use crate::store::redis::answers::read_fence;
use crate::store::redis::compare::Compare;
use crate::store::redis::connect::Greeting;
use crate::store::redis::fault::{self, DRIVER};
use crate::store::redis::hash::millis;
use crate::store::redis::link::{Heard, Link};
use crate::store::redis::parts::{all, put_together};
use crate::store::redis::script::Script;
use crate::store::redis::url::Settings;
use crate::sync::Mutex;

/// One client of string locks.
#[derive(Debug)]
pub(crate) struct StringLocks {
    link: Link,
    prefix: String,
    fence_memory: u64,
    fences: bool,
    compare: Compare,
    acquire: Script,
    /// The fences of this client's leases: a string has no room for them.
    held: Mutex<Held>,
    /// The names that this client waits for, with the claims: one claim may give up while another
    /// still waits.
    awaited: Mutex<HashMap<Name, HashSet<ClaimId>>>,
    /// This client's own releases, which the server does not report to it.
    freed: mpsc::UnboundedSender<Name>,
    news: tokio::sync::Mutex<Inbox>,
}

#[derive(Debug)]
struct Inbox {
    heard: mpsc::UnboundedReceiver<Heard>,
    freed: mpsc::UnboundedReceiver<Name>,
    /// Names that changed together and were not returned yet.
    unread: Vec<Name>,
}

/// The fences of leases, each until its lease has ended.
#[derive(Debug, Default)]
struct Held {
    fences: HashMap<ClaimId, (Fence, Instant)>,
    /// The size at which expired entries are removed.
    sweep_at: usize,
}

impl Held {
    fn insert(&mut self, claim: &ClaimId, fence: Fence, ttl: Duration) {
        let now = Instant::now();
        if self.fences.len() >= self.sweep_at {
            self.fences.retain(|_, (_, until)| *until > now);
            self.sweep_at = 2 * self.fences.len().max(64);
        }
        self.fences.insert(claim.clone(), (fence, now + ttl));
    }
}

impl StringLocks {
    pub(crate) async fn open(settings: Settings, scripts: bool, fences: bool) -> Result<Self> {
        let prefix = settings.prefix.clone();
        let fence_memory = millis(settings.fence_memory);
        let (link, heard) = Link::open(settings, Greeting::Track).await?;
        let compare = Compare::find(&link, scripts).await;
        let (freed, own_freed) = mpsc::unbounded_channel();
        let inbox = Inbox {
            heard,
            freed: own_freed,
            unread: Vec::new(),
        };
        Ok(Self {
            link,
            prefix,
            fence_memory,
            fences,
            acquire: Script::new(include_str!("scripts/string_acquire.lua")),
            compare,
            held: Mutex::default(),
            awaited: Mutex::default(),
            freed,
            news: tokio::sync::Mutex::new(inbox),
        })
    }

    fn key(&self, name: &Name) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Takes the lock, or finds that this claim already has it.
    async fn take(&self, claim: &Claim, key: &str) -> Result<Option<Fence>> {
        let ttl = millis(claim.ttl);
        if self.fences && self.compare.is_by_watch() {
            return self.take_by_transaction(claim, key, ttl).await;
        }
        if self.fences {
            let mut cmd = self.acquire.call(2);
            cmd.arg(key).arg(fence_key(key));
            cmd.arg(claim.id.as_str()).arg(ttl);
            cmd.arg(claim.fences.max(1)).arg(self.fence_memory);
            return match self.link.call(&self.acquire, &cmd).await? {
                Value::Int(0) => Ok(None),
                Value::BulkString(fence) => read_fence(&fence).map(Some).ok_or_else(fault::garbled),
                _ => Err(fault::garbled()),
            };
        }
        let mut cmd = redis::cmd("SET");
        cmd.arg(key).arg(claim.id.as_str());
        cmd.arg("NX").arg("PX").arg(ttl);
        match self.link.send(&cmd).await? {
            Value::Okay => Ok(Some(no_fence())),
            Value::Nil => {
                let mine = self.extend(key, &claim.id, claim.ttl).await?;
                Ok(mine.then(no_fence))
            }
            _ => Err(fault::garbled()),
        }
    }

    /// Takes the lock without a script; its fence is the server's time.
    async fn take_by_transaction(
        &self,
        claim: &Claim,
        key: &str,
        ttl: u64,
    ) -> Result<Option<Fence>> {
        let mut transaction = redis::pipe();
        transaction.atomic();
        transaction.cmd("SET").arg(key).arg(claim.id.as_str());
        transaction.arg("NX").arg("PX").arg(ttl);
        transaction.cmd("TIME");
        let answers = self.link.send_all(&transaction, Duration::ZERO).await?;
        let [taken, time] = &answers[..] else {
            return Err(fault::garbled());
        };
        let taken = *taken == Value::Okay || self.extend(key, &claim.id, claim.ttl).await?;
        if !taken {
            return Ok(None);
        }
        let (seconds, micros) =
            <(u64, u64)>::from_redis_value(time.clone()).map_err(|_| fault::garbled())?;
        // This leaves room for that many local hand-overs in each microsecond.
        let fence = (seconds * 1_000_000 + micros).saturating_mul(u64::from(MOST_FENCES));
        Ok(Fence::new(fence))
    }

    /// Restarts the ttl if the claim holds the lock; returns whether it does.
    async fn extend(&self, key: &str, claim: &ClaimId, ttl: Duration) -> Result<bool> {
        let value = claim.as_str();
        self.compare.set(&self.link, key, claim, value, ttl).await
    }

    /// Asks to be told when the key changes; returns the latest time to ask again.
    async fn watch(&self, claim: &Claim, key: &str) -> Result<Duration> {
        self.start_waiting(claim);
        let is_cluster = self.link.settings().is_cluster();
        let mut look = Pipeline::new();
        if !is_cluster {
            look.cmd("CLIENT").arg("CACHING").arg("YES").ignore();
        }
        look.cmd("PTTL").arg(key);
        let answers = self.link.send_all(&look, Duration::ZERO).await?;
        let Some(Value::Int(left)) = answers.last() else {
            return Err(fault::garbled());
        };
        let left = match left {
            // The lock was freed between the two requests.
            -2 => Duration::ZERO,
            // Other libraries create locks that never expire.
            -1 => A_WHILE,
            left => Duration::from_millis(left.unsigned_abs()),
        };
        // A cluster does not report changed keys.
        Ok(if is_cluster { left.min(POLL) } else { left })
    }

    async fn renew_one(&self, renewal: &Renewal) -> Result<Renewed> {
        let key = self.key(&renewal.name);
        let (claim, ttl) = (&renewal.claim, renewal.ttl);
        let fence = self.fence_of(claim).or(renewal.fence);
        let fence = fence.unwrap_or_else(no_fence);
        let is_asked_for = renewal.fence.is_none_or(|asked| asked == fence);
        if is_asked_for && self.extend(&key, claim, ttl).await? {
            self.held.lock().insert(claim, fence, ttl);
            return Ok(Renewed::Extended { fence, valid: ttl });
        }
        Ok(Renewed::Lost(self.why_not(&key).await?))
    }

    /// Returns why a claim does not hold a lock.
    async fn why_not(&self, key: &str) -> Result<Loss> {
        let mut cmd = redis::cmd("EXISTS");
        cmd.arg(key);
        Ok(match self.link.send(&cmd).await? {
            Value::Int(0) => Loss::Gone,
            _ => Loss::TakenOver,
        })
    }

    /// Returns the fence of a lease of this client.
    fn fence_of(&self, claim: &ClaimId) -> Option<Fence> {
        let held = self.held.lock();
        held.fences.get(claim).map(|(fence, _)| *fence)
    }

    fn start_waiting(&self, claim: &Claim) {
        let mut awaited = self.awaited.lock();
        let waiters = awaited.entry(claim.name.clone()).or_default();
        waiters.insert(claim.id.clone());
    }

    fn stop_waiting(&self, claim: &Claim) {
        if let hash_map::Entry::Occupied(mut waiters) =
            self.awaited.lock().entry(claim.name.clone())
        {
            waiters.get_mut().remove(&claim.id);
            if waiters.get().is_empty() {
                waiters.remove();
            }
        }
    }

    /// Wakes this client's own waiters: the server does not tell a client about its own changes.
    fn tell_freed(&self, name: &Name) {
        if self.awaited.lock().contains_key(name) {
            // The receiver lives as long as this client.
            let _ = self.freed.send(name.clone());
        }
    }

    async fn look(&self, name: &Name) -> Result<Option<Entry>> {
        let key = self.key(name);
        let mut look = Pipeline::new();
        look.cmd("GET").arg(&key);
        look.cmd("PTTL").arg(&key);
        let answers = self.link.send_all(&look, Duration::ZERO).await?;
        let [Value::BulkString(value), Value::Int(left)] = &answers[..] else {
            return Ok(None);
        };
        let value = String::from_utf8_lossy(value);
        let (claim, depth) = match value.strip_prefix(STAYS_TAKEN) {
            Some(claim) => (claim, 0),
            None => (&*value, 1),
        };
        // Other programs may write anything.
        let claim = ClaimId::new(claim).unwrap_or_else(|_| ClaimId::unique());
        let fence = self.fence_of(&claim).unwrap_or_else(no_fence);
        let left = Duration::from_millis(u64::try_from(*left).unwrap_or(0));
        let mut holder = Holder::new(claim, fence, About::new("?", 0), left);
        holder.depth = depth;
        // The string does not record it.
        holder.life = Life::Ttl;
        let mut entry = Entry::new(name.clone());
        entry.holders.push(holder);
        Ok(Some(entry))
    }
}

#[async_trait]
impl Driver for StringLocks {
    fn kind(&self) -> &'static str {
        DRIVER
    }

    fn clock(&self) -> Clock {
        Clock::Boot
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            shared: false,
            permits: false,
            shared_owners: false,
            fairness: Fairness::Any,
            calls: false,
            sees_clients_end: false,
            timeout: Some(self.link.settings().timeout),
            most_fences: MOST_FENCES,
            ..Capabilities::all()
        }
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let key = self.key(&claim.name);
        let known = match self.fence_of(&claim.id) {
            Some(fence) if self.extend(&key, &claim.id, claim.ttl).await? => Some(fence),
            _ => self.take(claim, &key).await?,
        };
        if let Some(fence) = known {
            self.stop_waiting(claim);
            self.held.lock().insert(&claim.id, fence, claim.ttl);
            let fences = claim.fences.clamp(1, MOST_FENCES);
            let grant = Grant::new(fence, claim.ttl).with_fences(fences);
            return Ok(Answer::Granted(grant));
        }
        match claim.wait {
            Wait::No => Ok(Answer::Busy),
            Wait::InLine => {
                let ask_again = Some(self.watch(claim, &key).await?);
                Ok(Answer::Queued { ask_again })
            }
        }
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.stop_waiting(claim);
        let key = self.key(&claim.name);
        let freed = self.compare.delete(&self.link, &key, &claim.id).await?;
        self.held.lock().fences.remove(&claim.id);
        if freed {
            self.tell_freed(&claim.name);
        }
        Ok(())
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let answers = all(renewals.iter().map(|one| self.renew_one(one)).collect()).await;
        let answers = answers
            .into_iter()
            .map(|answer| (1, answer.map(|one| vec![one])));
        put_together(answers)
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        let (key, claim) = (self.key(&release.name), &release.claim);
        let stays_taken = release.stays_taken;
        let known = self.fence_of(claim);
        let is_meant = known.is_none() || release.fence.is_none() || release.fence == known;
        let freed = if !is_meant {
            false
        } else if stays_taken.is_zero() {
            self.compare.delete(&self.link, &key, claim).await?
        } else {
            let value = format!("{STAYS_TAKEN}{claim}");
            let set = self
                .compare
                .set(&self.link, &key, claim, &value, stays_taken);
            set.await?
        };
        if freed {
            self.held.lock().fences.remove(claim);
            self.tell_freed(&release.name);
            Ok(Released::Freed { left: 0 })
        } else {
            Ok(Released::NotHeld(self.why_not(&key).await?))
        }
    }

    async fn news(&self) -> News {
        let mut inbox = self.news.lock().await;
        loop {
            if let Some(name) = inbox.unread.pop() {
                return News::AskAgain(Some(name));
            }
            let Inbox { heard, freed, .. } = &mut *inbox;
            let heard = tokio::select! {
                Some(name) = freed.recv() => return News::AskAgain(Some(name)),
                heard = heard.recv() => heard,
            };
            match heard {
                Some(Heard::Again) => return News::AskAgain(None),
                Some(Heard::Changed(changed)) if changed.is_empty() => {
                    return News::AskAgain(None);
                }
                Some(Heard::Changed(changed)) => {
                    let names = changed.iter().filter_map(|key| {
                        let key = std::str::from_utf8(key).ok()?;
                        Name::new(key.strip_prefix(&self.prefix)?).ok()
                    });
                    inbox.unread.extend(names);
                }
                Some(Heard::Message(_)) => {}
                // The link's task ends only with this client.
                None => return std::future::pending().await,
            }
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        match only {
            Some(name) => Ok(self.look(name).await?.into_iter().collect()),
            None => Err(Error::InvalidOption {
                option: "list",
                reason: "layout=string cannot tell locks from other strings: name the lock".into(),
            }),
        }
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        let evicted = self.look(name).await?;
        let mut cmd = redis::cmd("DEL");
        cmd.arg(self.key(name));
        self.link.send(&cmd).await?;
        self.tell_freed(name);
        Ok(evicted.map_or_else(Vec::new, |entry| entry.holders))
    }

    /// No request runs in the background.
    async fn settled(&self) {}

    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        Some(Box::pin(async move {
            let settings = self.link.settings().clone();
            let scripts = !self.compare.is_by_watch();
            let again = Self::open(settings, scripts, self.fences).await?;
            Ok(Arc::new(again) as Arc<dyn Driver>)
        }))
    }
}

/// Returns the key of a lock's last fence, in the lock's slot of a cluster.
///
/// No name has a control character, so this is never the key of another lock.
pub(crate) fn fence_key(key: &str) -> String {
    if key.contains(['{', '}']) {
        format!("{key}\u{1}fence")
    } else {
        format!("{{{key}}}\u{1}fence")
    }
}

/// Returns the fence of every grant when fences are off: it protects nothing.
fn no_fence() -> Fence {
    Fence::new(1).unwrap_or_else(|| unreachable!("1 is not 0"))
}

/// How many fences fit into a microsecond of a server without scripts: as many as the engine reserves
/// for passing a lease on.
const MOST_FENCES: u32 = 64;

/// The prefix of the value while a lock stays taken by nobody.
const STAYS_TAKEN: &str = "!";

const A_WHILE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(250);
