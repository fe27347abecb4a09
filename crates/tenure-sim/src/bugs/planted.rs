//! How each planted bug goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::Fence;
use tenure::driver::{
    Answer, Claim, Life, Loss, Mode, News, Release, Released, Renewal, Renewed, Wait,
};

use super::Bug;
use crate::contract::{Reply, Request};
use crate::store::{Store, fence};

/// The mistake of a run, and what it remembers.
#[derive(Debug)]
pub(crate) struct Planted {
    bug: Option<Bug>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The claims that were asked for, by link and owner.
    claims: BTreeMap<(usize, String), Claim>,
    /// The fences that their grants had.
    fences: BTreeMap<(usize, String), Fence>,
    /// How often claims were granted again.
    again: BTreeMap<(usize, String), u32>,
    /// Leases that were made up.
    phantoms: BTreeSet<u64>,
    /// The last fence of each name.
    last: BTreeMap<String, u64>,
    /// Withdrawals that have not taken effect.
    late: Vec<(usize, Claim)>,
}

impl Planted {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self {
            bug,
            memory: Mutex::default(),
        }
    }

    /// Whether this mistake is switched on.
    pub(crate) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether the store's fences start again when it has lost its data.
    pub(crate) fn forgets_fences(&self) -> bool {
        self.is(Bug::FencesRestart)
    }

    /// Passes news on, or does not.
    pub(crate) fn news(&self, link: usize, news: News) -> Option<News> {
        if let (Some(Bug::ClaimDiesAndIsGranted), News::Granted { owner, fence, .. }) =
            (self.bug, &news)
        {
            let key = (link, owner.as_str().to_owned());
            self.memory().fences.insert(key, *fence);
        }
        match (self.bug, news) {
            (Some(Bug::GrantNotTold), News::Granted { .. })
            | (Some(Bug::EvictionNotTold), News::Lost { .. }) => None,
            (
                Some(Bug::FencesGoBack | Bug::FencesRepeat),
                News::Granted {
                    name,
                    owner,
                    fence,
                    after,
                },
            ) => {
                let key = (link, owner.as_str().to_owned());
                let fence = self.shown(key, name.as_str(), fence);
                Some(News::Granted {
                    name,
                    owner,
                    fence,
                    after,
                })
            }
            (_, news) => Some(news),
        }
    }

    /// Lets the store decide, or decides wrongly.
    pub(crate) fn decide(&self, store: &Store, link: usize, request: &Request) -> Option<Reply> {
        let Some(bug) = self.bug else {
            return store.decide(link, request);
        };
        if bug == Bug::LeaseNeverExpires {
            self.renew_all(store);
        }
        match request {
            Request::Acquire(claim) => self.acquire(bug, store, link, claim),
            Request::Withdraw(claim) => self.withdraw(bug, store, link, claim),
            Request::Renew(renewals) => {
                let one = |renewal: &Renewal| self.renew(bug, store, link, renewal);
                let all: Option<Vec<_>> = renewals.iter().map(one).collect();
                Some(Reply::Renewed(Ok(all?)))
            }
            Request::Release(release) => self.release(bug, store, link, release),
            Request::List(_) | Request::Evict(_) => store.decide(link, request),
        }
    }

    fn acquire(&self, bug: Bug, store: &Store, link: usize, claim: &Claim) -> Option<Reply> {
        let mut asked = claim.clone();
        match (bug, &mut asked.mode) {
            (Bug::PermitTooMany, Mode::Permits { of, .. }) => *of += 1,
            (Bug::LeaseShorterThanTold, _) => asked.ttl /= 2,
            _ => {}
        }
        let reply = store.decide(link, &Request::Acquire(asked))?;
        let Reply::Acquired(Ok(answer)) = reply else {
            return Some(reply);
        };
        let key = (link, claim.owner.as_str().to_owned());
        let mut memory = self.memory();
        let before = memory.fences.get(&key).copied();
        memory.claims.insert(key.clone(), claim.clone());
        if let Answer::Granted(fence) = answer {
            memory.fences.insert(key.clone(), fence);
            if before == Some(fence) {
                *memory.again.entry(key.clone()).or_default() += 1;
            }
        }
        drop(memory);
        let is_taken = !matches!(answer, Answer::Granted(_));
        let answer = match (bug, answer) {
            (Bug::FencesGoBack | Bug::FencesRepeat, Answer::Granted(fence)) => {
                Answer::Granted(self.shown(key, claim.name.as_str(), fence))
            }
            (Bug::ClaimDiesAndIsGranted, _) if is_taken && before.is_some() => {
                Answer::Granted(before?)
            }
            (Bug::SharedBesideExclusive, _) if is_taken && claim.mode == Mode::Shared => {
                self.made_up(store, link, claim)
            }
            (Bug::TryAlwaysWins, Answer::Busy) => self.made_up(store, link, claim),
            (Bug::NoPlaceInLine, Answer::Queued { .. }) => {
                store.decide(link, &Request::Withdraw(claim.clone()));
                answer
            }
            (Bug::NewestFirst, Answer::Queued { .. }) => {
                self.move_back(store, claim);
                answer
            }
            (_, answer) => answer,
        };
        Some(Reply::Acquired(Ok(answer)))
    }

    fn withdraw(&self, bug: Bug, store: &Store, link: usize, claim: &Claim) -> Option<Reply> {
        match bug {
            Bug::WithdrawalSwallowed => return Some(Reply::Withdrawn(Ok(()))),
            Bug::WithdrawalLate => {
                let late = std::mem::take(&mut self.memory().late);
                for (link, claim) in late {
                    store.decide(link, &Request::Withdraw(claim));
                }
                self.memory().late.push((link, claim.clone()));
                return Some(Reply::Withdrawn(Ok(())));
            }
            Bug::WithdrawalFreesHolder => free(store, claim.name.as_str(), Some(link)),
            _ => {}
        }
        store.decide(link, &Request::Withdraw(claim.clone()))
    }

    fn renew(&self, bug: Bug, store: &Store, link: usize, renewal: &Renewal) -> Option<Renewed> {
        let told = renewal.fence;
        if told.is_some_and(|fence| self.memory().phantoms.contains(&fence.get())) {
            return told.map(Renewed::Kept);
        }
        let mut asked = renewal.clone();
        match bug {
            Bug::RenewalShortens => asked.ttl /= 10,
            Bug::LeaseShorterThanTold => asked.ttl /= 2,
            Bug::FencesGoBack | Bug::FencesRepeat => asked.fence = None,
            _ => {}
        }
        let Reply::Renewed(Ok(renewed)) = store.decide(link, &Request::Renew(vec![asked]))? else {
            return None;
        };
        let renewed = renewed.first().copied()?;
        Some(match (bug, renewed, told) {
            (Bug::RenewalOfNobody, Renewed::Lost(_), Some(told)) => Renewed::Kept(told),
            (Bug::RenewalRecreates, Renewed::Lost(loss), Some(told)) => {
                self.recreate(store, link, renewal, told, loss)
            }
            (Bug::FencesGoBack | Bug::FencesRepeat, Renewed::Kept(_), Some(told)) => {
                Renewed::Kept(told)
            }
            _ => renewed,
        })
    }

    fn release(&self, bug: Bug, store: &Store, link: usize, release: &Release) -> Option<Reply> {
        let told = release.fence.map_or(0, Fence::get);
        let freed = |released| Some(Reply::Released(Ok(released)));
        if self.memory().phantoms.remove(&told) {
            return freed(Released::Freed);
        }
        let key = (link, release.owner.as_str().to_owned());
        let mut asked = release.clone();
        match bug {
            Bug::ReleaseSwallowed => return freed(Released::Freed),
            Bug::DuplicateCounts => {
                let mut memory = self.memory();
                if let Some(again) = memory.again.get_mut(&key).filter(|again| **again > 0) {
                    *again -= 1;
                    return freed(Released::Freed);
                }
            }
            Bug::AtLeastIgnored => asked.stays_taken = Duration::ZERO,
            Bug::ReleaseByOwnerOnly | Bug::FencesGoBack | Bug::FencesRepeat => asked.fence = None,
            Bug::ReleaseFreesName => free(store, release.name.as_str(), None),
            Bug::ReadersFreeEachOther => {
                let mode = self.memory().claims.get(&key).map(|claim| claim.mode);
                if mode == Some(Mode::Shared) {
                    free(store, release.name.as_str(), None);
                }
            }
            _ => {}
        }
        let reply = store.decide(link, &Request::Release(asked))?;
        match (bug, &reply) {
            (Bug::ReleaseFreesNext, Reply::Released(Ok(Released::NotHeld(Loss::TakenOver)))) => {
                free(store, release.name.as_str(), None);
            }
            (
                Bug::ReleaseLies | Bug::ReleaseFreesName | Bug::ReadersFreeEachOther,
                Reply::Released(Ok(Released::NotHeld(_))),
            ) => return freed(Released::Freed),
            _ => {}
        }
        Some(reply)
    }

    /// Grants a lease that is not in the store.
    fn made_up(&self, store: &Store, link: usize, claim: &Claim) -> Answer {
        store.decide(link, &Request::Withdraw(claim.clone()));
        let number = store.watermark();
        self.memory().phantoms.insert(number);
        Answer::Granted(fence(number))
    }

    /// The fence that a client is shown instead of the store's.
    fn shown(&self, key: (usize, String), name: &str, granted: Fence) -> Fence {
        let mut memory = self.memory();
        if self.is(Bug::FencesGoBack) {
            return fence(1_000_000_u64.saturating_sub(granted.get()));
        }
        // Asking again shows the same fence again.
        if memory.fences.get(&key) == Some(&granted)
            && let Some(shown) = memory.last.get(&format!("{} {}", key.0, key.1))
        {
            return fence(*shown);
        }
        let number = granted.get();
        let last = memory.last.get(name).copied().unwrap_or(number);
        // Every second grant repeats the fence of the one before.
        memory.last.insert(name.to_owned(), number);
        let shown = if number.is_multiple_of(2) {
            last
        } else {
            number
        };
        memory.last.insert(format!("{} {}", key.0, key.1), shown);
        memory.fences.insert(key, granted);
        fence(shown)
    }

    /// Grants an ended lease anew, and says that it went on.
    fn recreate(
        &self,
        store: &Store,
        link: usize,
        renewal: &Renewal,
        told: Fence,
        loss: Loss,
    ) -> Renewed {
        let key = (link, renewal.owner.as_str().to_owned());
        let claim = self.memory().claims.get(&key).cloned();
        let Some(claim) = claim else {
            return Renewed::Lost(loss);
        };
        let claim = Claim {
            wait: Wait::No,
            ..claim
        };
        match store.decide(link, &Request::Acquire(claim)) {
            Some(Reply::Acquired(Ok(Answer::Granted(_)))) => Renewed::Kept(told),
            _ => Renewed::Lost(loss),
        }
    }

    /// Sends everybody who waits for a name behind a newcomer.
    fn move_back(&self, store: &Store, newcomer: &Claim) {
        let waiters = || {
            let entries = store.look(Some(&newcomer.name)).into_iter();
            entries.flat_map(|entry| entry.waiters).collect::<Vec<_>>()
        };
        let memory = self.memory();
        for waiter in waiters() {
            let owner = waiter.owner.as_str();
            // Whoever went in meanwhile stands in line no more.
            let waits = waiters().iter().any(|it| it.owner == waiter.owner);
            if waiter.owner == newcomer.owner || !waits {
                continue;
            }
            let mut claims = memory.claims.iter();
            let found =
                claims.find(|((_, known), claim)| known == owner && claim.name == newcomer.name);
            if let Some(((link, _), claim)) = found {
                store.decide(*link, &Request::Withdraw(claim.clone()));
                store.decide(*link, &Request::Acquire(claim.clone()));
            }
        }
    }

    /// Renews every lease that anybody has.
    fn renew_all(&self, store: &Store) {
        for ((link, _), claim) in &self.memory().claims {
            let renewal = Renewal {
                name: claim.name.clone(),
                owner: claim.owner.clone(),
                fence: None,
                life: claim.life,
                ttl: Duration::from_secs(10_000),
            };
            store.decide(*link, &Request::Renew(vec![renewal]));
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Frees a name from its holders: from all of them, or from those of one client.
fn free(store: &Store, name: &str, only: Option<usize>) {
    let holders = store
        .look(None)
        .into_iter()
        .filter(|entry| entry.name.as_str() == name);
    for entry in holders {
        for holder in &entry.holders {
            let release = |life| {
                Request::Release(Release {
                    name: entry.name.clone(),
                    owner: holder.owner.clone(),
                    fence: None,
                    life,
                    depth: 0,
                    stays_taken: Duration::ZERO,
                })
            };
            match only {
                Some(link) => drop(store.decide(link, &release(Life::Client))),
                None => {
                    store.decide_for_all(|| release(Life::Client));
                    store.decide_for_all(|| release(Life::Ttl));
                }
            }
        }
    }
}
