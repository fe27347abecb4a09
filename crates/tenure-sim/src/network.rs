//! The network: messages take their time, get lost, arrive twice and in another order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::driver::{Clock, News};
use tenure::{Error, Result};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::clock::SimClock;
use crate::contract::{Reply, Request, tell_news};
use crate::plan::MessageTrouble;
use crate::world::World;

/// All messages that are on their way, in the order in which they arrive.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    flying: Mutex<Flying>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Flying {
    heap: BinaryHeap<Reverse<Packet>>,
    sent: u64,
}

#[derive(Debug)]
struct Packet {
    at: Instant,
    number: u64,
    what: Parcel,
}

/// What a message carries.
#[derive(Debug)]
enum Parcel {
    Request {
        link: Arc<Link>,
        epoch: Option<u64>,
        request: Request,
        back: Option<Back>,
    },
    Answer {
        link: Arc<Link>,
        epoch: u64,
        reply: Reply,
        to: oneshot::Sender<Reply>,
    },
    News {
        link: Arc<Link>,
        epoch: u64,
        news: News,
    },
    /// None: a moment at which everybody looks at their guards.
    Look,
}

/// Where an answer goes, and how long it takes.
#[derive(Debug)]
struct Back {
    to: oneshot::Sender<Reply>,
    takes: Duration,
}

impl Wire {
    fn send(&self, takes: Duration, what: Parcel) {
        let mut flying = self.flying();
        flying.sent += 1;
        let packet = Packet {
            at: Instant::now() + takes,
            number: flying.sent,
            what,
        };
        flying.heap.push(Reverse(packet));
        self.changed.notify_one();
    }

    /// Lets everybody look at their guards after a while.
    pub(crate) fn look_after(&self, takes: Duration) {
        self.send(takes, Parcel::Look);
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.flying().heap.is_empty()
    }

    /// Takes the next message that has arrived, or says when there will be one.
    fn next(&self) -> std::result::Result<Packet, Option<Instant>> {
        let mut flying = self.flying();
        let at = flying.heap.peek().map(|packet| packet.0.at).ok_or(None)?;
        if at > Instant::now() {
            return Err(Some(at));
        }
        flying.heap.pop().map(|packet| packet.0).ok_or(None)
    }

    pub(crate) fn close(&self) {
        let heap = std::mem::take(&mut self.flying().heap);
        drop(heap);
    }

    fn flying(&self) -> MutexGuard<'_, Flying> {
        self.flying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delivers messages for as long as the run lasts.
pub(crate) async fn deliver(world: Arc<World>) {
    loop {
        match world.wire.next() {
            Ok(packet) => arrive(&world, packet.what),
            Err(None) => world.wire.changed.notified().await,
            Err(Some(at)) => {
                tokio::select! {
                    biased;
                    () = world.wire.changed.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                }
            }
        }
    }
}

fn arrive(world: &Arc<World>, what: Parcel) {
    match what {
        Parcel::Look => world.sample(),
        Parcel::Request {
            link,
            epoch,
            request,
            back,
        } => {
            if epoch.is_some_and(|epoch| !link.is_connected(epoch)) {
                return;
            }
            let reply = world.decide(&link, request);
            world.tell_news();
            let (Some(reply), Some(back)) = (reply, back) else {
                return;
            };
            let epoch = link.state().epoch;
            let answer = Parcel::Answer {
                epoch,
                link,
                reply,
                to: back.to,
            };
            world.wire.send(back.takes, answer);
        }
        Parcel::Answer {
            link,
            epoch,
            reply,
            to,
        } => {
            if link.is_connected(epoch) {
                // Whoever timed out listens no more.
                let _ = to.send(reply);
            }
        }
        Parcel::News { link, epoch, news } => {
            if link.is_connected(epoch) {
                world.recorder.line(|| {
                    let told = tell_news(&news, |owner| world.label(owner));
                    format!("client {} hears: {told}", link.called())
                });
                let _ = link.inbox.send(news);
            }
        }
    }
}

/// The connection of one client to the store.
#[derive(Debug)]
pub(crate) struct Link {
    /// Unique in the run: a client that is restarted has another.
    pub(crate) id: usize,
    pub(crate) client: usize,
    pub(crate) process: u32,
    pub(crate) clock: Arc<SimClock>,
    world: Arc<World>,
    state: Mutex<State>,
    broken: Notify,
    inbox: mpsc::UnboundedSender<News>,
    outbox: tokio::sync::Mutex<mpsc::UnboundedReceiver<News>>,
}

#[derive(Debug)]
struct State {
    /// Counts connections: what was sent on an old one is lost.
    epoch: u64,
    cut: Option<Silence>,
    requests: u64,
    news: u64,
    random: fastrand::Rng,
}

/// How a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Both sides know.
    Known,
    /// Requests vanish.
    Unknown,
}

impl Link {
    pub(crate) fn new(
        world: &Arc<World>,
        id: usize,
        client: usize,
        process: u32,
        ppm: i64,
    ) -> Self {
        let (inbox, outbox) = mpsc::unbounded_channel();
        let seed = world.plan.seed ^ (0x9e37_79b9 * (u64::from(process) + 1));
        let state = State {
            epoch: 0,
            cut: None,
            requests: 0,
            news: 0,
            random: fastrand::Rng::with_seed(seed),
        };
        Self {
            id,
            client,
            process,
            clock: Arc::new(SimClock::new(ppm)),
            world: Arc::clone(world),
            state: Mutex::new(state),
            broken: Notify::new(),
            inbox,
            outbox: tokio::sync::Mutex::new(outbox),
        }
    }

    pub(crate) fn called(&self) -> String {
        crate::story::client(self.process)
    }

    pub(crate) fn source(&self) -> Clock {
        Clock::Source(Arc::<SimClock>::clone(&self.clock))
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn call(&self, request: Request) -> Result<Reply> {
        self.clock.running().await;
        let broken = self.broken.notified();
        tokio::pin!(broken);
        broken.as_mut().enable();
        let Some(answer) = self.send(request) else {
            return Err(self.unavailable());
        };
        let timeout = Duration::from_millis(self.world.plan.setting.timeout_ms);
        let reply = tokio::select! {
            biased;
            Ok(reply) = answer => Some(reply),
            () = broken => None,
            () = self.sleep(timeout) => None,
        };
        self.clock.running().await;
        reply.ok_or_else(|| Error::Indeterminate {
            driver: "simulated",
            source: "no answer came".into(),
        })
    }

    /// Waits for the next news.
    pub(crate) async fn news(&self) -> News {
        let news = self.outbox.lock().await.recv().await;
        self.clock.running().await;
        match news {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Tells the client something of the store, after a while.
    pub(crate) fn tell(self: &Arc<Self>, news: News) {
        let mut state = self.state();
        if state.cut.is_some() {
            return;
        }
        let nth = state.news;
        state.news += 1;
        let mut takes = self.way(&mut state);
        let epoch = state.epoch;
        drop(state);
        if let Some(MessageTrouble::SlowNews(ms)) = self.world.trouble(self, nth, true) {
            takes += Duration::from_millis(ms);
        }
        let link = Arc::clone(self);
        self.world
            .wire
            .send(takes, Parcel::News { link, epoch, news });
    }

    /// Breaks the connection: what is on its way is lost.
    pub(crate) fn cut(&self, how: Silence) {
        let mut state = self.state();
        state.epoch += 1;
        state.cut = Some(how);
        drop(state);
        if how == Silence::Known {
            self.broken.notify_waiters();
        }
    }

    /// Connects again; the client is told that it may have missed news.
    pub(crate) fn connect(self: &Arc<Self>) {
        let mut state = self.state();
        state.epoch += 1;
        state.cut = None;
        drop(state);
        self.broken.notify_waiters();
        self.tell(News::AskAgain(None));
    }

    fn is_connected(&self, epoch: u64) -> bool {
        let state = self.state();
        state.cut.is_none() && state.epoch == epoch
    }

    /// Puts a request on the wire; `None` if the client knows that it cannot.
    fn send(&self, request: Request) -> Option<oneshot::Receiver<Reply>> {
        let (to, answer) = oneshot::channel();
        let mut state = self.state();
        match state.cut {
            Some(Silence::Known) => return None,
            // Nobody will answer, and the client does not learn of that.
            Some(Silence::Unknown) => return Some(answer),
            None => {}
        }
        let nth = state.requests;
        state.requests += 1;
        let (mut there, mut takes) = (self.way(&mut state), self.way(&mut state));
        let epoch = Some(state.epoch);
        drop(state);
        let link = self.world.link(self.id)?;
        let mut back = true;
        match self.world.trouble(self, nth, false) {
            Some(MessageTrouble::LoseRequest) => return Some(answer),
            Some(MessageTrouble::LoseAnswer) => back = false,
            Some(MessageTrouble::SlowRequest(ms)) => there += Duration::from_millis(ms),
            Some(MessageTrouble::SlowAnswer(ms)) => takes += Duration::from_millis(ms),
            Some(MessageTrouble::Duplicate(ms)) => {
                let copy = Parcel::Request {
                    link: Arc::clone(&link),
                    epoch: None,
                    request: request.clone(),
                    back: None,
                };
                self.world
                    .wire
                    .send(there + Duration::from_millis(ms), copy);
            }
            Some(MessageTrouble::SlowNews(_)) | None => {}
        }
        let back = back.then_some(Back { to, takes });
        let request = Parcel::Request {
            link,
            epoch,
            request,
            back,
        };
        self.world.wire.send(there, request);
        Some(answer)
    }

    /// How long a message takes.
    fn way(&self, state: &mut State) -> Duration {
        let setting = &self.world.plan.setting;
        let ms = state.random.u64(setting.fastest_ms..=setting.slowest_ms);
        Duration::from_millis(ms)
    }

    async fn sleep(&self, duration: Duration) {
        tenure::driver::TimeSource::sleep(&*self.clock, duration).await;
    }

    fn unavailable(&self) -> Error {
        Error::Unavailable {
            driver: "simulated",
            source: "the connection is broken".into(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Packet {}

impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Packet {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
