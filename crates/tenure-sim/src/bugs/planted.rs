//! The implementation of each planted bug.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::driver::{
    Answer, Claim, Grant, Life, Loss, Mode, News, Release, Released, Renewal, Renewed, Wait,
};
use tenure::{ClaimId, Fence};

use super::Bug;
use crate::contract::{Reply, Request};
use crate::generate::Stores;
use crate::store::{Store, fence};

/// The mistake of a run, and its state.
#[derive(Debug)]
pub(crate) struct Planted {
    bug: Option<Bug>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The requested claims, and their links.
    claims: BTreeMap<ClaimId, (usize, Claim)>,
    /// Their grants.
    grants: BTreeMap<ClaimId, Grant>,
    /// How often claims were granted again.
    again: BTreeMap<ClaimId, u32>,
    /// Fences of leases that do not exist in the store.
    phantoms: BTreeSet<u64>,
    /// The last fence of each name.
    last: BTreeMap<String, u64>,
    /// The fence that a claim was shown.
    shown: BTreeMap<ClaimId, u64>,
    /// The claim whose lease another one shares.
    shares: BTreeMap<ClaimId, ClaimId>,
    /// Withdrawals that have not taken effect yet.
    late: Vec<(usize, Claim)>,
}

impl Planted {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self {
            bug,
            memory: Mutex::default(),
        }
    }

    /// Returns whether this mistake is switched on.
    pub(crate) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns whether the store's fences start again when it has lost its data.
    pub(crate) fn forgets_fences(&self) -> bool {
        self.is(Bug::FencesRestart)
    }

    /// Passes news on, or loses it.
    pub(crate) fn news(&self, news: News) -> Option<News> {
        if let (Some(Bug::ClaimDiesAndIsGranted), News::Granted { claim, grant, .. }) =
            (self.bug, &news)
        {
            self.memory().grants.insert(claim.clone(), *grant);
        }
        match (self.bug, news) {
            (Some(Bug::GrantNotTold), News::Granted { .. })
            | (Some(Bug::EvictionNotTold), News::Lost { .. }) => None,
            (
                Some(Bug::FencesGoBack | Bug::FencesRepeat),
                News::Granted {
                    name,
                    claim,
                    grant,
                    after,
                },
            ) => {
                let grant = self.shown(&claim, name.as_str(), grant);
                Some(News::Granted {
                    name,
                    claim,
                    grant,
                    after,
                })
            }
            (_, news) => Some(news),
        }
    }

    /// Has the store decide, or decides wrongly.
    pub(crate) fn decide(&self, store: &Store, link: usize, request: &Request) -> Option<Reply> {
        let Some(bug) = self.bug else {
            return store.decide(link, request);
        };
        if bug.stores() == Stores::Redlock {
            return self.decide_vote(store, link, request);
        }
        if bug.stores() == Stores::Sql {
            return self.decide_statement(store, link, request);
        }
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
            _ => store.decide(link, request),
        }
    }

    fn acquire(&self, bug: Bug, store: &Store, link: usize, claim: &Claim) -> Option<Reply> {
        let mut asked = claim.clone();
        match (bug, &mut asked.mode) {
            (Bug::PermitTooMany, Mode::Permits { of, .. }) => *of += 1,
            (Bug::LeaseShorterThanTold, _) => asked.ttl /= 2,
            _ => {}
        }
        if bug == Bug::OwnerSharesOneLease
            && let Some(grant) = self.share(store, link, claim)
        {
            return Some(Reply::Acquired(Ok(Answer::Granted(grant))));
        }
        let reply = store.decide(link, &Request::Acquire(asked))?;
        let Reply::Acquired(Ok(answer)) = reply else {
            return Some(reply);
        };
        let mut memory = self.memory();
        let before = memory.grants.get(&claim.id).copied();
        memory
            .claims
            .insert(claim.id.clone(), (link, claim.clone()));
        if let Answer::Granted(grant) = answer {
            memory.grants.insert(claim.id.clone(), grant);
            if before.is_some_and(|before| before.fence == grant.fence) {
                *memory.again.entry(claim.id.clone()).or_default() += 1;
            }
        }
        drop(memory);
        let is_taken = !matches!(answer, Answer::Granted(_));
        let answer = match (bug, answer) {
            (Bug::FencesGoBack | Bug::FencesRepeat, Answer::Granted(grant)) => {
                Answer::Granted(self.shown(&claim.id, claim.name.as_str(), grant))
            }
            (Bug::LeaseShorterThanTold, Answer::Granted(grant)) => {
                Answer::Granted(valid(grant, claim.ttl))
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
            Bug::WithdrawalByOwner => self.end_all_of_its_owner(store, link, claim),
            _ => {}
        }
        store.decide(link, &Request::Withdraw(claim.clone()))
    }

    fn renew(&self, bug: Bug, store: &Store, link: usize, renewal: &Renewal) -> Option<Renewed> {
        let told = renewal.fence;
        let valid = renewal.ttl;
        let kept = |fence| Renewed::Extended { fence, valid };
        if told.is_some_and(|fence| self.memory().phantoms.contains(&fence.get())) {
            return told.map(kept);
        }
        let mut asked = renewal.clone();
        asked.claim = self.lease_of(&asked.claim);
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
            (Bug::RenewalRecreates, Renewed::Lost(loss), Some(told)) => {
                self.recreate(store, link, renewal, kept(told), loss)
            }
            (Bug::RenewalOfNobody, Renewed::Lost(_), Some(told))
            | (
                Bug::FencesGoBack
                | Bug::FencesRepeat
                | Bug::LeaseShorterThanTold
                | Bug::RenewalShortens,
                Renewed::Extended { .. },
                Some(told),
            ) => kept(told),
            _ => renewed,
        })
    }

    fn release(&self, bug: Bug, store: &Store, link: usize, release: &Release) -> Option<Reply> {
        let told = release.fence.map_or(0, Fence::get);
        let freed = || Some(Reply::Released(Ok(Released::Freed { left: 0 })));
        if self.memory().phantoms.remove(&told) {
            return freed();
        }
        let claim = self.memory().claims.get(&release.claim).cloned();
        let claim = claim.map(|(_, claim)| claim);
        let mut asked = release.clone();
        asked.claim = self.lease_of(&asked.claim);
        match bug {
            Bug::ReleaseSwallowed => return freed(),
            Bug::DuplicateCounts => {
                let mut memory = self.memory();
                let again = memory.again.get_mut(&release.claim);
                if let Some(again) = again.filter(|again| **again > 0) {
                    *again -= 1;
                    return freed();
                }
            }
            Bug::AtLeastIgnored => asked.stays_taken = Duration::ZERO,
            Bug::ReleaseByOwner => {
                if let Some(claim) = &claim {
                    self.end_all_of_its_owner(store, link, claim);
                    return freed();
                }
            }
            Bug::FencesGoBack | Bug::FencesRepeat => asked.fence = None,
            Bug::ReleaseFreesName => free(store, release.name.as_str(), None),
            Bug::ReadersFreeEachOther if claim.is_some_and(|claim| claim.mode == Mode::Shared) => {
                free(store, release.name.as_str(), None);
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
            ) => return freed(),
            _ => {}
        }
        Some(reply)
    }

    /// Grants a lease that is not in the store.
    fn made_up(&self, store: &Store, link: usize, claim: &Claim) -> Answer {
        store.decide(link, &Request::Withdraw(claim.clone()));
        let number = store.watermark();
        self.memory().phantoms.insert(number);
        Answer::Granted(Grant::new(fence(number), claim.ttl))
    }

    /// Returns the grant of another claim of the same owner and client, which this claim shares
    /// instead of getting its own.
    fn share(&self, store: &Store, link: usize, claim: &Claim) -> Option<Grant> {
        let owner = claim.owner.as_ref()?;
        let mut memory = self.memory();
        let held = store.look(Some(&claim.name)).into_iter();
        let held = held.flat_map(|entry| entry.holders);
        let is_theirs = |id: &ClaimId| {
            let known = memory.claims.get(id);
            known.is_some_and(|(of, known)| *of == link && known.owner.as_ref() == Some(owner))
        };
        let mut theirs = held.filter(|holder| holder.claim != claim.id);
        let first = theirs.find(|holder| is_theirs(&holder.claim))?;
        memory.shares.insert(claim.id.clone(), first.claim.clone());
        Some(Grant::new(first.fence, first.expires_in))
    }

    /// Returns the claim whose lease this one has.
    fn lease_of(&self, claim: &ClaimId) -> ClaimId {
        let memory = self.memory();
        memory.shares.get(claim).unwrap_or(claim).clone()
    }

    /// Withdraws all claims of one owner in one client, as if the owner were the identity of a
    /// request.
    fn end_all_of_its_owner(&self, store: &Store, link: usize, claim: &Claim) {
        let memory = self.memory();
        let all = memory.claims.values().filter(|(of, other)| {
            let same =
                other.id == claim.id || (other.owner == claim.owner && other.owner.is_some());
            *of == link && same && other.name == claim.name
        });
        for (_, other) in all {
            store.decide(link, &Request::Withdraw(other.clone()));
        }
    }

    /// Returns the grant with the fence that the client is shown instead of the store's.
    fn shown(&self, claim: &ClaimId, name: &str, granted: Grant) -> Grant {
        let number = self.shown_number(claim, name, granted.fence.get());
        Grant::new(fence(number), granted.valid).with_fences(granted.fences)
    }

    fn shown_number(&self, claim: &ClaimId, name: &str, number: u64) -> u64 {
        let mut memory = self.memory();
        if self.is(Bug::FencesGoBack) {
            return 1_000_000_u64.saturating_sub(number);
        }
        // Asking again shows the same fence again.
        if let Some(shown) = memory.shown.get(claim) {
            return *shown;
        }
        let last = memory.last.get(name).copied().unwrap_or(number);
        // Every second grant repeats the previous fence.
        memory.last.insert(name.to_owned(), number);
        let shown = if number.is_multiple_of(2) {
            last
        } else {
            number
        };
        memory.shown.insert(claim.clone(), shown);
        shown
    }

    /// Grants an expired lease again, and reports that it continued.
    fn recreate(
        &self,
        store: &Store,
        link: usize,
        renewal: &Renewal,
        kept: Renewed,
        loss: Loss,
    ) -> Renewed {
        let claim = self.memory().claims.get(&renewal.claim).cloned();
        let Some((_, claim)) = claim else {
            return Renewed::Lost(loss);
        };
        let claim = claim.with_wait(Wait::No);
        match store.decide(link, &Request::Acquire(claim)) {
            Some(Reply::Acquired(Ok(Answer::Granted(_)))) => kept,
            _ => Renewed::Lost(loss),
        }
    }

    /// Moves all waiters of a name behind a newcomer.
    fn move_back(&self, store: &Store, newcomer: &Claim) {
        let waiters = || {
            let entries = store.look(Some(&newcomer.name)).into_iter();
            entries.flat_map(|entry| entry.waiters).collect::<Vec<_>>()
        };
        let memory = self.memory();
        for waiter in waiters() {
            // A waiter that was granted the lock meanwhile is no longer in line.
            let waits = waiters().iter().any(|it| it.claim == waiter.claim);
            if waiter.claim == newcomer.id || !waits {
                continue;
            }
            if let Some((link, claim)) = memory.claims.get(&waiter.claim) {
                store.decide(*link, &Request::Withdraw(claim.clone()));
                store.decide(*link, &Request::Acquire(claim.clone()));
            }
        }
    }

    /// Renews every lease of every client.
    fn renew_all(&self, store: &Store) {
        for (link, claim) in self.memory().claims.values() {
            let renewal = Renewal::new(
                claim.name.clone(),
                claim.id.clone(),
                claim.life,
                Duration::from_secs(10_000),
            );
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
                Request::Release(Release::new(entry.name.clone(), holder.claim.clone(), life))
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

/// Returns the same grant with this validity.
fn valid(grant: Grant, valid: Duration) -> Grant {
    Grant::new(grant.fence, valid).with_fences(grant.fences)
}
