//! Sends requests to a store and to the model, whose answers must be the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::driver::{About, Answer, Claim, Driver, Life, Release, Released, Renewal, Renewed};
use tenure::{ClaimId, Error, Fence, Name, Owner};
use tokio::time::advance;

use crate::model::{Ends, Given, Model, Said, Told, Which};
use crate::steps::{By, CLIENTS, Case, Clock, NAMES, Named, OWNERS, Pick, Step, Target};

/// A store, and what else the steps need from it.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    /// Opens another client of the store.
    async fn client(&self) -> Arc<dyn Driver>;

    /// Lets time pass.
    async fn pass(&self, time: Duration) {
        advance(time).await;
    }

    /// Waits until the store knows that all but this many clients have ended, if it ever does.
    async fn is_left_with(&self, _clients: usize) {}

    /// Returns what the store does when a client ends.
    fn ends(&self) -> Ends {
        Ends::Seen
    }
}

/// Runs a case on a store and on the model, and fails where they differ.
///
/// With [`Clock::Paused`] the runtime's time must be paused and the store must use it.
pub(crate) async fn agrees_with_the_model(subject: &dyn Subject, clock: Clock, case: &Case) {
    let mut run = Run::start(subject, clock, case).await;
    let mut done: Vec<Request> = Vec::new();
    for step in &case.steps {
        let request = match step {
            Step::Repeat { back } => done.iter().rev().nth(back - 1).cloned(),
            step => run.request(step),
        };
        let Some(request) = request.filter(|request| run.is_possible(request)) else {
            continue;
        };
        run.note(&request);
        run.take(&request).await;
        if clock == Clock::Moved {
            run.hear().await;
        }
        run.compare_news().await;
        run.compare_lists().await;
        run.model.check();
        if !matches!(request, Request::Advance(_) | Request::End { .. }) {
            done.push(request);
        }
    }
}

/// A step with a specific claim, client and fence.
#[derive(Debug, Clone)]
enum Request {
    Acquire(usize),
    Advance(u64),
    End { client: usize },
    Evict { client: usize, name: usize },
    Release { which: Which, stays: u64 },
    Renew(Vec<(Which, u64)>),
    Withdraw { claim: usize, client: usize },
}

pub(crate) struct Run<'a> {
    pub(crate) subject: &'a dyn Subject,
    pub(crate) clock: Clock,
    pub(crate) model: Model,
    pub(crate) names: Vec<Name>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) clients: Vec<Arc<dyn Driver>>,
    /// The id of each of the model's claims.
    pub(crate) ids: Vec<ClaimId>,
    /// Whether the client of a claim has ended, so that nobody asks for it any more.
    is_gone: Vec<bool>,
    /// The last fence that a claim was granted, as the model counts them.
    granted: BTreeMap<usize, u64>,
    /// The store's fence for each of the model's, by name.
    pub(crate) fences: Vec<BTreeMap<u64, Fence>>,
    /// What has happened so far, for the message of a failure.
    pub(crate) so_far: String,
}

impl<'a> Run<'a> {
    async fn start(subject: &'a dyn Subject, clock: Clock, case: &Case) -> Self {
        // Unique, so that cases can share one store.
        let base = Owner::unique();
        let name = |number| Name::new(&format!("properties/{base}/{number}"));
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(subject.client().await);
        }
        let claims = case.claims.clone();
        Self {
            subject,
            clock,
            names: (0..NAMES).map(|n| name(n).expect("valid")).collect(),
            owners: (0..OWNERS).map(|_| Owner::unique()).collect(),
            clients,
            ids: claims.iter().map(|_| ClaimId::unique()).collect(),
            is_gone: vec![false; claims.len()],
            granted: BTreeMap::new(),
            fences: vec![BTreeMap::new(); NAMES],
            so_far: String::new(),
            model: Model::new(claims, NAMES, CLIENTS, subject.ends()),
        }
    }

    /// Returns the request of a step at this point.
    fn request(&self, step: &Step) -> Option<Request> {
        Some(match step {
            Step::Acquire(number) => Request::Acquire(self.claim_of(*number)),
            // Time passes by itself.
            Step::Advance(_) if self.clock == Clock::Real => return None,
            Step::Advance(ticks) => Request::Advance(*ticks),
            Step::End { client } => Request::End { client: *client },
            Step::Evict { client, name } => Request::Evict {
                client: *client,
                name: *name,
            },
            Step::Release { target, stays } => Request::Release {
                which: self.which(target),
                stays: *stays,
            },
            Step::Renew(targets) => Request::Renew(self.renewals(targets)),
            Step::Repeat { .. } => return None,
            Step::Withdraw { claim, by } => {
                let claim = self.claim_of(*claim);
                let client = self.client_of(claim, *by);
                Request::Withdraw { claim, client }
            }
        })
    }

    fn renewals(&self, targets: &[(Target, u64)]) -> Vec<(Which, u64)> {
        let renewals = targets.iter();
        let mut renewals: Vec<_> = renewals
            .map(|(target, ttl)| (self.which(target), *ttl))
            .collect();
        let client = renewals[0].0.client;
        for (which, _) in &mut renewals {
            which.client = client;
        }
        if self.clock == Clock::Moved {
            // A server may handle one lease of a request before another, so a lease that is named
            // twice may get the time of either.
            let mut seen = Vec::new();
            renewals.retain(|(which, _)| {
                let is_new = !seen.contains(&which.claim);
                seen.push(which.claim);
                is_new
            });
        }
        renewals
    }

    fn which(&self, target: &Target) -> Which {
        let claim = self.claim_of(target.claim);
        let ask = &self.model.claims[claim];
        let life = match (target.life, ask.life) {
            (Named::Right, life) => life,
            (Named::Wrong, Life::Client) => Life::Ttl,
            (Named::Wrong, _) => Life::Client,
        };
        let fence = match target.fence {
            Pick::Any => None,
            Pick::Own => self.granted.get(&claim).copied(),
            Pick::Ago(ago) => self.fences[ask.name].keys().rev().nth(ago).copied(),
        };
        Which {
            claim,
            client: self.client_of(claim, target.by),
            life,
            fence,
        }
    }

    fn claim_of(&self, number: usize) -> usize {
        number % self.model.claims.len()
    }

    fn client_of(&self, claim: usize, by: By) -> usize {
        match by {
            By::Itself => self.model.claims[claim].client,
            By::Client(client) => client,
        }
    }

    /// Returns whether somebody can send it: only its own client asks for a claim.
    fn is_possible(&self, request: &Request) -> bool {
        !matches!(request, Request::Acquire(claim) if self.is_gone[*claim])
    }

    fn note(&mut self, request: &Request) {
        use std::fmt::Write;
        let claims = match request {
            Request::Acquire(claim) | Request::Withdraw { claim, .. } => vec![*claim],
            Request::Release { which, .. } => vec![which.claim],
            Request::Renew(renewals) => renewals.iter().map(|(which, _)| which.claim).collect(),
            Request::Advance(_) | Request::End { .. } | Request::Evict { .. } => Vec::new(),
        };
        for claim in claims {
            let line = format!("claim {claim}: {:?}\n", self.model.claims[claim]);
            if !self.so_far.contains(&line) {
                self.so_far.push_str(&line);
            }
        }
        writeln!(self.so_far, "  {request:?}").expect("a text can be written");
    }

    async fn take(&mut self, request: &Request) {
        match request {
            Request::Acquire(claim) => self.acquire(*claim).await,
            Request::Advance(ticks) => {
                self.model.now += *ticks;
                self.subject.pass(self.time(*ticks)).await;
            }
            Request::End { client } => self.end(*client).await,
            Request::Evict { client, name } => {
                let expected = self.model.evict(*name);
                let evicted = self.clients[*client].evict(&self.names[*name]).await;
                self.compare_holders(*name, &expected, &evicted.expect("the store answers"));
            }
            Request::Release { which, stays } => self.release(which, *stays).await,
            Request::Renew(renewals) => self.renew(renewals).await,
            Request::Withdraw { claim, client } => {
                self.model.withdraw(*claim, *client);
                let withdrawn = self.clients[*client].withdraw(&self.claim(*claim)).await;
                withdrawn.expect("the store answers");
            }
        }
    }

    async fn acquire(&mut self, claim: usize) {
        let waited = self.model.waits(claim);
        let expected = self.model.acquire(claim);
        let (name, client) = (
            self.model.claims[claim].name,
            self.model.claims[claim].client,
        );
        if self.clock == Clock::Moved && waited && matches!(expected, Said::Granted(_)) {
            // Its turn came with this request: the reply says so, and there is no message in
            // addition.
            let answered =
                |told: &Told| matches!(told, Told::Granted { claim: told, .. } if *told == claim);
            self.model.told[client].retain(|told| !answered(told));
        }
        let answer = self.clients[client].acquire(&self.claim(claim)).await;
        match (expected, answer) {
            (Said::Busy, Ok(Answer::Busy)) => {}
            (Said::Conflict, Err(Error::ModeConflict { name: found })) => {
                assert_eq!(found, self.names[name], "{}", self.so_far);
            }
            (Said::Granted(given), Ok(Answer::Granted(found))) => {
                self.same_grant(claim, given, found);
            }
            (Said::Queued { ask_again }, Ok(Answer::Queued { ask_again: found })) => {
                let found = found.expect("the store names a time");
                self.same_time("ask again", ask_again, found);
            }
            (expected, answer) => panic!("{}: {answer:?}, not {expected:?}", self.so_far),
        }
    }

    async fn release(&mut self, which: &Which, stays: u64) {
        let expected = match self.model.release(which, stays) {
            Ok(left) => Released::Freed { left },
            Err(loss) => Released::NotHeld(loss),
        };
        let release = Release::new(
            self.name(which.claim).clone(),
            self.ids[which.claim].clone(),
            which.life,
        )
        .with_fence(self.known(which))
        .with_stays_taken(self.time(stays));
        let released = self.clients[which.client].release(&release).await;
        let released = released.expect("the store answers");
        assert_eq!(released, expected, "{}", self.so_far);
    }

    async fn renew(&mut self, renewals: &[(Which, u64)]) {
        let mut asked = Vec::new();
        let mut expected = Vec::new();
        for (which, ttl) in renewals {
            asked.push(
                Renewal::new(
                    self.name(which.claim).clone(),
                    self.ids[which.claim].clone(),
                    which.life,
                    self.time(*ttl),
                )
                .with_fence(self.known(which)),
            );
            expected.push(self.model.renew(which, *ttl));
        }
        let client = &self.clients[renewals[0].0.client];
        let answers = client.renew(&asked).await.expect("the store answers");
        assert_eq!(answers.len(), expected.len(), "{}", self.so_far);
        for ((answer, expected), (which, ttl)) in answers.iter().zip(expected).zip(renewals) {
            match (answer, expected) {
                (
                    Renewed::Extended {
                        fence: found,
                        valid,
                    },
                    Ok(fence),
                ) => {
                    self.same_fence(self.model.claims[which.claim].name, fence, *found);
                    assert_eq!(*valid, self.time(*ttl), "{}", self.so_far);
                }
                (Renewed::Lost(found), Err(loss)) if *found == loss => {}
                (answer, expected) => panic!("{}: {answer:?}, not {expected:?}", self.so_far),
            }
        }
    }

    /// Ends a client. The one that takes its number asks for its own claims.
    async fn end(&mut self, client: usize) {
        self.model.end(client);
        for claim in 0..self.model.claims.len() {
            if self.model.claims[claim].client == client && !self.is_gone[claim] {
                self.is_gone[claim] = true;
                self.is_gone.push(false);
                self.model.claims.push(self.model.claims[claim].clone());
                self.ids.push(ClaimId::unique());
            }
        }
        self.clients[client] = self.subject.client().await;
        self.subject.is_left_with(CLIENTS).await;
    }

    /// Makes each client send a request. What the store sent to it arrives before the reply, so
    /// news that is not there by then will not arrive.
    async fn hear(&self) {
        for client in &self.clients {
            let listed = client.list(Some(&self.names[0])).await;
            listed.expect("the store answers");
        }
    }

    /// Compares a grant, and remembers its fence.
    pub(crate) fn same_grant(&mut self, claim: usize, given: Given, found: tenure::driver::Grant) {
        self.same_fence(self.model.claims[claim].name, given.fence, found.fence);
        assert_eq!(found.fences, given.fences, "{}: fences", self.so_far);
        assert_eq!(found.valid, self.time(given.valid), "{}", self.so_far);
        self.granted.insert(claim, given.fence);
    }

    pub(crate) fn time(&self, ticks: u64) -> Duration {
        match self.clock {
            Clock::Paused => Duration::from_millis(ticks),
            Clock::Real | Clock::Moved => Duration::from_secs(3600 * ticks),
        }
    }

    pub(crate) fn name(&self, claim: usize) -> &Name {
        &self.names[self.model.claims[claim].name]
    }

    /// Returns the store's fence that a request names.
    fn known(&self, which: &Which) -> Option<Fence> {
        let name = self.model.claims[which.claim].name;
        which.fence.map(|fence| self.fences[name][&fence])
    }

    fn claim(&self, claim: usize) -> Claim {
        let ask = &self.model.claims[claim];
        let made = Claim::new(self.names[ask.name].clone(), self.time(ask.ttl))
            .with_id(self.ids[claim].clone())
            .with_owner(ask.owner.map(|owner| self.owners[owner].clone()))
            .with_mode(ask.mode)
            .with_wait(ask.wait)
            .with_life(ask.life)
            .with_fences(ask.fences)
            .with_about(About::new("here", pid(claim)));
        if ask.tells {
            made.told_if_wanted()
        } else {
            made
        }
    }
}

/// Returns a process id that distinguishes claims for people who look at the lock.
pub(crate) fn pid(claim: usize) -> u32 {
    u32::try_from(claim).expect("few claims") + 1
}
