//! The plan of a run as plain data: who does what when, and which faults happen.
//!
//! A seed is turned into a plan up front, and the interpreter only follows it. A plan can therefore
//! be made smaller piece by piece, and each smaller plan is a complete run.

use std::time::Duration;

/// Everything that a run does.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The seed that it was generated from; also seeds the library and the network.
    pub seed: u64,
    /// The store that is simulated.
    pub store: StorePlan,
    /// The properties of the network and the store.
    pub setting: Setting,
    /// The names, by how they are used.
    pub names: Vec<NameKind>,
    /// The clients that start with the run.
    pub clients: Vec<ClientPlan>,
    /// The faults, each at its time.
    pub faults: Vec<Fault>,
    /// The faults of single messages.
    pub messages: Vec<MessageFault>,
}

/// The store of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum StorePlan {
    /// A single server, which decides alone.
    Single,
    /// Servers that vote: `redlock://`.
    Redlock {
        /// The clock of each node.
        nodes: Vec<NodeClock>,
        /// How long a node that has restarted does not vote, in milliseconds; `None` if nodes never
        /// forget.
        restart_delay_ms: Option<u64>,
        /// How long a lease lasts that a node handed over and nobody confirmed, in milliseconds.
        hand_over_ms: u64,
    },
    /// A table in a database: `postgres://` and `mysql://`.
    Sql {
        /// How each client is notified.
        bells: Vec<BellKind>,
        /// How many connections a client has for statements.
        connections: u32,
        /// Whether another server that lags behind may take over.
        forgets: bool,
        /// Whether somebody sweeps the table from time to time.
        sweeps: bool,
    },
}

/// How a client of a database is notified while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BellKind {
    /// It receives notifications, as from `NOTIFY`.
    Letters,
    /// A query on which it sleeps is interrupted.
    Doorbell,
    /// It cannot be notified, and polls.
    None,
}

/// The clock of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeClock {
    /// How far it is ahead, in milliseconds.
    pub ahead_ms: u64,
    /// How much faster it runs, in parts per million.
    pub ppm: i64,
}

/// The properties of the network and the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The shortest latency of a message, in milliseconds.
    pub fastest_ms: u64,
    /// The longest latency of a message that no fault delays, in milliseconds.
    pub slowest_ms: u64,
    /// How long a client waits for a reply, in milliseconds.
    pub timeout_ms: u64,
    /// How long after the end of a client the store notices it; `None` if it never does.
    pub sees_ends_after_ms: Option<u64>,
    /// How much faster the store's clock runs, in parts per million.
    pub store_ppm: i64,
}

/// How a name is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// As a mutex or an rwlock.
    Lock,
    /// As a semaphore.
    Semaphore {
        /// How many permits it has.
        of: u32,
    },
}

/// One client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientPlan {
    /// How much faster its clock runs, in parts per million.
    pub ppm: i64,
    /// The nodes in the order in which its URL lists them.
    pub order: Vec<usize>,
    /// The nodes that it never reaches.
    pub unreachable: Vec<usize>,
    /// Its tasks, which run concurrently.
    pub tasks: Vec<TaskPlan>,
    /// The tasks of the client that replaces it after it was killed.
    pub after_restart: Vec<TaskPlan>,
}

/// One task of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPlan {
    /// When it starts, in milliseconds.
    pub start_ms: u64,
    /// Its steps, one after the other.
    pub steps: Vec<Step>,
}

/// One step of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Sleeps.
    Sleep(u64),
    /// Locks, holds and releases.
    Take(Take),
    /// Leases by hand, renews and releases.
    ByHand(ByHand),
    /// Computes a result under the lock.
    Once {
        /// The lock.
        lock: LockSpec,
        /// How long it computes, in milliseconds.
        for_ms: u64,
    },
    /// An operator takes a name away from its holders.
    Evict(usize),
    /// Lists a name.
    List(usize),
    /// Waits until no request of the client is in flight.
    Settle,
    /// Drops the client; guards and calls of other tasks continue.
    DropClient,
}

/// A lock with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSpec {
    /// The index of the name.
    pub name: usize,
    /// The mode.
    pub mode: ModeSpec,
    /// The owner.
    pub owner: OwnerSpec,
    /// How long the lease lasts, in milliseconds.
    pub ttl_ms: u64,
    /// How long the name stays taken at least, in milliseconds.
    pub at_least_ms: u64,
    /// How long it is held at most, in milliseconds.
    pub max_hold_ms: Option<u64>,
    /// How long the process keeps the lease, in milliseconds.
    pub keep_ms: u64,
}

/// The mode in which a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeSpec {
    /// As a mutex, or for writing.
    Exclusive,
    /// For reading.
    Shared,
    /// A number of permits.
    Take(u32),
}

/// The owner of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerSpec {
    /// Each call is its own owner.
    None,
    /// A named owner, which clients and tasks share.
    Named(u32),
    /// The running task, by `.reentrant()` at each call.
    Task,
    /// The running task, by a lock with `.reentrant()` that the client built once and its tasks cloned.
    TaskByClone,
}

/// A call that locks, and what is done under the lock.
#[derive(Debug, Clone, PartialEq)]
pub struct Take {
    /// The lock.
    pub lock: LockSpec,
    /// How the lock is called.
    pub how: How,
    /// When the call is dropped, if it is.
    pub cut: Option<Cut>,
    /// How long it is held, in milliseconds.
    pub hold_ms: u64,
    /// What is locked under it.
    pub inner: Option<Box<Self>>,
    /// How it is released.
    pub end: End,
}

/// How a lock is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// `lock`.
    Lock,
    /// `try_lock`.
    Try,
    /// `lock_timeout`, in milliseconds.
    Timeout(u64),
    /// `lock_timeout` in a loop.
    Retry {
        /// The timeout of each call, in milliseconds.
        timeout_ms: u64,
        /// The maximum number of calls.
        times: u32,
    },
}

/// When a future is dropped before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// At the first wake-up after this many polls.
    Polls(u32),
    /// After this many milliseconds.
    After(u64),
}

/// How a guard ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is dropped.
    Drop,
    /// It is released.
    Release,
    /// It is released, and the future is dropped after this many polls.
    ReleaseCut(u32),
}

/// A lease by hand.
#[derive(Debug, Clone, PartialEq)]
pub struct ByHand {
    /// The lock.
    pub lock: LockSpec,
    /// How the lock is called.
    pub how: How,
    /// The pauses before each renewal, in milliseconds.
    pub renew_after_ms: Vec<u64>,
    /// How long it is used after that, in milliseconds.
    pub hold_ms: u64,
    /// Whether it is released; if not, it is left to expire.
    pub release: bool,
}

/// A fault and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// When it starts, in milliseconds.
    pub at_ms: u64,
    /// The kind of fault.
    pub what: FaultKind,
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    /// A connection breaks, and both sides know it.
    Cut {
        /// The client.
        client: usize,
        /// The nodes on the other side; empty means all.
        nodes: Vec<usize>,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// A connection becomes silent.
    Partition {
        /// The client.
        client: usize,
        /// The nodes on the other side; empty means all.
        nodes: Vec<usize>,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// A process is stopped.
    Stop {
        /// The client.
        client: usize,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// A process is killed.
    Kill {
        /// The client.
        client: usize,
        /// When another process replaces it, in milliseconds after the kill.
        restart_ms: Option<u64>,
    },
    /// A machine is suspended: its clock jumps ahead of its timers.
    Suspend {
        /// The client.
        client: usize,
        /// How far, in milliseconds.
        by_ms: u64,
    },
    /// A client's clock changes its rate.
    Drift {
        /// The client.
        client: usize,
        /// The new rate, in parts per million.
        ppm: i64,
    },
    /// The store's clock jumps.
    StoreJump {
        /// The nodes; empty means all.
        nodes: Vec<usize>,
        /// How far, in milliseconds.
        by_ms: i64,
    },
    /// The store's clock changes its rate.
    StoreDrift {
        /// The nodes; empty means all.
        nodes: Vec<usize>,
        /// The new rate, in parts per million.
        ppm: i64,
    },
    /// The store is down, and all connections are cut.
    StoreDown {
        /// The nodes; empty means all.
        nodes: Vec<usize>,
        /// For how long, in milliseconds.
        for_ms: u64,
        /// Whether it returns without its data.
        forgets: bool,
    },
    /// The store freezes: requests wait until it continues.
    StoreFrozen {
        /// The nodes; empty means all.
        nodes: Vec<usize>,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
}

/// A fault of one message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageFault {
    /// The client.
    pub client: usize,
    /// The number of its request, or of the news sent to it.
    pub nth: u64,
    /// What goes wrong.
    pub what: MessageTrouble,
}

/// What goes wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageTrouble {
    /// The request does not arrive.
    LoseRequest,
    /// The request takes effect, but its reply does not arrive.
    LoseAnswer,
    /// The request takes effect twice, the second time this many milliseconds later.
    Duplicate(u64),
    /// The request takes this many milliseconds longer.
    SlowRequest(u64),
    /// The reply takes this many milliseconds longer.
    SlowAnswer(u64),
    /// News takes this many milliseconds longer.
    SlowNews(u64),
    /// News does not arrive.
    LoseNews,
    /// News arrives twice, the second time this many milliseconds later.
    DuplicateNews(u64),
    /// The database rolls the statement back because of another one.
    Undo,
}

impl Plan {
    /// Returns whether it has no faults.
    pub fn is_calm(&self) -> bool {
        self.faults.is_empty() && self.messages.is_empty()
    }

    /// Returns whether the beliefs of clients and the state of the store agree within a few
    /// messages.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_calm() && !self.is_redlock()
    }

    /// Returns whether servers vote.
    pub fn is_redlock(&self) -> bool {
        matches!(self.store, StorePlan::Redlock { .. })
    }

    /// Returns whether locks are rows of a table.
    pub fn is_sql(&self) -> bool {
        matches!(self.store, StorePlan::Sql { .. })
    }

    /// Returns whether somebody sweeps the table.
    pub(crate) fn is_swept(&self) -> bool {
        matches!(self.store, StorePlan::Sql { sweeps: true, .. })
    }

    /// Returns how long a request and its effects take at most while nothing goes wrong, in
    /// milliseconds.
    ///
    /// One request takes several statements in a database, and more if others change the row. A
    /// client that cannot be notified polls ten times a second.
    pub(crate) fn slowest_way_ms(&self, messages: u64) -> u64 {
        let slowest_ms = self.setting.slowest_ms;
        match self.store {
            // All tasks of a client share its connections.
            StorePlan::Sql { connections, .. } => {
                6 * messages * slowest_ms * u64::from(4_u32.div_ceil(connections)) + 250
            }
            _ => messages * slowest_ms,
        }
    }

    /// Returns how many servers there are.
    pub fn servers(&self) -> usize {
        match &self.store {
            StorePlan::Single | StorePlan::Sql { .. } => 1,
            StorePlan::Redlock { nodes, .. } => nodes.len(),
        }
    }

    /// Returns whether servers may lose their data: their promises then rest on `restart_delay`.
    pub(crate) fn may_forget(&self) -> bool {
        match self.store {
            StorePlan::Single => true,
            StorePlan::Sql { forgets, .. } => forgets,
            StorePlan::Redlock {
                restart_delay_ms, ..
            } => restart_delay_ms.is_some(),
        }
    }

    /// Returns how long after the last fault clients of redlock have given everything back.
    ///
    /// Returns `None` if they may not do so: a client is killed, a request takes effect after its
    /// claim is over, or faults last so long that clients stop to withdraw what nodes have not
    /// confirmed.
    pub(crate) fn tidy_after(&self) -> Option<Duration> {
        let kills = |fault: &Fault| matches!(fault.what, FaultKind::Kill { .. });
        let is_late = |message: &MessageFault| {
            let what = message.what;
            matches!(
                what,
                MessageTrouble::Duplicate(_) | MessageTrouble::SlowRequest(_)
            )
        };
        let faults_ms: u64 = self.faults.iter().map(Fault::lasts).sum();
        let timeouts_ms = 3 * self.setting.timeout_ms;
        // Pauses between withdrawals grow with the outage, up to 1.5 s.
        let tidy_ms = 100 + timeouts_ms + 1500.min(2 * faults_ms);
        let is_tidy = !self.faults.iter().any(kills)
            && !self.messages.iter().any(is_late)
            && self.locks().iter().all(|lock| {
                let has_expired = lock.ttl_ms < tidy_ms;
                has_expired || lock.ttl_ms > faults_ms + timeouts_ms
            });
        is_tidy.then(|| Duration::from_millis(tidy_ms))
    }

    /// Returns whether messages of a client arrive in the order in which they were sent.
    pub fn is_in_order(&self) -> bool {
        self.is_calm() && self.setting.fastest_ms == self.setting.slowest_ms
    }

    /// Returns whether a machine is suspended in it.
    pub(crate) fn has_suspends(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault.what, FaultKind::Suspend { .. }))
    }

    /// Returns whether the store goes down in it.
    pub(crate) fn has_crashes(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault.what, FaultKind::StoreDown { .. }))
    }

    /// Returns every lock that the plan uses.
    pub fn locks(&self) -> Vec<&LockSpec> {
        let mut locks = Vec::new();
        for client in &self.clients {
            for task in client.tasks.iter().chain(&client.after_restart) {
                for step in &task.steps {
                    step.locks(&mut locks);
                }
            }
        }
        locks
    }

    /// Returns the longest ttl of all locks.
    pub fn longest_ttl(&self) -> Duration {
        let ttls = self.locks().into_iter().map(|lock| lock.ttl_ms);
        Duration::from_millis(ttls.max().unwrap_or(1000))
    }

    /// Returns when the last fault is over.
    pub fn healed(&self) -> Duration {
        let last = self.faults.iter().map(|fault| fault.at_ms + fault.lasts());
        let messages = if self.messages.is_empty() { 0 } else { 2500 };
        Duration::from_millis(last.max().unwrap_or(0).max(messages))
    }

    /// Returns how far the store's clock jumps back in total, in milliseconds.
    pub(crate) fn jumps_back_ms(&self) -> u64 {
        let jumps = self.faults.iter().map(|fault| match fault.what {
            FaultKind::StoreJump { by_ms, .. } if by_ms < 0 => by_ms.unsigned_abs(),
            _ => 0,
        });
        jumps.sum()
    }

    /// Returns how long everybody may take to make progress after the last fault.
    ///
    /// All holders may hold one after another, and each lease that nobody gives back may run for
    /// its ttl.
    pub fn patience(&self) -> Duration {
        let ttl_ms = u64::try_from(self.longest_ttl().as_millis()).unwrap_or(u64::MAX);
        let (mut held_ms, mut left) = (0, 3);
        for client in &self.clients {
            for task in client.tasks.iter().chain(&client.after_restart) {
                for step in &task.steps {
                    step.costs(&mut held_ms, &mut left);
                }
            }
        }
        let troubles = self.faults.len() + self.messages.len();
        left += 3 * u64::try_from(troubles).unwrap_or(u64::MAX);
        let jumps_ms = self.jumps_back_ms();
        let vote_ms = match self.store {
            StorePlan::Single => 0,
            // The end of a waiter is known 12 s after its last sign of life, and 10 s after a
            // restart.
            StorePlan::Sql { .. } => 30_000,
            StorePlan::Redlock {
                restart_delay_ms, ..
            } => restart_delay_ms.unwrap_or(0) + 10_000,
        };
        Duration::from_millis(
            held_ms + left * (ttl_ms + 2 * self.setting.timeout_ms) + jumps_ms + vote_ms + 5_000,
        )
    }
}

impl Fault {
    /// Returns how long it lasts, in milliseconds.
    pub fn lasts(&self) -> u64 {
        match self.what {
            FaultKind::Cut { for_ms, .. }
            | FaultKind::Partition { for_ms, .. }
            | FaultKind::Stop { for_ms, .. }
            | FaultKind::StoreDown { for_ms, .. }
            | FaultKind::StoreFrozen { for_ms, .. } => for_ms,
            FaultKind::Kill { restart_ms, .. } => restart_ms.unwrap_or(0),
            FaultKind::Suspend { .. }
            | FaultKind::Drift { .. }
            | FaultKind::StoreJump { .. }
            | FaultKind::StoreDrift { .. } => 0,
        }
    }
}

impl Step {
    /// Collects the locks of a step.
    fn locks<'a>(&'a self, locks: &mut Vec<&'a LockSpec>) {
        match self {
            Self::Take(take) => take.locks(locks),
            Self::ByHand(by_hand) => locks.push(&by_hand.lock),
            Self::Once { lock, .. } => locks.push(lock),
            _ => {}
        }
    }

    /// Adds how long the step holds something, and how many leases it may leave to expire.
    fn costs(&self, held_ms: &mut u64, left: &mut u64) {
        match self {
            Self::Take(take) => {
                let mut next = Some(take);
                while let Some(take) = next {
                    *held_ms += take.hold_ms + take.lock.at_least_ms + take.lock.keep_ms;
                    next = take.inner.as_deref();
                }
            }
            Self::ByHand(by_hand) => {
                *held_ms += by_hand.hold_ms + by_hand.renew_after_ms.iter().sum::<u64>();
                *left += 2;
            }
            Self::Once { for_ms, .. } => *held_ms += for_ms,
            Self::Sleep(ms) => *held_ms += ms,
            Self::Evict(_) | Self::List(_) | Self::Settle | Self::DropClient => {}
        }
    }
}

impl Take {
    fn locks<'a>(&'a self, locks: &mut Vec<&'a LockSpec>) {
        locks.push(&self.lock);
        if let Some(inner) = &self.inner {
            inner.locks(locks);
        }
    }
}

impl Plan {
    /// Removes a client and all faults that hit it; later clients move up.
    pub(crate) fn remove_client(&mut self, gone: usize) {
        self.clients.remove(gone);
        if let StorePlan::Sql { bells, .. } = &mut self.store {
            bells.remove(gone);
        }
        self.faults
            .retain(|fault| fault.what.client() != Some(gone));
        self.messages.retain(|fault| fault.client != gone);
        let mut hit: Vec<&mut usize> = self.messages.iter_mut().map(|it| &mut it.client).collect();
        hit.extend(self.faults.iter_mut().filter_map(|it| it.what.client_mut()));
        for client in hit.into_iter().filter(|client| **client > gone) {
            *client -= 1;
        }
    }
}

impl FaultKind {
    fn client_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Cut { client, .. }
            | Self::Partition { client, .. }
            | Self::Stop { client, .. }
            | Self::Kill { client, .. }
            | Self::Suspend { client, .. }
            | Self::Drift { client, .. } => Some(client),
            Self::StoreJump { .. }
            | Self::StoreDrift { .. }
            | Self::StoreDown { .. }
            | Self::StoreFrozen { .. } => None,
        }
    }

    /// Returns the client that it hits, if it hits one.
    pub fn client(&self) -> Option<usize> {
        match self {
            Self::Cut { client, .. }
            | Self::Partition { client, .. }
            | Self::Stop { client, .. }
            | Self::Kill { client, .. }
            | Self::Suspend { client, .. }
            | Self::Drift { client, .. } => Some(*client),
            Self::StoreJump { .. }
            | Self::StoreDrift { .. }
            | Self::StoreDown { .. }
            | Self::StoreFrozen { .. } => None,
        }
    }

    /// Returns the servers that it hits; empty means all.
    pub fn nodes(&self) -> &[usize] {
        match self {
            Self::Cut { nodes, .. }
            | Self::Partition { nodes, .. }
            | Self::StoreJump { nodes, .. }
            | Self::StoreDrift { nodes, .. }
            | Self::StoreDown { nodes, .. }
            | Self::StoreFrozen { nodes, .. } => nodes,
            Self::Stop { .. } | Self::Kill { .. } | Self::Suspend { .. } | Self::Drift { .. } => {
                &[]
            }
        }
    }

    /// Returns its class, as reports count it.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Cut { .. } => "cut",
            Self::Partition { .. } => "partition",
            Self::Stop { .. } => "stop",
            Self::Kill { .. } => "kill",
            Self::Suspend { .. } => "suspend",
            Self::Drift { .. } => "drift",
            Self::StoreJump { .. } => "store-jump",
            Self::StoreDrift { .. } => "store-drift",
            Self::StoreDown { forgets: false, .. } => "store-restart",
            Self::StoreDown { forgets: true, .. } => "store-forgets",
            Self::StoreFrozen { .. } => "store-frozen",
        }
    }
}

impl MessageTrouble {
    /// Returns whether it hits news rather than a request.
    pub(crate) fn is_of_news(self) -> bool {
        matches!(
            self,
            Self::SlowNews(_) | Self::LoseNews | Self::DuplicateNews(_)
        )
    }

    /// Returns its class, as reports count it.
    pub fn class(self) -> &'static str {
        match self {
            Self::LoseRequest => "lost-request",
            Self::LoseAnswer => "lost-answer",
            Self::Duplicate(_) => "duplicate",
            Self::SlowRequest(_) => "slow-request",
            Self::SlowAnswer(_) => "slow-answer",
            Self::SlowNews(_) => "slow-news",
            Self::LoseNews => "lost-news",
            Self::DuplicateNews(_) => "duplicate-news",
            Self::Undo => "undone",
        }
    }
}

impl Plan {
    /// Returns whether an operator evicts anybody.
    pub(crate) fn evicts(&self) -> bool {
        self.steps().any(|step| matches!(step, Step::Evict(_)))
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        let tasks = self
            .clients
            .iter()
            .flat_map(|client| client.tasks.iter().chain(&client.after_restart));
        tasks.flat_map(|task| &task.steps)
    }

    /// Returns whether a step of some kind locks a name.
    pub(crate) fn has_step(&self, name: &str, is: impl Fn(&Step) -> bool) -> bool {
        self.steps().any(|step| {
            let mut locks = Vec::new();
            step.locks(&mut locks);
            is(step)
                && locks
                    .iter()
                    .any(|lock| crate::world::name(lock.name) == name)
        })
    }
}
