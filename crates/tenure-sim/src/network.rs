//! The network: messages take time, get lost, arrive twice and out of order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::driver::{Clock, News};
use tenure::store::sql::simulation::LinkFault;
use tenure::{Error, Result};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::clock::SimClock;
use crate::contract::{Ask, Reply, Request, Told, tell_news};
use crate::plan::{MessageTrouble, StorePlan};
use crate::world::World;

/// A request that has arrived at a server.
#[derive(Debug)]
pub(crate) struct Arrived {
    link: Arc<Link>,
    /// The connection that it came on.
    epoch: u64,
    request: Request,
    back: Option<Back>,
}

/// All messages in flight, in the order in which they arrive.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    flying: Mutex<Flying>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Flying {
    heap: BinaryHeap<Reverse<Packet>>,
    sent: u64,
    /// Whether the run is over.
    is_closed: bool,
}

#[derive(Debug)]
struct Packet {
    at: Instant,
    number: u64,
    what: Parcel,
}

/// The content of a message.
#[derive(Debug)]
enum Parcel {
    Request {
        link: Arc<Link>,
        epoch: Option<u64>,
        request: Request,
        back: Option<Back>,
        /// Whether it arrives even if its connection breaks while it is in flight.
        arrives: bool,
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
    /// A notification of a database.
    Letter {
        link: Arc<Link>,
        epoch: u64,
        bell: u64,
        text: String,
    },
    /// No content: a moment at which everybody checks their guards.
    Look,
}

/// Where a reply goes, and how long it takes.
#[derive(Debug)]
struct Back {
    to: oneshot::Sender<Reply>,
    takes: Duration,
}

impl Wire {
    fn send(&self, takes: Duration, what: Parcel) {
        let mut flying = self.flying();
        if flying.is_closed {
            return;
        }
        flying.sent += 1;
        let packet = Packet {
            at: Instant::now() + takes,
            number: flying.sent,
            what,
        };
        flying.heap.push(Reverse(packet));
        self.changed.notify_one();
    }

    /// Makes everybody check their guards after a while.
    pub(crate) fn look_after(&self, takes: Duration) {
        self.send(takes, Parcel::Look);
    }

    /// Returns whether no message is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.flying().heap.is_empty()
    }

    /// Takes the next message that has arrived, or returns when there will be one.
    fn next(&self) -> std::result::Result<Packet, Option<Instant>> {
        let mut flying = self.flying();
        let at = flying.heap.peek().map(|packet| packet.0.at).ok_or(None)?;
        if at > Instant::now() {
            return Err(Some(at));
        }
        flying.heap.pop().map(|packet| packet.0).ok_or(None)
    }

    pub(crate) fn close(&self) {
        let mut flying = self.flying();
        flying.is_closed = true;
        let heap = std::mem::take(&mut flying.heap);
        drop(flying);
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
            arrives,
        } => {
            if !arrives && epoch.is_some_and(|epoch| !link.is_connected(epoch)) {
                return;
            }
            let epoch = epoch.unwrap_or_else(|| link.state().epoch);
            let store = link.store;
            let arrived = world.stores[store].hold_up(Arrived {
                link,
                epoch,
                request,
                back,
            });
            if let Some(arrived) = arrived {
                serve(world, arrived);
            }
        }
        Parcel::Answer {
            link,
            epoch,
            reply,
            to,
        } => {
            if link.is_connected(epoch) {
                // A caller that timed out no longer listens.
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
        Parcel::Letter {
            link,
            epoch,
            bell,
            text,
        } => {
            if link.is_connected(epoch) {
                let who = link.called();
                world
                    .recorder
                    .line(|| format!("client {who} hears on bell {bell}: {text}"));
                link.deliver(bell, text);
            }
        }
    }
}

/// Has a server decide a request, and sends the reply.
pub(crate) fn serve(world: &Arc<World>, arrived: Arrived) {
    let Arrived {
        link,
        epoch,
        request,
        back,
    } = arrived;
    let reply = world.decide(&link, request);
    world.tell_news();
    let (Some(reply), Some(back)) = (reply, back) else {
        return;
    };
    let takes = link.in_order(&mut link.state().answered, back.takes);
    let answer = Parcel::Answer {
        epoch,
        link,
        reply,
        to: back.to,
    };
    world.wire.send(takes, answer);
}

/// The connection of one client to one server.
#[derive(Debug)]
pub(crate) struct Link {
    /// Unique in the run: a restarted client has a new one.
    pub(crate) id: usize,
    pub(crate) client: usize,
    pub(crate) process: u32,
    /// The index of the server.
    pub(crate) store: usize,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) world: Arc<World>,
    /// The shortest and the longest latency of its messages, in milliseconds.
    way_ms: (u64, u64),
    state: Mutex<State>,
    broken: Notify,
    /// Fires when an attempt to connect has ended.
    tried: Notify,
    /// Fires when somebody waits for the next attempt.
    hurry: Notify,
    /// Where notifications of a database go, by connection.
    bells: Mutex<BTreeMap<u64, mpsc::UnboundedSender<String>>>,
    inbox: mpsc::UnboundedSender<News>,
    outbox: tokio::sync::Mutex<mpsc::UnboundedReceiver<News>>,
}

#[derive(Debug)]
struct State {
    /// Counts connections: messages on an old connection are lost.
    epoch: u64,
    cut: Option<Silence>,
    /// What the server replied on connect, if the client itself connects.
    greeting: Option<Greeting>,
    /// When the last request and the last reply arrive. If a connection keeps the order, later ones
    /// do not arrive earlier.
    asked: Instant,
    answered: Instant,
    requests: u64,
    news: u64,
    bells: u64,
    random: fastrand::Rng,
}

/// The reply of one of several servers on connect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Greeting {
    pub(crate) started: Instant,
    clock_us: u64,
    heard: Instant,
}

/// How a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Both sides know it.
    Known,
    /// Requests disappear.
    Unknown,
}

impl Link {
    pub(crate) fn new(
        world: &Arc<World>,
        id: usize,
        (client, process): (usize, u32),
        clock: &Arc<SimClock>,
        store: usize,
    ) -> Self {
        let (inbox, outbox) = mpsc::unbounded_channel();
        let place = u64::try_from(store).unwrap_or(0);
        let seed = world.plan.seed ^ (0x9e37_79b9 * (u64::from(process) + 1)) ^ (place << 40);
        let mut random = fastrand::Rng::with_seed(seed);
        let setting = &world.plan.setting;
        let mut way_ms = (setting.fastest_ms, setting.slowest_ms);
        let mut cut = None;
        if world.plan.is_redlock() {
            // Each client is near to some servers and far from others.
            way_ms.1 = random.u64(setting.fastest_ms..=setting.slowest_ms);
            way_ms.0 = random.u64(setting.fastest_ms..=way_ms.1);
            let unreachable = &world.plan.clients[client].unreachable;
            cut = unreachable.contains(&store).then_some(Silence::Known);
        }
        let state = State {
            epoch: 0,
            cut,
            greeting: None,
            asked: Instant::now(),
            answered: Instant::now(),
            requests: 0,
            news: 0,
            bells: 0,
            random,
        };
        Self {
            id,
            client,
            process,
            store,
            clock: Arc::clone(clock),
            world: Arc::clone(world),
            way_ms,
            state: Mutex::new(state),
            broken: Notify::new(),
            tried: Notify::new(),
            hurry: Notify::new(),
            bells: Mutex::default(),
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

    /// Sends a request and waits for its reply.
    pub(crate) async fn call(&self, request: Request) -> Result<Reply> {
        self.clock.running().await;
        let broken = self.broken.notified();
        tokio::pin!(broken);
        broken.as_mut().enable();
        let epoch = self.state().epoch;
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
        if reply.is_none() {
            self.hang_up(epoch);
        }
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

    /// Sends news of the store to the client, after a while.
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
        let takes = self.in_order(&mut self.state().answered, takes);
        let link = Arc::clone(self);
        self.world
            .wire
            .send(takes, Parcel::News { link, epoch, news });
    }

    /// Sends a request on a connection to a database, and waits for its reply until the connection
    /// breaks.
    pub(crate) async fn ask(&self, epoch: u64, ask: Ask) -> std::result::Result<Told, LinkFault> {
        self.clock.running().await;
        let broken = self.broken.notified();
        tokio::pin!(broken);
        broken.as_mut().enable();
        if self.is_broken(epoch) {
            return Err(LinkFault::Unknown);
        }
        let Some(answer) = self.send(Request::Sql(ask)) else {
            return Err(LinkFault::Unsent);
        };
        let reply = tokio::select! {
            biased;
            Ok(reply) = answer => Some(reply),
            () = broken => None,
        };
        self.clock.running().await;
        match reply {
            Some(Reply::Sql(Told::Undone)) => Err(LinkFault::Undone),
            Some(Reply::Sql(told)) => Ok(told),
            _ => Err(LinkFault::Unknown),
        }
    }

    /// Sends a message without a reply to a database.
    pub(crate) fn post(&self, epoch: u64, ask: Ask) {
        if self.is_connected(epoch) {
            drop(self.send(Request::Sql(ask)));
        }
    }

    /// Sends a notification of a database to the client, after a while.
    pub(crate) fn send_letter(self: &Arc<Self>, bell: u64, text: &str) {
        let mut state = self.state();
        if state.cut.is_some() {
            return;
        }
        let nth = state.news;
        state.news += 1;
        let mut takes = self.way(&mut state);
        let epoch = state.epoch;
        drop(state);
        let mut again = None;
        match self.world.trouble(self, nth, true) {
            Some(MessageTrouble::SlowNews(ms)) => takes += Duration::from_millis(ms),
            Some(MessageTrouble::DuplicateNews(ms)) => {
                again = Some(takes + Duration::from_millis(ms));
            }
            Some(MessageTrouble::LoseNews) => return,
            _ => {}
        }
        // A connection keeps the order of notifications; a duplicate is a second notification.
        let now = Instant::now();
        let mut state = self.state();
        state.answered = state.answered.max(now + takes);
        takes = state.answered.saturating_duration_since(now);
        drop(state);
        for takes in [Some(takes), again].into_iter().flatten() {
            let (link, text) = (Arc::clone(self), text.to_owned());
            let letter = Parcel::Letter {
                link,
                epoch,
                bell,
                text,
            };
            self.world.wire.send(takes, letter);
        }
    }

    /// Opens a connection for notifications of a database; returns its number as well.
    pub(crate) fn open_bell(&self) -> (u64, mpsc::UnboundedReceiver<String>) {
        let mut state = self.state();
        state.bells += 1;
        let bell = 1000 * (u64::try_from(self.id).unwrap_or(0) + 1) + state.bells;
        drop(state);
        let (to, letters) = mpsc::unbounded_channel();
        self.bells().insert(bell, to);
        (bell, letters)
    }

    /// Closes such a connection.
    pub(crate) fn close_bell(&self, bell: u64) {
        self.bells().remove(&bell);
    }

    fn deliver(&self, bell: u64, text: String) {
        if let Some(to) = self.bells().get(&bell) {
            // A receiver that is gone is about to close it.
            let _ = to.send(text);
        }
    }

    fn bells(&self) -> MutexGuard<'_, BTreeMap<u64, mpsc::UnboundedSender<String>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the current connection.
    pub(crate) fn epoch(&self) -> u64 {
        self.state().epoch
    }

    /// Returns whether the client knows that a connection is broken.
    pub(crate) fn is_broken(&self, epoch: u64) -> bool {
        let state = self.state();
        match state.cut {
            Some(Silence::Known) => true,
            Some(Silence::Unknown) => false,
            None => state.epoch != epoch,
        }
    }

    /// Waits until a connection is known to be broken.
    pub(crate) async fn broken(&self, epoch: u64) {
        loop {
            let broken = self.broken.notified();
            tokio::pin!(broken);
            broken.as_mut().enable();
            if self.is_broken(epoch) {
                return;
            }
            broken.await;
        }
    }

    /// Breaks the connection: messages in flight are lost.
    pub(crate) fn cut(&self, how: Silence) {
        let mut state = self.state();
        if how == Silence::Known {
            state.greeting = None;
        }
        state.epoch += 1;
        state.cut = Some(how);
        drop(state);
        if how == Silence::Known {
            self.world.stores[self.store].lose_bells(self.id);
            self.broken.notify_waiters();
        }
    }

    /// Connects again; notifies the client that it may have missed news. A client of servers that
    /// vote notices this itself.
    pub(crate) fn connect(self: &Arc<Self>) {
        let plan = &self.world.plan;
        if plan.clients[self.client].unreachable.contains(&self.store) {
            return;
        }
        let mut state = self.state();
        state.epoch += 1;
        state.cut = None;
        state.greeting = None;
        drop(state);
        self.world.stores[self.store].lose_bells(self.id);
        self.broken.notify_waiters();
        if plan.store == StorePlan::Single {
            self.tell(News::AskAgain(None));
        }
    }

    /// Returns what the server replied on connect; `None` while it is not connected.
    pub(crate) fn greeting(&self) -> Option<Greeting> {
        self.state().greeting
    }

    /// Waits until the server is connected, or the next attempt has failed.
    pub(crate) async fn connected(&self) -> Result<()> {
        let tried = self.tried.notified();
        tokio::pin!(tried);
        tried.as_mut().enable();
        if self.greeting().is_none() {
            self.hurry.notify_one();
            tried.await;
        }
        self.clock.running().await;
        match self.greeting() {
            Some(_) => Ok(()),
            None => Err(self.unavailable()),
        }
    }

    /// Closes a connection without replies, as clients of servers that vote do.
    fn hang_up(&self, epoch: u64) {
        let mut state = self.state();
        if !self.world.plan.is_redlock() || state.epoch != epoch {
            return;
        }
        state.epoch += 1;
        state.greeting = None;
        drop(state);
        self.broken.notify_waiters();
    }

    /// Greets the server; returns whether it replied.
    async fn greet(&self) -> bool {
        let epoch = self.state().epoch;
        let Ok(Reply::Hello { started, clock_us }) = self.call(Request::Hello).await else {
            return false;
        };
        let mut state = self.state();
        if state.epoch != epoch || state.cut.is_some() {
            return false;
        }
        state.greeting = Some(Greeting {
            started,
            clock_us,
            heard: Instant::now(),
        });
        true
    }

    fn is_connected(&self, epoch: u64) -> bool {
        let state = self.state();
        state.cut.is_none() && state.epoch == epoch
    }

    /// Sends a request; returns `None` if the client knows that it cannot.
    fn send(&self, mut request: Request) -> Option<oneshot::Receiver<Reply>> {
        let (to, answer) = oneshot::channel();
        let mut state = self.state();
        match state.cut {
            Some(Silence::Known) => return None,
            // Nobody will reply, and the client does not learn of it.
            Some(Silence::Unknown) => return Some(answer),
            None => {}
        }
        let is_hello = matches!(request, Request::Hello);
        if self.world.plan.is_redlock() && state.greeting.is_none() && !is_hello {
            return None;
        }
        let nth = state.requests;
        state.requests += 1;
        let (mut there, mut takes) = (self.way(&mut state), self.way(&mut state));
        let epoch = Some(state.epoch);
        let arrives = self.world.plan.is_sql() && state.random.bool();
        drop(state);
        let link = self.world.link(self.id)?;
        let can_fail = match &request {
            Request::Sql(ask) => ask.may_be_lost(),
            _ => true,
        };
        let mut back = true;
        let mut overtaken = false;
        let trouble = self.world.trouble(self, nth, false);
        match trouble.filter(|_| can_fail) {
            Some(MessageTrouble::Undo) => request = Request::Sql(Ask::Undo),
            Some(MessageTrouble::LoseRequest) => return Some(answer),
            Some(MessageTrouble::LoseAnswer) => back = false,
            Some(MessageTrouble::SlowRequest(ms)) => {
                there += Duration::from_millis(ms);
                if let Request::Vote { delayed, .. } = &mut request {
                    (*delayed, overtaken) = (true, true);
                }
            }
            Some(MessageTrouble::SlowAnswer(ms)) => takes += Duration::from_millis(ms),
            // A claim may be asked for again after it was withdrawn. A withdrawal must therefore
            // not be repeated much later, and no connection does that.
            Some(MessageTrouble::Duplicate(_))
                if self.world.plan.is_redlock() && matches!(request, Request::Withdraw(_)) => {}
            Some(MessageTrouble::Duplicate(ms)) => {
                let copy = Parcel::Request {
                    link: Arc::clone(&link),
                    epoch: None,
                    request: request.clone(),
                    back: None,
                    arrives: false,
                };
                self.world
                    .wire
                    .send(there + Duration::from_millis(ms), copy);
            }
            Some(
                MessageTrouble::SlowNews(_)
                | MessageTrouble::LoseNews
                | MessageTrouble::DuplicateNews(_),
            )
            | None => {}
        }
        let back = back.then_some(Back { to, takes });
        if !overtaken {
            there = self.in_order(&mut self.state().asked, there);
        }
        let request = Parcel::Request {
            link,
            epoch,
            request,
            back,
            arrives,
        };
        self.world.wire.send(there, request);
        Some(answer)
    }

    /// Returns how long a message takes.
    fn way(&self, state: &mut State) -> Duration {
        let ms = state.random.u64(self.way_ms.0..=self.way_ms.1);
        Duration::from_millis(ms)
    }

    /// Returns how long a message takes; where connections keep the order, it arrives after the
    /// last one.
    fn in_order(&self, last: &mut Instant, takes: Duration) -> Duration {
        if !self.world.plan.is_redlock() {
            return takes;
        }
        let now = Instant::now();
        *last = (*last).max(now + takes);
        last.saturating_duration_since(now)
    }

    async fn sleep(&self, duration: Duration) {
        tenure::driver::TimeSource::sleep(&*self.clock, duration).await;
    }

    pub(crate) fn unavailable(&self) -> Error {
        Error::Unavailable {
            driver: "simulated",
            source: "the connection is broken".into(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Greeting {
    /// Returns what the server's clock shows now, based on what it showed in the greeting.
    pub(crate) fn clock_us(&self) -> u64 {
        let since = u64::try_from(self.heard.elapsed().as_micros()).unwrap_or(0);
        self.clock_us + since
    }
}

/// Keeps a client connected to one of several servers, for as long as the run lasts.
pub(crate) async fn keep_connected(link: Arc<Link>) {
    let mut pause = SHORTEST_PAUSE;
    let mut is_first = true;
    loop {
        link.clock.running().await;
        let broken = link.broken.notified();
        tokio::pin!(broken);
        broken.as_mut().enable();
        if link.greeting().is_some() {
            broken.await;
            pause = SHORTEST_PAUSE;
            continue;
        }
        if link.greet().await {
            if !is_first {
                // News that was sent meanwhile is lost.
                let _ = link.inbox.send(News::AskAgain(None));
            }
            is_first = false;
            link.tried.notify_waiters();
            continue;
        }
        link.tried.notify_waiters();
        tokio::select! {
            biased;
            () = link.hurry.notified() => link.sleep(SHORTEST_PAUSE).await,
            () = broken => {}
            () = link.sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// How long to wait after a failed attempt to connect; the pause doubles each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

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
