//! Puts requests to a store and to the model, whose answers must be the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::{About, Answer, Claim, Driver, Release, Released, Renewal, Renewed, Wait};
use tenure::{Error, Fence, Name, Owner};
use tokio::time::advance;

use crate::model::{Ask, Ends, LetGo, Model, Said, Told, Which};
use crate::steps::{CLIENTS, Clock, NAMES, OWNERS, Pick, Step};

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

pub(crate) struct Run<'a> {
    pub(crate) fixture: &'a dyn Subject,
    pub(crate) clock: Clock,
    pub(crate) model: Model,
    pub(crate) names: Vec<Name>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) clients: Vec<Arc<dyn Driver>>,
    /// The store's fence for each of the model's, by name.
    pub(crate) fences: Vec<BTreeMap<u64, Fence>>,
    pub(crate) step: String,
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
        let stood_for_it = self.model.stands_for(ask);
        let expected = self.model.acquire(ask);
        if self.clock == Clock::Moved
            && ask.wait == Wait::InLine
            && stood_for_it
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
    pub(crate) fn time(&self, ticks: u64) -> Duration {
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
