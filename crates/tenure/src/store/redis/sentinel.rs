//! Finding the master through sentinels, and noticing when it changes.
//!
//! A sentinel may be cut off from the others and report a master that they have replaced. Each
//! failover has a larger *config epoch* than the one before. So all sentinels are asked, and the
//! largest epoch wins.

use std::collections::HashMap;
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::clock::{Clock, Tick};
use crate::driver;
use crate::store::redis::url::{Access, Host, Servers, Settings};

/// A master, and the epoch in which it became the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) host: Host,
    /// `None` if the sentinel does not reveal it.
    pub(crate) epoch: Option<u64>,
}

/// Asks all sentinels for the master, and returns the one with the largest epoch.
///
/// A slow sentinel may know of a later failover, so one reply is not enough. The call returns once
/// no other sentinel has replied for a second, or for a moment if a majority has replied. Sentinels
/// that cannot be reached do not count towards the majority, because nothing follows from them
/// about what the slow ones know.
pub(crate) async fn master(settings: &Settings) -> RedisResult<Master> {
    let mut asked = JoinSet::new();
    let sentinels = Sentinel::all(settings);
    let count = sentinels.len();
    for sentinel in sentinels {
        asked.spawn(async move {
            let connection = sentinel.connect(|_| Ok::<_, ()>(())).await?;
            RedisResult::Ok(Said::Hello(Box::new(sentinel), connection))
        });
    }
    let (mut newest, mut answers): (Option<Master>, usize) = (None, 0);
    let mut fault: RedisError = (ErrorKind::Io, "no sentinel answers").into();
    // The other half of the timeout is for the connection to the master.
    let end = Instant::now() + settings.connect_timeout / 2;
    let mut deadline = end;
    while let Ok(Some(said)) = timeout_at(deadline, asked.join_next()).await {
        match said {
            Ok(Ok(Said::Hello(sentinel, mut connection))) => {
                asked.spawn(async move { sentinel.ask(&mut connection).await.map(Said::Master) });
            }
            Ok(Ok(Said::Master(master))) => {
                answers += 1;
                let is_newer = |newest: &Master| newest.epoch < master.epoch;
                if newest.as_ref().is_none_or(is_newer) {
                    newest = Some(master);
                }
            }
            Ok(Err(error)) => fault = error,
            Err(_) => fault = (ErrorKind::Client, "asking a sentinel has panicked").into(),
        }
        if answers > 0 {
            let has_majority = 2 * answers > count;
            let patience = if has_majority { A_MOMENT } else { ANSWER };
            deadline = end.min(Instant::now() + patience);
        }
    }
    newest.ok_or(fault)
}

/// The reply of a sentinel to a client that looks for the master.
enum Said {
    Hello(Box<Sentinel>, MultiplexedConnection),
    Master(Master),
}

/// Refuses a server that the sentinels still report as master although it no longer is.
pub(crate) async fn expect_master(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let role: Value = redis::cmd("ROLE").query_async(connection).await?;
    match role {
        Value::Array(parts) if matches!(parts.first(), Some(Value::BulkString(role)) if role == b"master") => {
            Ok(())
        }
        _ => Err((ErrorKind::Io, "the server is not the master yet").into()),
    }
}

/// Waits until a sentinel names a later master than `current`.
pub(crate) async fn moved(settings: &Settings, current: &Master, looked: &Arc<Looked>) -> Master {
    let mut listening = JoinSet::new();
    for (index, sentinel) in Sentinel::all(settings).into_iter().enumerate() {
        let (current, looked) = (current.clone(), Arc::clone(looked));
        listening.spawn(async move { sentinel.attend(&current, || looked.note(index)).await });
    }
    loop {
        match listening.join_next().await {
            Some(Ok(later)) => return later,
            // There are no sentinels, or one of the tasks has panicked.
            Some(Err(_)) => {}
            None => return std::future::pending().await,
        }
    }
}

/// The latest master that a sentinel has reported.
#[derive(Debug, Default)]
pub(crate) struct Latest(Option<(Master, Instant)>);

impl Latest {
    /// Records the master that was reported.
    ///
    /// # Errors
    ///
    /// If a later master was reported a short while ago: the sentinels that know of it may just not
    /// reply. After that time, the epochs may have been reset by hand.
    pub(crate) fn take_in(&mut self, named: Master) -> RedisResult<Master> {
        if let Some((latest, at)) = &self.0
            && named.epoch < latest.epoch
            && at.elapsed() < REMEMBERED
        {
            let why = "the sentinels that answer do not know of the last failover";
            return Err((ErrorKind::Io, why).into());
        }
        self.0 = Some((named.clone(), Instant::now()));
        Ok(named)
    }
}

/// When each sentinel was last asked for the master, whether it replied or not.
///
/// A process or a machine that was suspended may have missed a failover. So nobody may use a
/// connection to a master before all sentinels have been asked again.
#[derive(Debug)]
pub(crate) struct Looked {
    /// This clock advances while the machine is suspended.
    clock: Clock,
    at: watch::Sender<Vec<Tick>>,
}

impl Looked {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let clock = Clock::start(driver::Clock::Boot);
        let at = vec![clock.now(); Sentinel::all(settings).len()];
        Arc::new(Self {
            clock,
            at: watch::Sender::new(at),
        })
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Records that all sentinels were asked at that time.
    pub(crate) fn note_all(&self, at: Tick) {
        self.at.send_modify(|looked| looked.fill(at));
    }

    fn note(&self, index: usize) {
        self.at
            .send_modify(|looked| looked[index] = self.clock.now());
    }

    /// Returns whether all sentinels were asked recently; always true without sentinels.
    pub(crate) fn is_recent(&self) -> bool {
        self.are_recent(&self.at.borrow())
    }

    /// Waits until all sentinels were asked recently.
    pub(crate) async fn until_recent(&self) {
        let mut at = self.at.subscribe();
        // This cannot fail, because this value owns the sender.
        let _ = at.wait_for(|at| self.are_recent(at)).await;
    }

    /// Simulates that the machine was suspended for longer than a reply is valid.
    #[cfg(test)]
    pub(crate) fn sleep(&self) {
        let slept = u64::try_from(RECENT.as_nanos()).unwrap();
        let before = self.clock.slept.load(Ordering::Relaxed);
        self.clock.slept.store(before + slept, Ordering::Relaxed);
    }

    fn are_recent(&self, looked: &[Tick]) -> bool {
        let mut looked = looked.iter();
        looked.all(|at| self.clock.now().since(*at) < RECENT)
    }
}

/// One of the sentinels that a URL names.
#[derive(Debug)]
struct Sentinel {
    settings: Settings,
    host: Host,
    access: Access,
    /// The name of the master, as the sentinels know it.
    name: String,
}

impl Sentinel {
    /// Returns all sentinels that the URL names; empty if it names none.
    fn all(settings: &Settings) -> Vec<Self> {
        let Servers::Sentinel {
            hosts,
            master,
            access,
        } = &settings.servers
        else {
            return Vec::new();
        };
        let sentinel = |host: &Host| Self {
            settings: settings.clone(),
            host: host.clone(),
            access: access.clone(),
            name: master.clone(),
        };
        hosts.iter().map(sentinel).collect()
    }

    /// Listens to this sentinel, and asks it regularly, until it reports a later master.
    ///
    /// Calls `looked` after each reply, and after each failed attempt.
    async fn attend(&self, current: &Master, looked: impl Fn()) -> Master {
        loop {
            if let Ok(later) = self.attend_once(current, &looked).await {
                return later;
            }
            looked();
            tokio::time::sleep(KEEP_ALIVE).await;
        }
    }

    /// Does the same until the sentinel stops replying.
    async fn attend_once(&self, current: &Master, looked: &impl Fn()) -> RedisResult<Master> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let patience = ANSWER.min(self.settings.connect_timeout);
        let listening = async {
            let mut connection = self.connect(move |push| tell.send(push)).await?;
            connection.subscribe("+switch-master").await?;
            RedisResult::Ok(connection)
        };
        let mut connection = timeout(patience, listening).await.map_err(silent)??;
        let mut switched = false;
        loop {
            let answer = timeout(patience, self.ask(&mut connection)).await;
            let named = answer.map_err(silent)??;
            if is_later(&named, current, switched) {
                return Ok(named);
            }
            looked();
            // It is asked again if it reports nothing, because a connection may break unnoticed.
            match timeout(KEEP_ALIVE, self.told(&mut told)).await {
                Ok(heard) => {
                    heard?;
                    switched = true;
                }
                Err(_) => switched = false,
            }
        }
    }

    /// Waits until the sentinel reports that our master was replaced.
    async fn told(&self, told: &mut mpsc::UnboundedReceiver<PushInfo>) -> RedisResult<()> {
        while let Some(push) = told.recv().await {
            match (push.kind, push.data.last()) {
                (PushKind::Message, Some(Value::BulkString(message))) => {
                    // "<name> <old address> <old port> <new address> <new port>"
                    let message = String::from_utf8_lossy(message);
                    if message.split(' ').next() == Some(&self.name) {
                        return Ok(());
                    }
                }
                (PushKind::Disconnection, _) => break,
                _ => {}
            }
        }
        Err((ErrorKind::Io, "the sentinel closed the connection").into())
    }

    async fn connect(&self, listener: impl AsyncPushSender) -> RedisResult<MultiplexedConnection> {
        let address = self.settings.address(&self.host);
        let connecting = self.settings.connect(address, &self.access, listener);
        connecting.await
    }

    /// Asks the sentinel for the master.
    async fn ask(&self, connection: &mut MultiplexedConnection) -> RedisResult<Master> {
        let name = &self.name;
        // The epoch is requested first, so that an address never gets a larger epoch than its own.
        let mut pipeline = redis::pipe();
        pipeline.cmd("SENTINEL").arg("MASTER").arg(name);
        pipeline.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME");
        pipeline.arg(name).ignore_errors();
        type Fields = HashMap<String, String>;
        let (fields, address): (RedisResult<Fields>, RedisResult<Option<(String, u16)>>) =
            pipeline.query_async(connection).await?;
        let epoch = fields.ok().and_then(|fields| {
            let epoch = fields.get("config-epoch")?;
            epoch.parse().ok()
        });
        let Some((host, port)) = address? else {
            let why = "the sentinels know no master of that name";
            let unknown = (ErrorKind::MasterNameNotFoundBySentinel, why, name.clone());
            return Err(unknown.into());
        };
        let host = Host { name: host, port };
        Ok(Master { host, epoch })
    }
}

/// Returns whether a sentinel reports a later master; `switched` if it announced a switch.
fn is_later(named: &Master, current: &Master, switched: bool) -> bool {
    let later = match (named.epoch, current.epoch) {
        (Some(named), Some(current)) => current < named,
        _ => switched,
    };
    later && named.host != current.host
}

fn silent(_: tokio::time::error::Elapsed) -> RedisError {
    (ErrorKind::Io, "the sentinel does not answer").into()
}

/// How often a sentinel that reports nothing is asked.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// How long a sentinel may take to reply, if the client is subscribed to it or another sentinel has
/// already reported a master.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a reply of all sentinels is valid: longer than it takes to ask one that does not reply.
const RECENT: Duration = Duration::from_secs(5);

/// How long a master that was replaced is not accepted: by then all sentinels have heard of the
/// failover.
const REMEMBERED: Duration = Duration::from_secs(30);

/// How long to wait for slow sentinels once a majority has replied.
const A_MOMENT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn master(port: u16, epoch: Option<u64>) -> Master {
        let name = "m".to_owned();
        Master {
            host: Host { name, port },
            epoch,
        }
    }

    #[test]
    fn a_master_of_a_larger_epoch_is_later() {
        let current = master(1, Some(5));
        for told in [false, true] {
            assert!(is_later(&master(2, Some(6)), &current, told));
            assert!(!is_later(&master(2, Some(5)), &current, told));
            assert!(!is_later(&master(2, Some(4)), &current, told));
            assert!(!is_later(&master(1, Some(6)), &current, told));
        }
    }

    #[test]
    fn where_epochs_are_hidden_a_sentinel_is_believed_what_it_tells() {
        let (current, other) = (master(1, None), master(2, None));
        assert!(is_later(&other, &current, true));
        assert!(!is_later(&other, &current, false));
        assert!(!is_later(&current, &current, true));
        assert!(is_later(&other, &master(1, Some(5)), true));
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_master_is_not_believed_for_a_while() {
        let mut latest = Latest::default();
        latest.take_in(master(1, Some(5))).unwrap();
        latest.take_in(master(1, Some(5))).unwrap();
        latest.take_in(master(2, Some(6))).unwrap();
        latest.take_in(master(1, Some(5))).unwrap_err();
        latest.take_in(master(1, None)).unwrap_err();
        tokio::time::advance(REMEMBERED).await;
        latest.take_in(master(1, Some(0))).unwrap();
    }

    #[test]
    fn after_a_pause_each_sentinel_has_to_be_asked() {
        let settings = Settings::parse("redis+sentinel://a,b/m").unwrap();
        let looked = Looked::new(&settings);
        assert!(looked.is_recent());
        looked.sleep();
        looked.note(0);
        assert!(!looked.is_recent(), "the other may know of a failover");
        looked.note(1);
        assert!(looked.is_recent());
        let elsewhere = Looked::new(&Settings::parse("redis://a").unwrap());
        elsewhere.sleep();
        assert!(elsewhere.is_recent());
    }
}
