//! Random requests, put to a store and to the model, whose answers must be the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use tenure::conformance::Fixture;
use tenure::driver::{
    About, Answer, Claim, Driver, Entry, Holder, Life, Loss, Mode, News, Release, Released,
    Renewal, Renewed, Wait,
};
use tenure::{Error, Fence, Name, Owner};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, advance, sleep, timeout};

use crate::model::{Ask, Ends, Held, LetGo, Model, Said, Told, Which};

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Acquire(Ask),
    Advance(u64),
    End {
        client: usize,
    },
    Evict {
        client: usize,
        name: usize,
    },
    Release {
        which: Which,
        pick: Pick,
        depth: u32,
        keep: u64,
    },
    Renew {
        renewals: Vec<(Which, Pick, u64)>,
    },
    /// The same request as so many steps ago, as if its answer had been lost.
    Repeat {
        back: usize,
    },
    Withdraw(Ask),
}

/// Which fence a request names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    Any,
    /// So many grants of the name ago.
    Ago(usize),
}

/// How time passes in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Only when a step says so: every time and every message must be the model's. A tick is a
    /// millisecond.
    Paused,
    /// As it does, while the model's stands still: steps leave out time, and times are compared
    /// roughly. A tick is an hour.
    Real,
    /// As it does, and in a step by as much as the step says: [`Subject::pass`] moves what the
    /// store knows into the past. A tick is an hour.
    Moved,
}

/// A store, and what else the steps need of it.
#[async_trait]
pub(crate) trait Subject: Fixture {
    /// Lets time pass.
    async fn pass(&self, time: Duration) {
        advance(time).await;
    }

    /// Waits until the store knows that all but so many clients have ended, if it ever does.
    async fn is_left_with(&self, _clients: usize) {}

    /// Returns what the store does when a client ends.
    fn ends(&self) -> Ends {
        Ends::Seen
    }
}

const NAMES: usize = 2;
const OWNERS: usize = 3;
const CLIENTS: usize = 3;

/// How far off times may be that pass while a case runs on a real clock.
const ROUGHLY: Duration = Duration::from_secs(600);

/// How long a real store may take to say what the model says at once.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn steps(clock: Clock) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => ask().prop_map(Step::Acquire),
        3 => ask().prop_map(Step::Withdraw),
        3 => renewals(),
        6 => release(),
        1 => (0..CLIENTS, 0..NAMES).prop_map(|(client, name)| Step::Evict { client, name }),
        1 => (0..CLIENTS).prop_map(|client| Step::End { client }),
        3 => (1..4_usize).prop_map(|back| Step::Repeat { back }),
        4 => prop_oneof![Just(1), Just(39), Just(40), Just(60), Just(500)].prop_map(Step::Advance),
    ];
    let wanted = move |step: &Step| clock != Clock::Real || !matches!(step, Step::Advance(_));
    let step = step.prop_filter("time passes by itself", wanted);
    prop::collection::vec(step, 1..50)
}

fn ask() -> impl Strategy<Value = Ask> {
    let depth = prop_oneof![6 => Just(1), 2 => Just(2), 1 => Just(3)];
    let wait = prop_oneof![1 => Just(Wait::No), 3 => Just(Wait::InLine)];
    let fences = prop_oneof![Just(1), Just(64)];
    let how = (mode(), ticks(), depth, wait, life(), fences, any::<bool>());
    (who(), how).prop_map(
        |((client, name, owner), (mode, ttl, depth, wait, life, fences, tells))| Ask {
            client,
            name,
            owner,
            mode,
            ttl,
            depth,
            wait,
            life,
            fences,
            tells,
            pid: 0,
        },
    )
}

/// Owners mostly keep to a client and a name, so that requests meet the leases of earlier ones.
fn who() -> impl Strategy<Value = (usize, usize, usize)> {
    let name = prop_oneof![3 => Just(0), 1 => 0..NAMES];
    let client = prop_oneof![3 => Just(None), 1 => (0..CLIENTS).prop_map(Some)];
    (client, name, 0..OWNERS)
        .prop_map(|(client, name, owner)| (client.unwrap_or(owner % CLIENTS), name, owner))
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        3 => Just(Mode::Exclusive),
        2 => Just(Mode::Shared),
        2 => (1..3_u32, 2..4_u32).prop_map(|(take, of)| Mode::Permits { take, of }),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![3 => Just(Life::Client), 1 => Just(Life::Ttl)]
}

fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![Just(40), Just(100), Just(1_000)]
}

fn which() -> impl Strategy<Value = (Which, Pick)> {
    let pick = prop_oneof![
        2 => Just(Pick::Any),
        2 => Just(Pick::Ago(0)),
        1 => (1..4_usize).prop_map(Pick::Ago),
    ];
    (0..CLIENTS, 0..NAMES, 0..OWNERS, life(), pick).prop_map(|(client, name, owner, life, pick)| {
        let which = Which {
            client,
            name,
            owner,
            life,
            fence: None,
        };
        (which, pick)
    })
}

fn renewals() -> impl Strategy<Value = Step> {
    let one = (which(), ticks()).prop_map(|((which, pick), ttl)| (which, pick, ttl));
    prop::collection::vec(one, 1..4).prop_map(|mut renewals| {
        let client = renewals[0].0.client;
        for (which, ..) in &mut renewals {
            which.client = client;
        }
        Step::Renew { renewals }
    })
}

fn release() -> impl Strategy<Value = Step> {
    let depth = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(2)];
    let keep = prop_oneof![4 => Just(0), 1 => Just(20)];
    (which(), depth, keep).prop_map(|((which, pick), depth, keep)| Step::Release {
        which,
        pick,
        depth,
        keep,
    })
}

/// Puts the steps to a store and to the model, and fails where they differ.
///
/// With [`Clock::Paused`] the runtime's time must be paused and the store must use it.
pub(crate) async fn agrees_with_the_model(fixture: &dyn Subject, clock: Clock, steps: &[Step]) {
    let mut run = Run::start(fixture, clock).await;
    let mut done: Vec<Step> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let mut step = match step {
            Step::Repeat { back } => match done.iter().rev().nth(back - 1) {
                Some(earlier) => earlier.clone(),
                None => continue,
            },
            step => step.clone(),
        };
        run.step = format!("step {number}: {step:?}");
        if let Step::Acquire(ask) | Step::Withdraw(ask) = &mut step
            && ask.pid == 0
        {
            ask.pid = u32::try_from(number).expect("few steps") + 1;
        }
        run.take(&mut step).await;
        if clock == Clock::Moved {
            run.hear().await;
        }
        run.compare_news().await;
        run.compare_lists().await;
        run.model.check();
        if !matches!(step, Step::Advance(_) | Step::End { .. }) {
            done.push(step);
        }
    }
}

struct Run<'a> {
    fixture: &'a dyn Subject,
    clock: Clock,
    model: Model,
    names: Vec<Name>,
    owners: Vec<Owner>,
    clients: Vec<Arc<dyn Driver>>,
    /// The store's fence for each of the model's, by name.
    fences: Vec<BTreeMap<u64, Fence>>,
    step: String,
}

impl<'a> Run<'a> {
    async fn start(fixture: &'a dyn Subject, clock: Clock) -> Self {
        // Unique, so that cases can share one store.
        let base = Owner::unique();
        let name = |number| Name::new(&format!("properties/{base}/{number}"));
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(fixture.client().await);
        }
        Self {
            fixture,
            clock,
            model: Model::new(NAMES, CLIENTS, fixture.ends()),
            names: (0..NAMES).map(|n| name(n).expect("valid")).collect(),
            owners: (0..OWNERS).map(|_| Owner::unique()).collect(),
            clients,
            fences: vec![BTreeMap::new(); NAMES],
            step: String::new(),
        }
    }

    async fn take(&mut self, step: &mut Step) {
        match step {
            Step::Acquire(ask) => self.acquire(ask).await,
            Step::Advance(ticks) => {
                self.model.now += *ticks;
                self.fixture.pass(self.time(*ticks)).await;
            }
            Step::End { client } => {
                self.model.end(*client);
                self.clients[*client] = self.fixture.client().await;
                self.fixture.is_left_with(CLIENTS).await;
            }
            Step::Evict { client, name } => {
                let expected = self.model.evict(*name);
                let evicted = self.clients[*client].evict(&self.names[*name]).await;
                self.compare_holders(*name, &expected, &evicted.expect("the store answers"));
            }
            Step::Release {
                which,
                pick,
                depth,
                keep,
            } => {
                which.fence = which.fence.or_else(|| self.pick(which.name, *pick));
                *pick = Pick::Any;
                self.release(which, *depth, *keep).await;
            }
            Step::Renew { renewals } => {
                for (which, pick, _) in renewals.iter_mut() {
                    which.fence = which.fence.or_else(|| self.pick(which.name, *pick));
                    *pick = Pick::Any;
                }
                if self.clock == Clock::Moved {
                    // A server may see to one lease of a request before another, so one that is
                    // named twice has the time of either.
                    let mut seen = Vec::new();
                    renewals.retain(|(which, ..)| {
                        let lease = (which.name, which.owner, which.life);
                        let is_new = !seen.contains(&lease);
                        seen.push(lease);
                        is_new
                    });
                }
                self.renew(renewals).await;
            }
            Step::Repeat { .. } => unreachable!("replaced by the step that it repeats"),
            Step::Withdraw(ask) => {
                self.model.withdraw(ask);
                let withdrawn = self.clients[ask.client].withdraw(&self.claim(ask)).await;
                withdrawn.expect("the store answers");
            }
        }
    }

    async fn acquire(&mut self, ask: &Ask) {
        let expected = self.model.acquire(ask);
        if self.clock == Clock::Moved
            && ask.wait == Wait::InLine
            && matches!(expected, Said::Granted(_))
        {
            // Its turn came with this request: the answer says so, and no message besides.
            let answered = |told: &mut Told| matches!(told, Told::Granted { name, owner, .. } if (*name, *owner) == (ask.name, ask.owner));
            self.model.told[ask.client].retain_mut(|told| !answered(told));
        }
        let answer = self.clients[ask.client].acquire(&self.claim(ask)).await;
        match (expected, answer) {
            (Said::Busy, Ok(Answer::Busy)) => {}
            (Said::Conflict, Err(Error::ModeConflict { name })) => {
                assert_eq!(name, self.names[ask.name], "{}", self.step);
            }
            (Said::Granted(fence), Ok(Answer::Granted(found))) => {
                self.same_fence(ask.name, fence, found);
            }
            (Said::Queued { ask_again }, Ok(Answer::Queued { ask_again: found })) => {
                self.same_time("ask again", ask_again, found);
            }
            (expected, answer) => panic!("{}: {answer:?}, not {expected:?}", self.step),
        }
    }

    async fn release(&mut self, which: &Which, depth: u32, keep: u64) {
        let expected = match self.model.release(which, depth, keep) {
            LetGo::Freed => Released::Freed,
            LetGo::Lowered => Released::Lowered,
            LetGo::NotHeld(loss) => Released::NotHeld(loss),
        };
        let release = Release {
            name: self.names[which.name].clone(),
            owner: self.owners[which.owner].clone(),
            fence: self.known(which),
            life: which.life,
            depth,
            stays_taken: self.time(keep),
        };
        let released = self.clients[which.client].release(&release).await;
        let released = released.expect("the store answers");
        assert_eq!(released, expected, "{}", self.step);
    }

    async fn renew(&mut self, renewals: &[(Which, Pick, u64)]) {
        let mut asked = Vec::new();
        let mut expected = Vec::new();
        for (which, _, ttl) in renewals {
            asked.push(Renewal {
                name: self.names[which.name].clone(),
                owner: self.owners[which.owner].clone(),
                fence: self.known(which),
                life: which.life,
                ttl: self.time(*ttl),
            });
            expected.push(self.model.renew(which, *ttl));
        }
        let client = &self.clients[renewals[0].0.client];
        let answers = client.renew(&asked).await.expect("the store answers");
        assert_eq!(answers.len(), expected.len(), "{}", self.step);
        for ((answer, expected), (which, ..)) in answers.iter().zip(expected).zip(renewals) {
            match (answer, expected) {
                (Renewed::Kept(found), Ok(fence)) => self.same_fence(which.name, fence, *found),
                (Renewed::Lost(found), Err(loss)) if *found == loss => {}
                (answer, expected) => panic!("{}: {answer:?}, not {expected:?}", self.step),
            }
        }
    }

    /// Lets each client ask something: what the store told it comes before the answer, so that news
    /// that is not there then will not come.
    async fn hear(&self) {
        for client in &self.clients {
            let listed = client.list(Some(&self.names[0])).await;
            listed.expect("the store answers");
        }
    }

    /// Every client was told what the model told it, in the same order.
    async fn compare_news(&mut self) {
        let patience = match self.clock {
            Clock::Real => PATIENCE,
            // It is there.
            Clock::Paused | Clock::Moved => Duration::ZERO,
        };
        for client in 0..CLIENTS {
            let mut told = std::mem::take(&mut self.model.told[client]);
            told.retain(|told| !self.passes_over_told(told));
            while let Some(expected) = told.first().copied() {
                let Some(news) = self.next_news(client, patience).await else {
                    panic!("{}: client {client} misses {expected:?}", self.step);
                };
                let next = self.next_of(&told, &news);
                self.same_news(told.remove(next), news);
            }
            if self.clock != Clock::Real {
                let more = self.next_news(client, Duration::ZERO).await;
                assert_eq!(more, None, "{}: more news for {client}", self.step);
            }
        }
    }

    /// The client's next news that is compared.
    async fn next_news(&self, client: usize, patience: Duration) -> Option<News> {
        let client = &self.clients[client];
        loop {
            let news = match self.clock {
                // Does not wait: that would let the paused time pass.
                Clock::Paused => tokio::select! {
                    biased;
                    // A long run without a wait would use up Tokio's budget for one task, and
                    // news that is there would look missing.
                    news = unconstrained(client.news()) => Some(news),
                    () = std::future::ready(()) => None,
                },
                Clock::Real | Clock::Moved => timeout(patience, client.news()).await.ok(),
            };
            let pass_over = news.as_ref().is_some_and(|news| self.passes_over(news));
            if !pass_over {
                return news;
            }
        }
    }

    /// Whether news is not compared: the time at which a waiter is to ask again moves with a real
    /// clock; and whether a holder is told of a place depends on when the store forgets a client.
    fn passes_over(&self, news: &News) -> bool {
        let names = || self.names.iter().zip(&self.model.locks);
        self.clock != Clock::Paused
            && match news {
                News::AskAgain(_) => true,
                News::Wanted { name, .. } => {
                    names().any(|(other, lock)| other == name && lock.left_behind)
                }
                _ => false,
            }
    }

    fn passes_over_told(&self, told: &Told) -> bool {
        self.clock != Clock::Paused
            && match told {
                Told::AskAgain { .. } => true,
                Told::Wanted { name, .. } => self.model.locks[*name].left_behind,
                _ => false,
            }
    }

    /// Which of the things still to be told this news must be: the first, or in a server the one of
    /// several leases of a client that an eviction ended, whose order means nothing.
    fn next_of(&self, told: &[Told], news: &News) -> usize {
        let News::Lost { owner: lost, .. } = news else {
            return 0;
        };
        let mut evicted = told.iter();
        let same = |told: &Told| matches!(told, Told::Evicted { owner, .. } if self.owners[*owner] == *lost);
        let position = evicted.position(same).unwrap_or(0);
        let all_evicted = told[..position]
            .iter()
            .all(|told| matches!(told, Told::Evicted { .. }));
        if self.clock == Clock::Moved && all_evicted {
            position
        } else {
            0
        }
    }

    fn same_news(&mut self, expected: Told, news: News) {
        match (expected, news) {
            (Told::AskAgain { name }, News::AskAgain(Some(found))) => {
                assert_eq!(found, self.names[name], "{}", self.step);
            }
            (
                Told::Granted {
                    name,
                    owner,
                    fence,
                    after,
                },
                News::Granted {
                    name: found_name,
                    owner: found_owner,
                    fence: found,
                    after: found_after,
                },
            ) => {
                assert_eq!(found_name, self.names[name], "{}", self.step);
                assert!(found_owner == self.owners[owner], "{}: owner", self.step);
                self.same_fence(name, fence, found);
                self.same_time("after", after, found_after);
            }
            (
                Told::Evicted { name, owner, fence },
                News::Lost {
                    name: found_name,
                    owner: found_owner,
                    fence: found,
                    loss: Loss::Evicted,
                },
            )
            | (
                Told::Wanted { name, owner, fence },
                News::Wanted {
                    name: found_name,
                    owner: found_owner,
                    fence: found,
                },
            ) => {
                assert_eq!(found_name, self.names[name], "{}", self.step);
                assert!(found_owner == self.owners[owner], "{}: owner", self.step);
                self.same_fence(name, fence, found);
            }
            (expected, news) => panic!("{}: told {news:?}, not {expected:?}", self.step),
        }
    }

    /// The list has the model's holders and waiters.
    async fn compare_lists(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let listed = loop {
            let listed = self.list().await;
            // A real store may need a moment to see that a client has ended.
            let agrees = (0..NAMES).all(|name| self.has_as_many(name, &listed));
            if agrees || self.clock != Clock::Real || Instant::now() > deadline {
                break listed;
            }
            sleep(Duration::from_millis(5)).await;
        };
        for name in 0..NAMES {
            let (holders, waiters) = match listed.iter().find(|e| e.name == self.names[name]) {
                Some(entry) => (entry.holders.clone(), entry.waiters.clone()),
                None => Default::default(),
            };
            self.compare_holders(name, &self.model.holders(name), &holders);
            let line = self.model.waiters(name);
            assert_eq!(waiters.len(), line.len(), "{}: {waiters:?}", self.step);
            for (waiter, expected) in waiters.iter().zip(line) {
                let owner = &self.owners[expected.ask.owner];
                assert!(waiter.owner == *owner, "{}: order of waiters", self.step);
                assert_eq!(waiter.mode, expected.ask.mode, "{}", self.step);
                assert_eq!(waiter.about.pid, expected.ask.pid, "{}", self.step);
                self.same_time("waited", self.model.now - expected.since, waiter.waited);
            }
        }
    }

    async fn list(&self) -> Vec<Entry> {
        if self.clock != Clock::Moved {
            let listed = self.clients[0].list(None).await;
            return listed.expect("the store answers");
        }
        // What earlier cases left behind in the same server need not be looked through.
        let mut all = Vec::new();
        for name in &self.names {
            let listed = self.clients[0].list(Some(name)).await;
            all.extend(listed.expect("the store answers"));
        }
        all
    }

    fn has_as_many(&self, name: usize, listed: &[Entry]) -> bool {
        let entry = listed.iter().find(|entry| entry.name == self.names[name]);
        let found = entry.map_or((0, 0), |entry| (entry.holders.len(), entry.waiters.len()));
        let expected = self.model.holders(name).len();
        found == (expected, self.model.waiters(name).len())
    }

    fn compare_holders(&mut self, name: usize, expected: &[Held], found: &[Holder]) {
        assert_eq!(
            found.len(),
            expected.len(),
            "{}: {found:?}, not {expected:?}",
            self.step
        );
        let mut found = found.to_vec();
        if self.clock == Clock::Moved {
            // Two clients of one owner that were let in by one request came at the same
            // microsecond, and neither is older.
            let order = |holder: &Holder| expected.iter().position(|e| e.pid == holder.about.pid);
            for twins in found.chunk_by_mut(|a, b| (a.held, a.fence) == (b.held, b.fence)) {
                twins.sort_by_key(order);
            }
        }
        for (holder, expected) in found.iter().zip(expected) {
            let owner = &self.owners[expected.owner];
            assert!(holder.owner == *owner, "{}: order of holders", self.step);
            assert_eq!(holder.mode, expected.mode, "{}", self.step);
            assert_eq!(holder.depth, expected.depth, "{}", self.step);
            assert_eq!(holder.about.pid, expected.pid, "{}", self.step);
            self.same_fence(name, expected.fence, holder.fence);
            let now = self.model.now;
            // A server knows from its fence since when a lone holder has the name, and fences stay
            // when time is moved.
            if self.clock != Clock::Moved || expected.mode != Mode::Exclusive {
                self.same_time("held", now - expected.since, holder.held);
            }
            self.same_time("expires in", expected.ends - now, holder.expires_in);
        }
    }

    /// Fences need not be the model's numbers, but grow like them and leave as much room.
    fn same_fence(&mut self, name: usize, expected: u64, found: Fence) {
        let known = &mut self.fences[name];
        if let Some(known) = known.get(&expected) {
            assert_eq!(*known, found, "{}: another fence of one grant", self.step);
            return;
        }
        if let Some((before, smaller)) = known.range(..expected).next_back() {
            let room = expected - before;
            assert!(
                found.get() >= smaller.get() + room,
                "{}: {found} after {smaller}, which must leave room for {room}",
                self.step
            );
        }
        if let Some((after, larger)) = known.range(expected..).next() {
            let room = after - expected;
            assert!(
                found.get() + room <= larger.get(),
                "{}: {found} before {larger}",
                self.step
            );
        }
        known.insert(expected, found);
    }

    fn same_time(&self, what: &str, expected: u64, found: Duration) {
        let expected = self.time(expected);
        let slack = match self.clock {
            Clock::Paused => Duration::ZERO,
            Clock::Real | Clock::Moved => ROUGHLY,
        };
        assert!(
            found.abs_diff(expected) <= slack,
            "{}: {what} is {found:?}, not {expected:?}",
            self.step
        );
    }

    fn time(&self, ticks: u64) -> Duration {
        match self.clock {
            Clock::Paused => Duration::from_millis(ticks),
            Clock::Real | Clock::Moved => Duration::from_secs(3600 * ticks),
        }
    }

    /// The model's number of the fence that a request names.
    fn pick(&self, name: usize, pick: Pick) -> Option<u64> {
        let Pick::Ago(ago) = pick else {
            return None;
        };
        self.fences[name].keys().rev().nth(ago).copied()
    }

    fn known(&self, which: &Which) -> Option<Fence> {
        which.fence.map(|fence| self.fences[which.name][&fence])
    }

    fn claim(&self, ask: &Ask) -> Claim {
        Claim {
            name: self.names[ask.name].clone(),
            owner: self.owners[ask.owner].clone(),
            mode: ask.mode,
            ttl: self.time(ask.ttl),
            depth: ask.depth,
            wait: ask.wait,
            life: ask.life,
            fences: ask.fences,
            tell_if_wanted: ask.tells,
            about: About {
                reason: None,
                host: "here".into(),
                pid: ask.pid,
            },
        }
    }
}
