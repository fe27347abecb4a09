//! Generates a plan from a seed.
//!
//! A seed first selects a profile: which classes of faults are on, and how much of the API is used.
//! Many seeds have no faults or only one class, so that bugs that need no fault are found quickly
//! as well.

use fastrand::Rng;

use crate::plan::{
    BellKind, ByHand, ClientPlan, Cut, End, Fault, FaultKind, How, LockSpec, MessageFault,
    MessageTrouble, ModeSpec, NameKind, NodeClock, OwnerSpec, Plan, Setting, Step, StorePlan, Take,
    TaskPlan,
};

/// Which parts of the API plans may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Owners that are used more than once: named owners, and re-entry.
    pub owners: bool,
    /// Faults.
    pub faults: bool,
    /// Store clocks that jump forward.
    pub store_jumps: bool,
    /// Which stores are simulated.
    pub stores: Stores,
}

/// The stores that plans may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Each seed selects its own.
    Any,
    /// A single server.
    Single,
    /// Servers that vote.
    Redlock,
    /// A table in a database.
    Sql,
}

impl Scope {
    /// Everything.
    pub const ALL: Self = Self {
        owners: true,
        faults: true,
        store_jumps: true,
        stores: Stores::Any,
    };
}

/// Generates the plan of a seed.
pub fn generate(seed: u64, scope: Scope) -> Plan {
    let mut random = Rng::with_seed(seed ^ 0x7e9d_5ec7_a110_c8ed);
    // Uses a separate generator, so that it does not change the other random choices of the seed.
    let stores = match scope.stores {
        Stores::Any if Rng::with_seed(seed ^ 0x5a1_7ab1e).u32(0..4) == 0 => Stores::Sql,
        Stores::Any if Rng::with_seed(seed ^ 0x4ed1_0c4b).u32(0..3) == 0 => Stores::Redlock,
        Stores::Any => Stores::Single,
        stores => stores,
    };
    let is_redlock = stores == Stores::Redlock;
    let mut draw = Draw::new(&mut random, scope);
    let mut names = draw.names();
    if is_redlock {
        // Servers that vote refuse semaphores.
        names.fill(NameKind::Lock);
        // Some leases outlive all faults, so that a claim that is not withdrawn becomes visible.
        let long = draw.ttls_ms.iter_mut().filter(|ttl_ms| **ttl_ms >= 1000);
        long.for_each(|ttl_ms| *ttl_ms *= 5);
    }
    if stores == Stores::Sql && draw.random.bool() {
        // Some leases are longer than the initial lease after a handover.
        let long = draw.ttls_ms.iter_mut().filter(|ttl_ms| **ttl_ms >= 1000);
        long.for_each(|ttl_ms| *ttl_ms *= 6);
    }
    let clients = draw.random.usize(2..=5);
    let clients = (0..clients).map(|_| draw.client(&names)).collect();
    let mut plan = Plan {
        seed,
        store: StorePlan::Single,
        setting: draw.setting(),
        names,
        clients,
        faults: Vec::new(),
        messages: Vec::new(),
    };
    if is_redlock {
        draw.redlock(&mut plan);
    }
    if stores == Stores::Sql {
        draw.sql(&mut plan);
    }
    draw.faults(&mut plan);
    if stores == Stores::Sql {
        draw.faults_of_statements(&mut plan);
    }
    plan
}

/// A class of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Messages,
    Connections,
    Stops,
    Kills,
    Clocks,
    Store,
}

const CLASSES: [Class; 6] = [
    Class::Messages,
    Class::Connections,
    Class::Stops,
    Class::Kills,
    Class::Clocks,
    Class::Store,
];

/// The profile that a seed has selected.
struct Draw<'a> {
    random: &'a mut Rng,
    classes: Vec<Class>,
    /// How many of ten locks have an owner that is used more than once.
    owners: u32,
    /// How many named owners there are.
    named: u32,
    ttls_ms: Vec<u64>,
    /// How many of ten steps use the rarer parts of the API.
    rare: u32,
    longest_hold_ms: u64,
    store_jumps: bool,
}

impl<'a> Draw<'a> {
    fn new(random: &'a mut Rng, scope: Scope) -> Self {
        let classes = match random.u32(0..10) {
            0..4 => Vec::new(),
            4..8 => vec![CLASSES[random.usize(..CLASSES.len())]],
            8 => CLASSES.into_iter().filter(|_| random.bool()).collect(),
            _ => CLASSES.to_vec(),
        };
        let owners = match random.u32(0..10) {
            0..4 => 0,
            4..7 => 4,
            _ => 9,
        };
        let all = [60, 200, 500, 1000, 3000];
        let ttls = random.usize(1..=2);
        let ttls_ms = (0..ttls).map(|_| all[random.usize(..all.len())]).collect();
        Self {
            classes: if scope.faults { classes } else { Vec::new() },
            owners: if scope.owners { owners } else { 0 },
            named: random.u32(1..=2),
            ttls_ms,
            rare: [0, 1, 3][random.usize(..3)],
            longest_hold_ms: [5, 40, 400][random.usize(..3)],
            store_jumps: scope.store_jumps,
            random,
        }
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.u32(0..n) == 0
    }

    fn names(&mut self) -> Vec<NameKind> {
        let count = [1, 1, 1, 2, 3][self.random.usize(..5)];
        let draw = |random: &mut Rng| match random.u32(0..4) {
            0 => NameKind::Semaphore {
                of: random.u32(1..=3),
            },
            _ => NameKind::Lock,
        };
        (0..count).map(|_| draw(self.random)).collect()
    }

    fn setting(&mut self) -> Setting {
        let (fastest_ms, slowest_ms) =
            [(1, 1), (5, 5), (1, 4), (1, 15), (2, 40)][self.random.usize(..5)];
        let drifts = self.classes.contains(&Class::Clocks);
        Setting {
            fastest_ms,
            slowest_ms,
            timeout_ms: [100, 300, 1000][self.random.usize(..3)],
            sees_ends_after_ms: self.random.bool().then(|| self.random.u64(0..100)),
            store_ppm: if drifts { self.ppm() } else { 0 },
        }
    }

    /// Returns a drift that keeps any two clocks within the margin of 1 %.
    fn ppm(&mut self) -> i64 {
        self.random.i64(-4_000..=4_000)
    }

    fn client(&mut self, names: &[NameKind]) -> ClientPlan {
        let drifts = self.classes.contains(&Class::Clocks);
        let tasks = self.random.usize(1..=3);
        let ppm = if drifts { self.ppm() } else { 0 };
        let tasks = (0..tasks).map(|_| self.task(names)).collect();
        let again = self.classes.contains(&Class::Kills) && self.random.bool();
        let after_restart = if again {
            vec![self.task(names)]
        } else {
            Vec::new()
        };
        ClientPlan {
            ppm,
            order: vec![0],
            unreachable: Vec::new(),
            tasks,
            after_restart,
        }
    }

    fn task(&mut self, names: &[NameKind]) -> TaskPlan {
        let steps = self.random.usize(2..=7);
        TaskPlan {
            start_ms: self.random.u64(0..=30),
            steps: (0..steps).map(|_| self.step(names)).collect(),
        }
    }

    fn step(&mut self, names: &[NameKind]) -> Step {
        if self.random.u32(0..10) < self.rare {
            return self.rare_step(names);
        }
        if self.one_in(8) {
            return Step::Sleep(self.random.u64(1..100));
        }
        Step::Take(self.take(names, 0))
    }

    fn rare_step(&mut self, names: &[NameKind]) -> Step {
        let name = self.random.usize(..names.len());
        match self.random.u32(0..12) {
            0..5 => self.by_hand(names),
            5..8 => {
                let mut lock = self.lock(names, name);
                lock.mode = ModeSpec::Exclusive;
                let for_ms = self.hold(lock.ttl_ms);
                Step::Once { lock, for_ms }
            }
            8 => Step::Evict(name),
            9 => Step::List(name),
            10 => Step::Settle,
            _ => Step::DropClient,
        }
    }

    fn by_hand(&mut self, names: &[NameKind]) -> Step {
        let name = self.random.usize(..names.len());
        let mut lock = self.lock(names, name);
        (lock.keep_ms, lock.at_least_ms, lock.max_hold_ms) = (0, 0, None);
        if matches!(lock.owner, OwnerSpec::Task | OwnerSpec::TaskByClone) {
            lock.owner = OwnerSpec::None;
        }
        let renewals = self.random.usize(0..3);
        let ttl_ms = lock.ttl_ms;
        Step::ByHand(ByHand {
            lock,
            how: self.how(),
            renew_after_ms: (0..renewals)
                .map(|_| self.random.u64(1..ttl_ms + ttl_ms / 5))
                .collect(),
            hold_ms: self.hold(ttl_ms),
            release: !self.one_in(4),
        })
    }

    fn take(&mut self, names: &[NameKind], depth: u32) -> Take {
        let name = self.random.usize(..names.len());
        let lock = self.lock(names, name);
        let inner = if depth < 2 && self.one_in(4) {
            self.inner(names, &lock, depth)
        } else {
            None
        };
        let cut = match self.random.u32(0..12) {
            0 => Some(Cut::Polls(self.random.u32(1..6))),
            1 => Some(Cut::After(self.random.u64(1..150))),
            _ => None,
        };
        Take {
            how: self.how(),
            cut,
            hold_ms: self.hold(lock.ttl_ms),
            inner,
            end: match self.random.u32(0..5) {
                0..2 => End::Drop,
                2 => End::ReleaseCut(self.random.u32(1..4)),
                _ => End::Release,
            },
            lock,
        }
    }

    /// Returns what is locked under a lock: the same name by the same owner, or a later name, so
    /// that there is no deadlock.
    fn inner(&mut self, names: &[NameKind], outer: &LockSpec, depth: u32) -> Option<Box<Take>> {
        let mut inner = self.take(names, depth + 1);
        if outer.owner != OwnerSpec::None && self.random.bool() {
            inner.lock = LockSpec {
                ttl_ms: inner.lock.ttl_ms,
                ..outer.clone()
            };
            // A nested call of the running task may use either way.
            inner.lock.owner = outer.owner;
            inner.inner = None;
            return Some(Box::new(inner));
        }
        let later = inner.lock.name > outer.name;
        let mut next = Some(&inner);
        let mut grows = true;
        while let Some(take) = next {
            grows &= take.lock.name > outer.name;
            next = take.inner.as_deref();
        }
        (later && grows).then(|| Box::new(inner))
    }

    fn lock(&mut self, names: &[NameKind], name: usize) -> LockSpec {
        let mode = match names[name] {
            NameKind::Lock if self.one_in(4) => ModeSpec::Shared,
            NameKind::Lock => ModeSpec::Exclusive,
            NameKind::Semaphore { .. } if self.one_in(10) => ModeSpec::Exclusive,
            NameKind::Semaphore { of } => ModeSpec::Take(self.random.u32(1..=of)),
        };
        let owner = if self.random.u32(0..10) < self.owners {
            match self.random.u32(0..8) {
                0..5 => OwnerSpec::Named(self.random.u32(0..self.named)),
                5 => OwnerSpec::Task,
                _ => OwnerSpec::TaskByClone,
            }
        } else {
            OwnerSpec::None
        };
        let ttl_ms = self.ttls_ms[self.random.usize(..self.ttls_ms.len())];
        let plain = owner == OwnerSpec::None && mode == ModeSpec::Exclusive;
        let extra = if plain { self.random.u32(0..16) } else { 9 };
        LockSpec {
            name,
            mode,
            owner,
            ttl_ms,
            at_least_ms: if extra == 0 {
                self.random.u64(10..200)
            } else {
                0
            },
            max_hold_ms: (extra == 1).then(|| self.random.u64(10..ttl_ms * 2)),
            keep_ms: if extra == 2 || extra == 3 {
                self.random.u64(10..500)
            } else {
                0
            },
        }
    }

    fn how(&mut self) -> How {
        match self.random.u32(0..10) {
            0..4 => How::Lock,
            4..6 => How::Try,
            6..8 => How::Timeout(self.random.u64(1..300)),
            _ => How::Retry {
                timeout_ms: self.random.u64(2..120),
                times: self.random.u32(2..8),
            },
        }
    }

    fn hold(&mut self, ttl_ms: u64) -> u64 {
        match self.random.u32(0..8) {
            0 => 0,
            1 => self.random.u64(1..ttl_ms * 2).min(2500),
            _ => self.random.u64(0..self.longest_hold_ms),
        }
    }

    /// Sets up servers that vote: their clocks, and which of them each client lists and reaches.
    fn redlock(&mut self, plan: &mut Plan) {
        let count = [3, 3, 5, 4, 2][self.random.usize(..5)];
        let drifts = self.classes.contains(&Class::Clocks);
        let most_ahead_ms = [0, 5, 200][self.random.usize(..3)];
        let clock = |draw: &mut Self| NodeClock {
            ahead_ms: draw.random.u64(0..=most_ahead_ms),
            ppm: if drifts { draw.ppm() } else { 0 },
        };
        let nodes = (0..count).map(|_| clock(self)).collect();
        let longest_ms = u64::try_from(plan.longest_ttl().as_millis()).unwrap_or(1000);
        // A vote may take two rounds, and must be over before the lease expires.
        let shortest_ms = plan.locks().iter().map(|lock| lock.ttl_ms).min();
        let slowest_ms = shortest_ms.unwrap_or(longest_ms) / 8;
        plan.setting.slowest_ms = plan.setting.slowest_ms.min(slowest_ms);
        plan.setting.fastest_ms = plan.setting.fastest_ms.min(slowest_ms);
        let keep_out = self.random.bool();
        plan.store = StorePlan::Redlock {
            nodes,
            // Longer than every ttl, and than the skew of the clocks and the lead of proposals.
            restart_delay_ms: keep_out.then(|| longest_ms + self.random.u64(800..1500)),
            hand_over_ms: [30, 300, 5000][self.random.usize(..3)],
        };
        // Servers that vote do not notice the end of a client: only the client itself frees what it
        // holds.
        plan.setting.sees_ends_after_ms = None;
        let partial = self.one_in(3);
        for client in &mut plan.clients {
            client.order = (0..count).collect();
            self.random.shuffle(&mut client.order);
            if partial && self.random.bool() {
                let away = self.random.usize(0..=(count - 1) / 2);
                client.unreachable = self.random.choose_multiple(0..count, away);
            }
        }
    }

    /// Sets up a database: how clients are notified, and what happens to the table.
    fn sql(&mut self, plan: &mut Plan) {
        let kind = match self.random.bool() {
            true => BellKind::Letters,
            false => BellKind::Doorbell,
        };
        let without = [0, 0, 1, 4][self.random.usize(..4)];
        let bells = plan
            .clients
            .iter()
            .map(|_| match self.random.u32(0..4) < without {
                true => BellKind::None,
                false => kind,
            });
        plan.store = StorePlan::Sql {
            bells: bells.collect(),
            connections: self.random.u32(1..=4),
            forgets: self.random.bool(),
            sweeps: self.one_in(3),
        };
        if self.classes.is_empty() {
            // Requests of many tasks for one name compete with each other, and give up after the
            // timeout.
            plan.setting.timeout_ms = 5000;
        }
        // A request may take several statements, and must be over before the lease expires.
        let shortest_ms = plan.locks().iter().map(|lock| lock.ttl_ms).min();
        let slowest_ms = (shortest_ms.unwrap_or(1000) / 12).max(1);
        plan.setting.slowest_ms = plan.setting.slowest_ms.min(slowest_ms);
        plan.setting.fastest_ms = plan.setting.fastest_ms.min(slowest_ms);
    }

    /// Turns faults of messages into faults of statements. No connection repeats a statement by
    /// itself, and the database may roll it back. Notifications may be lost or arrive twice.
    fn faults_of_statements(&mut self, plan: &mut Plan) {
        for fault in &mut plan.messages {
            // One request takes several statements.
            fault.nth = 3 * fault.nth + self.random.u64(0..3);
            fault.what = match (fault.what, self.random.u32(0..3)) {
                (MessageTrouble::Duplicate(late_ms), 0) => MessageTrouble::SlowRequest(late_ms),
                (MessageTrouble::Duplicate(late_ms), 1) => MessageTrouble::DuplicateNews(late_ms),
                (MessageTrouble::Duplicate(_), _) => MessageTrouble::Undo,
                (MessageTrouble::SlowNews(_), 0) => MessageTrouble::LoseNews,
                (what, _) => what,
            };
            if fault.what.is_of_news() {
                fault.nth /= 8;
            }
        }
    }

    /// Returns the servers that a fault hits.
    fn nodes(&mut self, plan: &Plan) -> Vec<usize> {
        let count = plan.servers();
        if !plan.is_redlock() || self.one_in(4) {
            return Vec::new();
        }
        let hit = self.random.usize(1..=count.div_ceil(2));
        self.random.choose_multiple(0..count, hit)
    }

    fn faults(&mut self, plan: &mut Plan) {
        let (clients, longest) = (plan.clients.len(), plan.longest_ttl().as_millis());
        let longest_ms = u64::try_from(longest).unwrap_or(1000);
        for class in self.classes.clone() {
            let count = self.random.usize(1..=3);
            for _ in 0..count {
                if class == Class::Messages {
                    for _ in 0..3 {
                        let fault = self.message_fault(clients, plan.servers());
                        plan.messages.push(fault);
                    }
                    continue;
                }
                let at_ms = self.random.u64(1..800);
                let what = self.fault(class, plan, longest_ms);
                plan.faults.push(Fault { at_ms, what });
            }
        }
        // Two simultaneous outages of one connection would end each other.
        plan.faults.sort_by_key(|fault| fault.at_ms);
        let mut free_at = 0;
        for fault in &mut plan.faults {
            fault.at_ms = fault.at_ms.max(free_at);
            free_at = fault.at_ms + fault.lasts() + 1;
        }
    }

    fn fault(&mut self, class: Class, plan: &Plan, longest_ms: u64) -> FaultKind {
        let client = self.random.usize(..plan.clients.len());
        let for_ms = self.random.u64(1..longest_ms * 2).min(4000);
        let nodes = self.nodes(plan);
        match class {
            Class::Messages | Class::Connections if self.random.bool() => FaultKind::Cut {
                client,
                nodes,
                for_ms,
            },
            Class::Messages | Class::Connections => FaultKind::Partition {
                client,
                nodes,
                for_ms,
            },
            Class::Stops => FaultKind::Stop { client, for_ms },
            Class::Kills => FaultKind::Kill {
                client,
                restart_ms: self.random.bool().then_some(for_ms / 2),
            },
            Class::Clocks => match self.random.u32(0..4) {
                0 => FaultKind::Suspend {
                    client,
                    by_ms: for_ms,
                },
                1 => FaultKind::Drift {
                    client,
                    ppm: self.ppm(),
                },
                2 => FaultKind::StoreDrift {
                    nodes,
                    ppm: self.ppm(),
                },
                // A node may forget its last number, and then uses its clock.
                _ if plan.may_forget() && plan.is_redlock() => FaultKind::StoreDrift {
                    nodes,
                    ppm: self.ppm(),
                },
                _ => {
                    let by_ms = i64::try_from(for_ms).unwrap_or(1);
                    let forward = self.random.bool() && self.store_jumps && !plan.is_redlock();
                    // A server that has forgotten the last fences takes new ones from its clock.
                    let forward = forward || (plan.is_sql() && plan.may_forget());
                    FaultKind::StoreJump {
                        nodes,
                        by_ms: if forward { by_ms } else { -by_ms },
                    }
                }
            },
            Class::Store if (plan.is_redlock() || plan.is_sql()) && self.one_in(3) => {
                FaultKind::StoreFrozen { nodes, for_ms }
            }
            // It returns while the leases that a node may have forgotten are still running.
            Class::Store if plan.is_redlock() => FaultKind::StoreDown {
                nodes,
                for_ms: for_ms / 8 + 1,
                forgets: plan.may_forget() && !self.one_in(4),
            },
            // Longer than reserved fences are ahead of the clock.
            Class::Store if plan.is_sql() => FaultKind::StoreDown {
                nodes,
                for_ms: for_ms.max(50),
                forgets: plan.may_forget() && self.random.bool(),
            },
            Class::Store => FaultKind::StoreDown {
                nodes,
                for_ms,
                forgets: self.one_in(3),
            },
        }
    }

    fn message_fault(&mut self, clients: usize, servers: usize) -> MessageFault {
        let longest = 40 * u64::try_from(servers).unwrap_or(1);
        let late_ms = [5, 30, 300, 2500][self.random.usize(..4)];
        let late_ms = self.random.u64(1..=late_ms);
        MessageFault {
            client: self.random.usize(..clients),
            nth: self.random.u64(0..longest),
            what: match self.random.u32(0..7) {
                0 => MessageTrouble::LoseRequest,
                1 => MessageTrouble::LoseAnswer,
                2 => MessageTrouble::SlowRequest(late_ms),
                3 => MessageTrouble::SlowAnswer(late_ms),
                4 => MessageTrouble::SlowNews(late_ms),
                _ => MessageTrouble::Duplicate(late_ms),
            },
        }
    }
}
