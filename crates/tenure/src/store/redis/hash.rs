//! The default layout: a hash with the owner as field, changed only by scripts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, Value};
use tokio::sync::{Mutex, mpsc};

use crate::driver::{
    About, Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, Life, Mode, News, Release,
    Released, Renewal, Renewed, Reopening, Wait,
};
use crate::error::{Error, Result};
use crate::name::{Fence, Name};
use crate::random::random_u128;
use crate::store::redis::answers::{Granted, refused, released, renewed, waits};
use crate::store::redis::connect::Greeting;
use crate::store::redis::fault::{self, DRIVER};
use crate::store::redis::inbox;
use crate::store::redis::keys::Keys;
use crate::store::redis::link::{Heard, Link};
use crate::store::redis::parts::{all, put_together};
use crate::store::redis::scan;
use crate::store::redis::script::{Script, Scripts, add_keys};
use crate::store::redis::snapshot::{Snapshot, write_about, write_mode};
use crate::store::redis::url::Settings;
use crate::store::vote::{Number, Vote};

/// One client of locks in the default layout.
#[derive(Debug)]
pub(crate) struct Hash {
    pub(crate) link: Link,
    keys: Keys,
    scripts: Scripts,
    session: String,
    /// The client's parameters for ledger.lua.
    about_us: String,
    /// How most leases describe their holder: this process, without a reason.
    usual: (About, String),
    fence_memory_ms: u64,
    /// How many keys of a lock each call names: all of them in a cluster, where they may move to
    /// another node.
    keys_each: usize,
    heard: Mutex<mpsc::UnboundedReceiver<Heard>>,
}

impl Hash {
    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        // In a cluster, a node does not know the subscribers of other nodes. With replicas, a grant
        // that was handed over has to be confirmed by them first.
        let confirm = settings.is_cluster() || settings.replicas > 0;
        let confirm_ms = if confirm { CONFIRM_MS } else { 0 };
        Self::open_with(settings, confirm_ms, Scripts::new()).await
    }

    /// Opens a client; a lease that it hands over lasts `confirm_ms` unless confirmed.
    ///
    /// 0 means that no confirmation is needed.
    pub(crate) async fn open_with(
        settings: Settings,
        confirm_ms: u64,
        scripts: Scripts,
    ) -> Result<Self> {
        let client = Self::start(settings, confirm_ms, scripts, Greeting::Subscribe);
        client.link.next_try().await?;
        Ok(client)
    }

    /// Starts to open a client of one of several voting servers, and retries until it succeeds.
    pub(crate) fn start_voter(settings: Settings, scripts: Scripts) -> Self {
        Self::start(settings, CONFIRM_MS, scripts, Greeting::Join)
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.link.settings()
    }

    /// Opens the same client again, on the caller's runtime; the copy receives no news.
    pub(crate) fn again(&self) -> Self {
        let session = self.session.clone();
        let greeting = if self.link.votes() {
            Greeting::Join(format!("{}{session}-", self.keys.inboxes()))
        } else {
            Greeting::Nothing
        };
        let (link, heard) = Link::start(self.settings().clone(), greeting);
        Self {
            link,
            keys: Keys::new(&self.settings().prefix),
            scripts: Scripts::new(),
            session,
            about_us: self.about_us.clone(),
            usual: self.usual.clone(),
            heard: Mutex::new(heard),
            ..*self
        }
    }

    fn start(
        settings: Settings,
        confirm_ms: u64,
        scripts: Scripts,
        greeting: fn(String) -> Greeting,
    ) -> Self {
        let keys = Keys::new(&settings.prefix);
        let inboxes = keys.inboxes();
        let session = format!("{:016x}", random_u128() >> 64);
        let greeting = greeting(format!("{inboxes}{session}"));
        let fence_memory_ms = millis(settings.fence_memory);
        let about_us = format!("{session} {confirm_ms} {fence_memory_ms} {inboxes}");
        let usual = About::this_process(None);
        let usual = (
            usual.clone(),
            format!("{session} -- {}", write_about(&usual)),
        );
        let keys_each = if settings.is_cluster() { 5 } else { 1 };
        let (link, heard) = Link::start(settings, greeting);
        Self {
            link,
            keys,
            scripts,
            session,
            about_us,
            usual,
            fence_memory_ms,
            keys_each,
            heard: Mutex::new(heard),
        }
    }

    /// Asks one of several servers for its vote.
    pub(crate) async fn vote(&self, claim: &Claim, number: Number) -> Result<Vote> {
        let (script, mut cmd) = self.claiming(claim);
        cmd.arg(write_mode(claim.mode)).arg(match claim.wait {
            Wait::No => "0",
            Wait::InLine => "1",
        });
        match number {
            Number::AtLeast(fence) => cmd.arg(fence),
            Number::Exactly(fence) => cmd.arg(fence.get()).arg("exactly"),
        };
        let dated = self.link.request(Some(script), &cmd).await?;
        let (answer, joins, clock_us) = match dated.answer {
            Value::BulkString(text) => match Granted::read(&text) {
                Some(
                    granted @ Granted {
                        clock_us: Some(_), ..
                    },
                ) => (granted.to(claim), granted.joins, granted.clock_us),
                _ => return Err(refused(claim, &text)),
            },
            other => (waits(&other)?, false, None),
        };
        Ok(Vote {
            answer,
            joins,
            clock_us,
            started: dated.started,
            delayed: dated.delayed,
        })
    }

    /// Returns the call of a claim without its optional arguments.
    fn claiming(&self, claim: &Claim) -> (&Script, Cmd) {
        let script = match (claim.mode, &claim.owner) {
            (Mode::Exclusive, None) => &self.scripts.acquire,
            _ => &self.scripts.join,
        };
        let mut cmd = self.call(script, &claim.name);
        cmd.arg(claim.id.as_str())
            .arg(&*self.holder(claim))
            .arg(millis(claim.ttl))
            .arg(claim.fences.max(1))
            .arg(self.fence_memory_ms);
        (script, cmd)
    }

    /// Returns the start of every call: the keys of a lock, and the parameters for ledger.lua.
    fn call(&self, script: &Script, name: &Name) -> Cmd {
        let mut cmd = script.call(self.keys_each);
        add_keys(&mut cmd, &self.keys, name, self.keys_each);
        cmd.arg(&self.about_us);
        cmd
    }

    /// Returns the session of a lease as the scripts know it: this client's, or none.
    fn who(&self, life: Life) -> &str {
        match life {
            Life::Client => &self.session,
            Life::Ttl => "-",
        }
    }

    /// Returns what the lease records about its holder.
    fn holder(&self, claim: &Claim) -> Cow<'_, str> {
        let (usual, text) = &self.usual;
        let of_client = claim.life == Life::Client;
        let is_usual = of_client && !claim.tell_if_wanted && claim.owner.is_none();
        if is_usual && claim.about == *usual {
            return Cow::Borrowed(text);
        }
        let tell = if of_client && claim.tell_if_wanted {
            'w'
        } else {
            '-'
        };
        let (who, about) = (self.who(claim.life), write_about(&claim.about));
        Cow::Owned(match &claim.owner {
            Some(owner) => format!("{who} -{tell} {about}\n{owner}"),
            None => format!("{who} -{tell} {about}"),
        })
    }

    /// Waits until enough replicas have the writes of a call that got this reply.
    ///
    /// The call is repeated right before `WAIT`. `WAIT` only covers writes of its own connection to its
    /// own server, and either may have changed since. The call is idempotent: it gets the same reply
    /// unless the server has lost the lock.
    async fn confirm_by_replicas(&self, call: &Cmd, answer: &Value) -> Result<()> {
        let settings = self.link.settings();
        if settings.replicas == 0 {
            return Ok(());
        }
        let patience = settings.replicas_timeout;
        let mut wait = redis::cmd("WAIT");
        wait.arg(settings.replicas).arg(millis(patience));
        let mut pipeline = redis::Pipeline::new();
        pipeline.add_command(call.clone()).add_command(wait);
        let answers = self.link.send_all(&pipeline, patience).await;
        let confirmed = match &answers.map_err(Error::in_doubt)?[..] {
            [again, Value::Int(confirmed)] if again == answer => *confirmed,
            [_, Value::Int(_)] => return Err(fault::indeterminate("the server has lost the lock")),
            _ => return Err(fault::garbled()),
        };
        if confirmed < i64::from(settings.replicas) {
            return Err(fault::indeterminate(format!(
                "{confirmed} of {} replicas confirmed the lock in {patience:?}",
                settings.replicas
            )));
        }
        Ok(())
    }

    async fn renew_some(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let mut cmd = self.scripts.renew.call(self.keys_each * renewals.len());
        for renewal in renewals {
            add_keys(&mut cmd, &self.keys, &renewal.name, self.keys_each);
        }
        cmd.arg(&self.about_us);
        for renewal in renewals {
            cmd.arg(renewal.claim.as_str()).arg(self.who(renewal.life));
            add_fence(&mut cmd, renewal.fence);
            cmd.arg(millis(renewal.ttl));
        }
        let answer = self.link.call(&self.scripts.renew, &cmd).await?;
        self.confirm_by_replicas(&cmd, &answer).await?;
        let Value::Array(answers) = answer else {
            return Err(fault::garbled());
        };
        if answers.len() != renewals.len() {
            return Err(fault::garbled());
        }
        let answers = answers.iter().zip(renewals);
        answers
            .map(|(answer, renewal)| renewed(answer, renewal.ttl))
            .collect()
    }
}

#[async_trait]
impl Driver for Hash {
    fn kind(&self) -> &'static str {
        DRIVER
    }

    fn clock(&self) -> Clock {
        Clock::Boot
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sees_clients_end: false,
            timeout: Some(self.settings().timeout),
            ..Capabilities::all()
        }
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let (script, mut cmd) = self.claiming(claim);
        // The defaults are left out.
        if claim.mode != Mode::Exclusive || claim.wait == Wait::No {
            cmd.arg(write_mode(claim.mode));
        }
        if claim.wait == Wait::No {
            cmd.arg("0");
        }
        match self.link.call(script, &cmd).await? {
            Value::BulkString(text) => {
                let granted = Granted::read(&text).filter(|granted| granted.clock_us.is_none());
                let granted = granted.ok_or_else(|| refused(claim, &text))?;
                let answer = Value::BulkString(text);
                self.confirm_by_replicas(&cmd, &answer).await?;
                Ok(granted.to(claim))
            }
            other => waits(&other),
        }
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        let mut cmd = self.call(&self.scripts.withdraw, &claim.name);
        cmd.arg(claim.id.as_str()).arg(self.who(claim.life));
        self.link.call(&self.scripts.withdraw, &cmd).await?;
        Ok(())
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        // All keys of one call must be in one slot of a cluster.
        let batch = if self.link.settings().is_cluster() {
            1
        } else {
            BATCH
        };
        let parts = renewals.chunks(batch);
        let answers = all(parts.clone().map(|some| self.renew_some(some)).collect()).await;
        put_together(parts.map(<[_]>::len).zip(answers))
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        let mut cmd = self.call(&self.scripts.release, &release.name);
        cmd.arg(release.claim.as_str()).arg(self.who(release.life));
        add_fence(&mut cmd, release.fence);
        if !release.stays_taken.is_zero() {
            cmd.arg(millis(release.stays_taken));
        }
        released(&self.link.call(&self.scripts.release, &cmd).await?)
    }

    async fn news(&self) -> News {
        let mut heard = self.heard.lock().await;
        loop {
            match heard.recv().await {
                Some(Heard::Message(message)) => {
                    match inbox::read(&message, &self.keys) {
                        // The client that handed the lock over may not have waited for any replica.
                        Some(News::Granted { name, .. }) if self.settings().replicas > 0 => {
                            return News::AskAgain(Some(name));
                        }
                        Some(news) => return news,
                        None => tracing::debug!("a message in the inbox is not ours"),
                    }
                }
                Some(Heard::Again) => return News::AskAgain(None),
                Some(Heard::Changed(_)) => {}
                // The link's task ends only with this client.
                None => return std::future::pending().await,
            }
        }
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        let names = match only {
            Some(name) => vec![name.clone()],
            None => scan::names(&self.link, &self.keys).await?,
        };
        let mut entries = Vec::new();
        for name in names {
            let cmd = self.call(&self.scripts.look, &name);
            let answer = self.link.call(&self.scripts.look, &cmd).await?;
            let snapshot = Snapshot::read(answer).ok_or_else(fault::garbled)?;
            let entry = snapshot.entry(name);
            if !entry.is_empty() {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        let cmd = self.call(&self.scripts.evict, name);
        let answer = self.link.call(&self.scripts.evict, &cmd).await?;
        let snapshot = Snapshot::read(answer).ok_or_else(fault::garbled)?;
        Ok(snapshot.holders())
    }

    /// No request runs in the background.
    async fn settled(&self) {}

    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        Some(Box::pin(async move {
            let again = self.again();
            again.link.next_try().await?;
            Ok(Arc::new(again) as Arc<dyn Driver>)
        }))
    }
}

/// Adds a fence, or an empty argument that matches any fence.
fn add_fence(cmd: &mut Cmd, fence: Option<Fence>) {
    match fence {
        Some(fence) => cmd.arg(fence.get()),
        None => cmd.arg(""),
    };
}

/// Converts to whole milliseconds, rounded up so that no lease ends early; at most a thousand years.
pub(crate) fn millis(duration: Duration) -> u64 {
    let whole = u64::try_from(duration.as_micros().div_ceil(1000));
    whole.unwrap_or(LONGEST_MS).clamp(1, LONGEST_MS)
}

/// A limit below the largest expiry that servers accept: beyond it, the server would refuse the expiry
/// of a lease that the script has already written.
const LONGEST_MS: u64 = 1000 * 365 * 86_400_000;

/// How many leases one script renews; a script blocks the server while it runs.
const BATCH: usize = 100;

/// Long enough for a message and a reply; a dead waiter delays the others no longer than this.
const CONFIRM_MS: u64 = 5000;
