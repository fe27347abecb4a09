//! One connection for everything, maintained by one task, for any kind of deployment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::error::{Error, Result};
use crate::store::redis::connect::{self, Connection, Greeting, Times};
use crate::store::redis::fault::{self, Fault, Trouble};
use crate::store::redis::script::Script;
use crate::store::redis::sentinel::{self, Latest, Looked, Master};
use crate::store::redis::timeout::in_time;
use crate::store::redis::url::{Servers, Settings};

/// One connection to a deployment, which is replaced whenever it breaks.
///
/// Requests and the client's inbox share it, so that a client that can send can also receive.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// The current connection; `None` while there is none.
    current: watch::Sender<Option<Numbered>>,
    /// The number of the latest connection that is known to be dead.
    dead: AtomicU64,
    /// The number of the latest connection to a server that is no longer the master.
    left: AtomicU64,
    /// When the sentinels were last asked.
    looked: Arc<Looked>,
    /// Why there is no connection.
    trouble: watch::Sender<Option<Trouble>>,
    /// Notified when the current connection has to be replaced.
    broken: Notify,
    /// Notified when somebody waits for the next attempt to connect.
    hurry: Notify,
    greeting: Greeting,
}

/// A connection and its number: a late report about an old one must not close a new one.
#[derive(Debug, Clone)]
struct Numbered {
    number: u64,
    connection: Connection,
    /// The server's clocks, if the greeting asked for them.
    times: Option<Times>,
}

/// A connection to one server that is never replaced: once it is lost, every request fails.
///
/// It is not for a cluster, whose connection reconnects by itself.
#[derive(Debug)]
pub(crate) struct Pinned<'a> {
    shared: &'a Shared,
    connection: Numbered,
}

/// What the server sends without a request.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A message in the inbox.
    Message(Vec<u8>),
    /// A key that was read has changed.
    Changed(Vec<Vec<u8>>),
    /// The connection was replaced: messages in between are lost.
    Again,
}

/// The reply of a server, and what is known about its time.
#[derive(Debug)]
pub(crate) struct Dated {
    pub(crate) answer: Value,
    /// When the server started, if the greeting asked for it.
    pub(crate) started: Option<Instant>,
    /// Whether the call had to be sent again: requests that were sent after it may have been executed
    /// before it.
    pub(crate) delayed: bool,
}

impl Link {
    /// Connects, and stays connected until dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the first connection cannot be made in time.
    pub(crate) async fn open(
        settings: Settings,
        greeting: Greeting,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Heard>)> {
        let (link, heard) = Self::start(settings, greeting);
        link.next_try().await?;
        Ok((link, heard))
    }

    /// Starts to connect, and stays connected until dropped, even if the first attempt fails.
    pub(crate) fn start(
        settings: Settings,
        greeting: Greeting,
    ) -> (Self, mpsc::UnboundedReceiver<Heard>) {
        // The channel is unbounded, but an inbox gets only one message for each of its claims and
        // leases.
        let (hear, heard) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            looked: Looked::new(&settings),
            settings,
            current: watch::Sender::new(None),
            dead: AtomicU64::new(0),
            left: AtomicU64::new(0),
            trouble: watch::Sender::new(None),
            broken: Notify::new(),
            hurry: Notify::new(),
            greeting,
        });
        let task = tokio::spawn(Arc::clone(&shared).keep_up(hear));
        let task = task.abort_handle();
        (Self { shared, task }, heard)
    }

    /// Waits until there is a connection, or the next attempt has failed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the attempt failed; the link keeps trying.
    pub(crate) async fn next_try(&self) -> Result<()> {
        let mut current = self.shared.current.subscribe();
        let mut trouble = self.shared.trouble.subscribe();
        if !self.is_up() {
            self.shared.hurry.notify_one();
        }
        tokio::select! {
            biased;
            _ = current.wait_for(Option::is_some) => Ok(()),
            _ = trouble.changed() => Err(self.shared.no_connection()),
        }
    }

    /// Returns whether there is a connection at the moment.
    pub(crate) fn is_up(&self) -> bool {
        self.shared.current.borrow().is_some()
    }

    /// Returns whether this is one of several voting servers.
    pub(crate) fn votes(&self) -> bool {
        self.shared.votes()
    }

    /// Returns why there is no connection.
    pub(crate) fn no_connection(&self) -> Error {
        self.shared.no_connection()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Sends a command, and waits for its answer.
    pub(crate) async fn send(&self, cmd: &Cmd) -> Result<Value> {
        Ok(self.request(None, cmd).await?.answer)
    }

    /// Sends a pipeline, and waits for all replies.
    pub(crate) async fn send_all(
        &self,
        pipeline: &Pipeline,
        extra: Duration,
    ) -> Result<Vec<Value>> {
        self.pinned().await?.send_all(pipeline, extra).await
    }

    /// Returns the current connection, for requests that have to share one.
    pub(crate) async fn pinned(&self) -> Result<Pinned<'_>> {
        Ok(Pinned {
            shared: &self.shared,
            connection: self.shared.connection().await?,
        })
    }

    /// Calls a script by its hash, and in full if the server does not know it.
    pub(crate) async fn call(&self, script: &Script, call: &Cmd) -> Result<Value> {
        Ok(self.request(Some(script), call).await?.answer)
    }

    /// Sends a command, or calls a script if one is given; returns the reply and what is known about
    /// its time.
    pub(crate) async fn request(&self, script: Option<&Script>, cmd: &Cmd) -> Result<Dated> {
        let mut delayed = false;
        let Numbered {
            number,
            mut connection,
            times,
        } = self.shared.connection().await?;
        let patience = self.shared.settings.timeout;
        let answer = match (in_time(patience, connection.send(cmd)).await, script) {
            (Ok(Err(error)), Some(script)) if fault::is_unknown_script(&error) => {
                delayed = true;
                in_time(patience, connection.send(&script.in_full(cmd))).await
            }
            (answer, _) => answer,
        };
        Ok(Dated {
            answer: self.shared.answered(number, answer)?,
            started: times.map(|times| times.started),
            delayed,
        })
    }

    /// Returns the current time of the server, extrapolated from when the connection was made, if the
    /// greeting asked for it.
    pub(crate) fn clock_us(&self) -> Option<u64> {
        let times = self.shared.current.borrow().as_ref()?.times?;
        let since = u64::try_from(times.heard.elapsed().as_micros()).ok()?;
        times.clock_us.checked_add(since)
    }

    /// Returns a connection for commands that go to every node.
    pub(crate) async fn connection(&self) -> Result<Connection> {
        Ok(self.shared.connection().await?.connection)
    }
}

impl Pinned<'_> {
    /// Sends a pipeline, and waits for all replies.
    pub(crate) async fn send_all(
        &mut self,
        pipeline: &Pipeline,
        extra: Duration,
    ) -> Result<Vec<Value>> {
        let patience = self.shared.settings.timeout + extra;
        let sent = self.connection.connection.send_all(pipeline);
        let answer = in_time(patience, sent).await;
        self.shared.answered(self.connection.number, answer)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// Returns the current connection, or waits a little for the next one.
    ///
    /// For one of several voting servers it does not wait. So requests to that server are also
    /// executed in the order in which they were made.
    async fn connection(&self) -> Result<Numbered> {
        if !self.looked.is_recent() {
            let asked = timeout(self.settings.patience(), self.looked.until_recent()).await;
            asked.map_err(|_| self.no_connection())?;
        }
        if let Some(connection) = &*self.current.borrow() {
            return Ok(connection.clone());
        }
        if self.votes() {
            return Err(self.no_connection());
        }
        let mut current = self.current.subscribe();
        let connected = current.wait_for(Option::is_some);
        match timeout(self.settings.patience(), connected).await {
            Ok(Ok(connected)) => connected.clone().ok_or_else(|| self.no_connection()),
            _ => Err(self.no_connection()),
        }
    }

    /// Returns whether this is one of several voting servers.
    fn votes(&self) -> bool {
        matches!(self.greeting, Greeting::Join(_))
    }

    fn no_connection(&self) -> Error {
        if let Some(trouble) = &*self.trouble.borrow() {
            return trouble.error();
        }
        let (place, patience) = (self.settings.place(), self.settings.patience());
        fault::unavailable(if self.votes() {
            format!("{place} is not connected at the moment")
        } else {
            format!("no connection to {place} in {patience:?}")
        })
    }

    /// Handles the result of a request.
    fn answered<T>(
        &self,
        number: u64,
        answer: std::result::Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T> {
        match answer {
            Ok(Ok(_)) if self.has_left(number) => Err(fault::indeterminate(
                "the server that answered is no longer the master",
            )),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                let fault = Fault::of(error);
                if fault.reconnect {
                    self.replace(number);
                }
                Err(fault.error)
            }
            Err(_) => {
                // A connection may be cut without notice.
                self.replace(number);
                let timeout = self.settings.timeout;
                Err(fault::indeterminate(format!("no answer in {timeout:?}")))
            }
        }
    }

    /// Returns whether a connection leads to a server that is no longer the master.
    fn has_left(&self, number: u64) -> bool {
        number <= self.left.load(Ordering::SeqCst)
    }

    /// Drops a connection, if it is still the current one.
    fn replace(&self, number: u64) {
        self.dead.fetch_max(number, Ordering::SeqCst);
        let ended = self.current.send_if_modified(|current| {
            let own = current.as_ref().is_some_and(|own| own.number == number);
            if own {
                *current = None;
            }
            own
        });
        if ended {
            self.broken.notify_one();
        }
    }

    /// Connects, and reconnects whenever the connection breaks.
    async fn keep_up(self: Arc<Self>, hear: mpsc::UnboundedSender<Heard>) {
        let (mut number, mut latest, mut last) = (0, Latest::default(), None);
        loop {
            let mut pause = SHORTEST_PAUSE;
            number += 1;
            let master = loop {
                let error = match self.connect(number, &mut latest, &hear).await {
                    Ok(master) => break master,
                    Err(error) => error,
                };
                let (place, encrypted) = (self.settings.place(), self.settings.tls.is_some());
                let trouble = Trouble::of(&place, encrypted, &error);
                tracing::debug!("{trouble}");
                self.trouble.send_replace(Some(trouble));
                tokio::select! {
                    () = sleep(pause.mul_f64(0.5 + fastrand::f64())) => {}
                    () = self.hurry.notified() => sleep(SHORTEST_PAUSE).await,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                number += 1;
            };
            let host = master.as_ref().map(|master| master.host.clone());
            if last != host {
                self.left.store(number - 1, Ordering::SeqCst);
                last = host;
            }
            if number > 1 {
                // A closed channel means that the driver is being dropped, and this task with it.
                let _ = hear.send(Heard::Again);
            }
            tokio::select! {
                () = self.broken.notified() => {}
                later = self.moved(master) => {
                    tracing::info!(place = self.settings.place(), "another master");
                    self.left.store(number, Ordering::SeqCst);
                    // This master is not older than the previous one.
                    let _ = latest.take_in(later);
                }
            }
            self.current.send_replace(None);
        }
    }

    /// Waits until sentinels name a later master than this.
    async fn moved(&self, master: Option<Master>) -> Master {
        match master {
            Some(master) => sentinel::moved(&self.settings, &master, &self.looked).await,
            None => std::future::pending().await,
        }
    }

    /// Makes the current connection, and prepares it; returns the master that sentinels named.
    async fn connect(
        self: &Arc<Self>,
        number: u64,
        latest: &mut Latest,
        hear: &mpsc::UnboundedSender<Heard>,
    ) -> RedisResult<Option<Master>> {
        let (begun, asked) = (Instant::now(), self.looked.now());
        let connecting = async {
            let master = match self.settings.servers {
                Servers::Sentinel { .. } => {
                    Some(latest.take_in(sentinel::master(&self.settings).await?)?)
                }
                _ => None,
            };
            let listener = self.listener(number, hear);
            let connecting =
                connect::connect(&self.settings, master.as_ref(), &self.greeting, listener);
            RedisResult::Ok((connecting.await?, master))
        };
        let deadline = begun + self.settings.connect_timeout;
        let Ok(connected) = timeout_at(deadline, connecting).await else {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(late.into());
        };
        let ((connection, times), master) = connected?;
        self.looked.note_all(asked);
        self.current.send_replace(Some(Numbered {
            number,
            connection,
            times,
        }));
        self.trouble.send_replace(None);
        if self.dead.load(Ordering::SeqCst) >= number {
            // It broke before anybody used it.
            self.replace(number);
        }
        Ok(master)
    }

    /// Returns the handler for the messages of a connection.
    fn listener(
        self: &Arc<Self>,
        number: u64,
        hear: &mpsc::UnboundedSender<Heard>,
    ) -> impl Fn(PushInfo) -> std::result::Result<(), ()> + Send + Sync + 'static {
        let (hear, shared) = (hear.clone(), Arc::downgrade(self));
        move |push| {
            let Some(shared) = shared.upgrade().filter(|shared| !shared.has_left(number)) else {
                return Ok(());
            };
            let heard = match push.kind {
                PushKind::Message => match push.data.into_iter().next_back() {
                    Some(Value::BulkString(message)) => Heard::Message(message),
                    _ => return Ok(()),
                },
                PushKind::Invalidate => Heard::Changed(changed(push.data)),
                PushKind::Disconnection => {
                    if shared.settings.is_cluster() {
                        // The cluster's connection reconnects by itself, but messages may be lost.
                        Heard::Again
                    } else {
                        shared.replace(number);
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            };
            hear.send(heard).map_err(|_| ())
        }
    }
}

/// Returns the keys of an invalidation message; an empty list stands for all keys.
fn changed(data: Vec<Value>) -> Vec<Vec<u8>> {
    let keys = data.into_iter().flat_map(|value| match value {
        Value::Array(keys) => keys,
        other => vec![other],
    });
    keys.filter_map(|key| match key {
        Value::BulkString(key) => Some(key),
        _ => None,
    })
    .collect()
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::TcpListener;
    use std::pin::pin;
    use std::task::Poll;

    use tenure_testkit::RedisSentinel;

    use super::*;

    /// Returns the settings of an address where nobody listens.
    fn nowhere() -> Settings {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Settings::parse(&format!("redis://{address}")).unwrap()
    }

    /// Returns whether a request ends without waiting.
    async fn is_over_at_once(link: &Link) -> bool {
        let ping = redis::cmd("PING");
        let mut request = pin!(link.send(&ping));
        poll_fn(|context| {
            let polled = request.as_mut().poll(context);
            Poll::Ready(matches!(polled, Poll::Ready(Err(_))))
        })
        .await
    }

    #[tokio::test]
    async fn one_of_several_servers_is_not_waited_for() {
        let (voter, _heard) = Link::start(nowhere(), Greeting::Join("inbox".to_owned()));
        assert!(is_over_at_once(&voter).await);
        let refused = voter.next_try().await.unwrap_err();
        assert!(refused.nothing_changed());
        assert!(is_over_at_once(&voter).await);
        assert!(!voter.is_up());
    }

    /// A master may have been replaced while this machine was suspended.
    #[tokio::test]
    async fn after_a_pause_nothing_is_sent_before_the_sentinels_were_asked() {
        let group = RedisSentinel::start().unwrap();
        let ports = group.sentinel_ports();
        let hosts: Vec<_> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let url = format!(
            "redis+sentinel://{}/{}",
            hosts.join(","),
            RedisSentinel::MASTER
        );
        let settings = Settings::parse(&url).unwrap();
        let (link, _heard) = Link::open(settings, Greeting::Nothing).await.unwrap();
        let is_ready = async || {
            let mut connection = pin!(link.shared.connection());
            poll_fn(|context| Poll::Ready(connection.as_mut().poll(context).is_ready())).await
        };
        assert!(is_ready().await);
        link.shared.looked.sleep();
        assert!(!is_ready().await);
        link.send(&redis::cmd("PING")).await.unwrap();
        assert!(is_ready().await);
    }

    #[tokio::test]
    async fn a_server_that_is_alone_is_waited_for() {
        let (link, _heard) = Link::start(nowhere(), Greeting::Subscribe("inbox".to_owned()));
        assert!(!is_over_at_once(&link).await);
        link.next_try().await.unwrap_err();
        assert!(!is_over_at_once(&link).await);
    }
}
