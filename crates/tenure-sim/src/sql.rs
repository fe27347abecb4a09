//! A simulated database: the server with its table, and the link over which a client sends its
//! statements.
//!
//! A statement goes over the network once. If its connection was given up, it may still be
//! executed, long after statements that were sent later on other connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::driver::{
    Answer, Capabilities, Claim, Clock, Driver, Entry, Holder, News, Release, Released, Renewal,
    Renewed,
};
use tenure::store::sql::simulation::{
    self, Asks, Hears, LinkFault, Post, Reply, Statement, Table, Whereabouts,
};
use tenure::{Name, Result};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::contract::{Ask, Told};
use crate::network::Link;
use crate::plan::{BellKind, StorePlan};
use crate::world::World;

/// A database server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) table: Table,
    /// The table as it survives a crash: without the latest releases.
    durable: Table,
    /// The table of a replica that lags behind, and since when by the server's clock.
    replica: (i64, Table),
    /// The connections for notifications to clients, by number.
    bells: BTreeMap<u64, BellConnection>,
    pub(crate) up_since_us: i64,
    pub(crate) letters: Vec<(usize, u64, String)>,
    pub(crate) changes: Vec<Change>,
}

/// A connection for notifications to a client.
#[derive(Debug, Clone, Copy)]
struct BellConnection {
    link: usize,
    session: u128,
    kind: BellKind,
    /// Whether an interruptible query sleeps on it.
    is_asleep: bool,
}

/// What a statement has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// An operator evicted the holders with smaller fences.
    Evicted { name: Name, below: u64 },
    /// A claim got a place in line.
    Queued { name: Name },
}

impl Server {
    pub(crate) fn new(up_since_us: i64) -> Self {
        Self {
            table: Table::default(),
            durable: Table::default(),
            replica: (up_since_us, Table::default()),
            bells: BTreeMap::new(),
            up_since_us,
            letters: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Answers a client; returns `None` if there is nothing to answer.
    pub(crate) fn answer(&mut self, link: usize, ask: &Ask, now_us: i64) -> Option<Told> {
        match ask {
            Ask::Connect => Some(Told::Done),
            Ask::Undo => Some(Told::Undone),
            Ask::Listen {
                session,
                bell,
                kind,
            } => {
                let connection = BellConnection {
                    link,
                    session: *session,
                    kind: *kind,
                    is_asleep: false,
                };
                self.bells.insert(*bell, connection);
                Some(Told::Done)
            }
            Ask::Sleep { bell, watched } => {
                let connection = self.bells.get_mut(bell)?;
                let turned = watched.iter().any(|(name, turn)| {
                    let row = self.table.rows.get(name.as_str());
                    row.is_some_and(|row| row.turn != *turn)
                });
                connection.is_asleep = !turned;
                Some(Told::Turned(turned))
            }
            Ask::HangUp { bell } => {
                self.bells.remove(bell);
                None
            }
            Ask::Execute(statement) => {
                let reply = self.execute(statement, now_us);
                Some(Told::Executed(Box::new(reply)))
            }
        }
    }

    /// Executes a statement.
    pub(crate) fn execute(&mut self, statement: &Statement, now_us: i64) -> Reply {
        if now_us - self.replica.0 > REPLICA_LAG_US {
            self.replica = (now_us, self.table.clone());
        }
        let name = Name::new(statement.name()).ok();
        let is_write = matches!(statement, Statement::Write { .. });
        let watched = name.filter(|_| is_write);
        let before = watched.as_ref().map(|name| self.standing(name, now_us));
        let (bells, up_since_us) = (&self.bells, self.up_since_us);
        let directory = |client: u128| whereabouts(bells, client, now_us, up_since_us);
        let (reply, letters) = self.table.decide(statement, now_us, &directory);
        if !matches!(statement, Statement::Give(_)) {
            // A commit that waits for the disk also makes the earlier ones durable.
            self.durable = self.table.clone();
        }
        self.post(&letters);
        if let (Some(name), Some(before)) = (watched, before) {
            let after = self.standing(&name, now_us);
            if after.evicted > before.evicted {
                // Includes the fences that were reserved.
                self.changes.push(Change::Evicted {
                    name: name.clone(),
                    below: before.top + 1,
                });
            }
            let new = after.waiting.difference(&before.waiting);
            let queued = new.map(|_| Change::Queued { name: name.clone() });
            self.changes.extend(queued);
        }
        reply
    }

    /// Sends notifications to the connections that they reach.
    pub(crate) fn post(&mut self, letters: &[Post]) {
        for letter in letters {
            let reached = self.bells.iter_mut().filter(|(number, bell)| {
                let is_meant = match bell.kind {
                    // A writer that does not know the connection looks it up.
                    BellKind::Doorbell => {
                        letter.at.is_none_or(|at| at == **number) && bell.is_asleep
                    }
                    BellKind::Letters | BellKind::None => true,
                };
                bell.session == letter.to && is_meant
            });
            for (number, bell) in reached {
                bell.is_asleep = false;
                let text = letter.text.clone();
                self.letters.push((bell.link, *number, text));
            }
        }
    }

    /// Loses the connections for notifications to a client.
    pub(crate) fn lose_bells(&mut self, link: usize) {
        self.bells.retain(|_, bell| bell.link != link);
    }

    /// Crashes: the latest releases are undone, because their commits do not wait for the disk.
    pub(crate) fn crash(&mut self, _now_us: i64) {
        self.bells.clear();
        self.letters.clear();
        self.table = self.durable.clone();
    }

    /// Fails over to another server that lags behind.
    pub(crate) fn fail_over(&mut self) {
        self.table = self.replica.1.clone();
        self.durable = self.table.clone();
    }

    /// Checks whether a name is available; if not, returns when to check again.
    pub(crate) fn probe(&mut self, name: &Name, now_us: i64) -> Option<Duration> {
        let (bells, up_since_us) = (&self.bells, self.up_since_us);
        let directory = |client: u128| whereabouts(bells, client, now_us, up_since_us);
        self.table.probe(name, now_us, &directory)
    }

    fn standing(&self, name: &Name, now_us: i64) -> Standing {
        let row = self.table.rows.get(name.as_str());
        let entries = self.table.entries(now_us, Some(name));
        let waiters = entries.iter().flat_map(|entry| &entry.waiters);
        let waiting = waiters.map(|waiter| waiter.claim.as_str().to_owned());
        Standing {
            evicted: row.map_or(0, |row| row.evicted),
            top: row.map_or(0, |row| row.top.unsigned_abs()),
            waiting: waiting.collect(),
        }
    }
}

/// The state of a name: its largest evicted fence, its largest fence, and the claims in its line.
#[derive(Debug)]
struct Standing {
    evicted: i64,
    top: u64,
    waiting: BTreeSet<String>,
}

/// Returns where a client is. No client counts as gone before it had time to reconnect after the
/// server started.
fn whereabouts(
    bells: &BTreeMap<u64, BellConnection>,
    client: u128,
    now_us: i64,
    up_since_us: i64,
) -> Whereabouts {
    let mut own = bells.iter().filter(|(_, bell)| bell.session == client);
    match own.next_back() {
        Some((number, bell)) if bell.kind == BellKind::Doorbell => Whereabouts::Here(*number),
        Some(_) => Whereabouts::Here(0),
        None if up_since_us > now_us - TIME_TO_COME_BACK_US => Whereabouts::Here(0),
        None => Whereabouts::Gone,
    }
}

/// Returns the driver of a client of a database.
pub(crate) fn driver(link: &Arc<Link>, connections: u32) -> Arc<dyn Driver> {
    let timeout = Duration::from_millis(link.world.plan.setting.timeout_ms);
    let way = Arc::new(SqlLink(Arc::clone(link)));
    let client = simulation::client(way, connections, timeout, 2 * timeout);
    let link = Arc::clone(link);
    Arc::new(SqlDriver { client, link })
}

/// Sweeps the table repeatedly, as another client would.
pub(crate) async fn sweep(world: Arc<World>) {
    let longest = world.plan.longest_ttl() + Duration::from_millis(world.plan.jumps_back_ms());
    let sweep = Statement::Sweep {
        after: None,
        limit: 1000,
        idle_us: i64::try_from(2 * longest.as_micros()).unwrap_or(i64::MAX),
    };
    loop {
        sleep(SWEEP_EVERY).await;
        let store = &world.stores[0];
        if !store.is_down() {
            world.planted.sweep(store, &sweep);
        }
    }
}

/// A client on the clock of its process, which does nothing while that is stopped.
#[derive(Debug)]
struct SqlDriver {
    client: Arc<dyn Driver>,
    link: Arc<Link>,
}

impl SqlDriver {
    async fn once_running<T>(&self, output: T) -> T {
        self.link.clock.running().await;
        output
    }
}

#[async_trait]
impl Driver for SqlDriver {
    fn kind(&self) -> &'static str {
        self.client.kind()
    }

    fn clock(&self) -> Clock {
        self.link.source()
    }

    fn capabilities(&self) -> Capabilities {
        self.client.capabilities()
    }

    async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        self.once_running(self.client.acquire(claim).await).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<()> {
        self.once_running(self.client.withdraw(claim).await).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        self.once_running(self.client.renew(renewals).await).await
    }

    async fn release(&self, release: &Release) -> Result<Released> {
        self.once_running(self.client.release(release).await).await
    }

    async fn news(&self) -> News {
        self.once_running(self.client.news().await).await
    }

    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        self.once_running(self.client.list(only).await).await
    }

    async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        self.once_running(self.client.evict(name).await).await
    }

    async fn settled(&self) {
        self.client.settled().await;
    }
}

/// The link of one client to the database.
#[derive(Debug)]
struct SqlLink(Arc<Link>);

#[async_trait]
impl simulation::Link for SqlLink {
    async fn connect(&self) -> std::result::Result<Box<dyn Asks>, LinkFault> {
        self.0.clock.running().await;
        let epoch = self.0.epoch();
        self.0.ask(epoch, Ask::Connect).await?;
        let link = Arc::clone(&self.0);
        Ok(Box::new(Connection { link, epoch }))
    }

    async fn listen(&self, client: u128) -> std::result::Result<Option<Box<dyn Hears>>, LinkFault> {
        let kind = match &self.0.world.plan.store {
            StorePlan::Sql { bells, .. } => bells[self.0.client],
            _ => BellKind::None,
        };
        if kind == BellKind::None {
            return Ok(None);
        }
        self.0.clock.running().await;
        let (bell, letters) = self.0.open_bell();
        let bell = Bell {
            epoch: self.0.epoch(),
            link: Arc::clone(&self.0),
            bell,
            kind,
            letters,
        };
        let listen = Ask::Listen {
            session: client,
            bell: bell.bell,
            kind,
        };
        self.0.ask(bell.epoch, listen).await?;
        Ok(Some(Box::new(bell)))
    }
}

/// A connection for statements.
#[derive(Debug)]
struct Connection {
    link: Arc<Link>,
    epoch: u64,
}

#[async_trait]
impl Asks for Connection {
    fn is_closed(&self) -> bool {
        self.link.is_broken(self.epoch)
    }

    async fn ask(&mut self, statement: Statement) -> std::result::Result<Reply, LinkFault> {
        let told = self
            .link
            .ask(self.epoch, Ask::Execute(Box::new(statement)))
            .await;
        match told? {
            Told::Executed(reply) => Ok(*reply),
            _ => Err(LinkFault::Unknown),
        }
    }
}

/// A connection on which notifications arrive, or a query is interrupted.
#[derive(Debug)]
struct Bell {
    link: Arc<Link>,
    epoch: u64,
    bell: u64,
    kind: BellKind,
    letters: mpsc::UnboundedReceiver<String>,
}

#[async_trait]
impl Hears for Bell {
    async fn heard(
        &mut self,
        watched: &[(Name, i64)],
    ) -> std::result::Result<Option<String>, LinkFault> {
        if self.kind == BellKind::Doorbell {
            let ask = Ask::Sleep {
                bell: self.bell,
                watched: watched.to_vec(),
            };
            match self.link.ask(self.epoch, ask).await? {
                Told::Turned(false) => {}
                _ => return Ok(None),
            }
        }
        self.link.clock.running().await;
        let heard = tokio::select! {
            biased;
            letter = self.letters.recv() => letter.ok_or(LinkFault::Unknown),
            () = self.link.broken(self.epoch) => Err(LinkFault::Unknown),
            () = sleep(LONGEST_SLEEP) => Ok(String::new()),
        };
        self.link.clock.running().await;
        let letter = heard?;
        Ok((self.kind == BellKind::Letters && !letter.is_empty()).then_some(letter))
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.link.close_bell(self.bell);
        self.link.post(self.epoch, Ask::HangUp { bell: self.bell });
    }
}

/// How long after its start a server considers no client gone.
const TIME_TO_COME_BACK_US: i64 = 10_000_000;

/// How far a replica may lag behind.
const REPLICA_LAG_US: i64 = 150_000;

/// How long a query sleeps without an interruption.
const LONGEST_SLEEP: Duration = Duration::from_secs(2);

const SWEEP_EVERY: Duration = Duration::from_millis(70);
