//! The contract between the engine and a store; read this first to add a store.
//!
//! A driver asks its store to decide, and passes on the store's answer. Waiting, renewal, loss,
//! cancellation, release on drop, retries and metrics are implemented once, in the engine.

mod answer;
mod listing;
mod proof;
mod request;

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::name::{Fence, Name};

pub use answer::{Answer, Grant, Loss, News, Released, Renewed};
pub use listing::{Entry, Holder, Waiter};
pub use proof::{NodeProof, NodeWriter, Proof, RowKey, RowProof};
pub use request::{About, Claim, Life, Mode, Release, Renewal, Wait};

/// Grants, renews and takes back leases in one store.
///
/// Backends implement this trait; programs call [`Client`](crate::Client), which adds waiting,
/// renewal and release on drop. The trait holds only what differs between stores.
///
/// # Contract
///
/// - **One decision.** The store decides each request atomically, by its own clock. Clients never
///   send their wall clock time.
/// - **Exclusion.** While a lease runs, no other owner is granted the same name in a mode that
///   conflicts ([`Mode`]).
/// - **One id per claim.** Every request names the [id](Claim::id) of its claim, and affects only
///   that claim, even if the request is repeated, reordered with other requests, or arrives long
///   after the claim has ended. Requests are idempotent.
/// - **Owners share.** Claims that name the same [owner](Claim::owner) hold the name together. Each
///   has its own lease, ttl and release. A claim that joins others has their fence. Where several
///   servers vote on the fence, claims that are requested at the same moment may have different
///   fences, all larger than those of earlier grants. The name is free when the last of these
///   claims has ended.
/// - **First come, first served.** A waiting claim keeps its place. Only owners that already hold
///   the name pass it. Adjacent shared claims in the line are granted together. A store that cannot
///   keep an order says so ([`Capabilities::fairness`]).
/// - **Fences grow.** Each grant of a name carries a larger [`Fence`] than every grant before it,
///   and reserves as many fences as it [reports](Grant::fences).
/// - **The store reports what it granted.** The engine counts from [`Grant::valid`], never from
///   what it asked for: a store's session may be shorter than the ttl.
/// - **Answers are values, faults are errors.** "Held by someone else" is [`Answer::Busy`], "no
///   longer yours" is [`Renewed::Lost`]. An `Err` is a fault, and its variant says whether
///   anything may have changed; when in doubt it is
///   [`Indeterminate`](crate::Error::Indeterminate).
/// - **Holders are told that others want their name**, once per grant, if their claim asked for it
///   ([`News::Wanted`]) and the store supports it ([`Capabilities::calls`]).
/// - **Bounded.** A name that nobody holds or waits for leaves nothing behind, or only data that
///   expires.
///
/// A lease belongs to the client whose claim was granted, and nobody else can renew or release it.
/// A driver knows its own client. Leases with [`Life::Ttl`] belong to no client.
///
/// # News
///
/// [`news`](Self::news) is the only way for a store to reach the engine on its own initiative. A
/// store that pushes grants sends [`News::Granted`]. A store that only watches what is ahead of a
/// claim (a predecessor in ZooKeeper, a smaller revision in etcd) sends [`News::AskAgain`] for that
/// name when the watched entry is gone. The engine then repeats the acquire, which the store
/// answers with a grant or with another place in line. A driver that can tell that the claim is
/// first may send [`News::Granted`] instead and save that request. A store whose watch can break
/// unnoticed gives [`Answer::Queued`] a time to ask again.
///
/// Drivers neither retry nor decide how long to wait. Only features that most stores lack have
/// provided methods ([`reopen`](Self::reopen), [`proof`](Self::proof),
/// [`row_lock`](Self::row_lock)). A wrapper that forgets to forward any other method must not
/// compile.
#[async_trait]
pub trait Driver: Debug + Send + Sync + 'static {
    /// Returns the kind of store, such as `"redis"`, for messages and metrics.
    fn kind(&self) -> &'static str;

    /// Returns the clock on which holders count their leases: [`Clock::Boot`] for every store whose
    /// leases continue while this process or machine is suspended.
    fn clock(&self) -> Clock;

    /// Returns what the store can do; the engine refuses the rest before anything is sent.
    fn capabilities(&self) -> Capabilities;

    /// Grants the claim, queues it, or reports that the name is taken.
    ///
    /// The ttl starts when the store grants the lease, never earlier. Repeating the request for the
    /// same claim refreshes its place in line, or restarts the ttl of the lease that was granted
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`ModeConflict`](crate::Error::ModeConflict) if the owner holds the name in a mode that does
    /// not cover the claim's, and the claim is not in line; faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may leave a lease or a place in line behind. The engine
    /// never drops a call in flight: it waits for the call to end, and then
    /// [withdraws](Self::withdraw).
    async fn acquire(&self, claim: &Claim) -> Result<Answer>;

    /// Undoes a claim in any state: leaves the line, and gives back a grant.
    ///
    /// # Errors
    ///
    /// Faults as in the contract. A claim that could not be withdrawn ends by its ttl.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it finish.
    async fn withdraw(&self, claim: &Claim) -> Result<()>;

    /// Restarts the ttl of each lease; returns the results in the same order.
    ///
    /// A lease that is over is never revived. If only some renewals get an answer, the others are
    /// [`Renewed::Unknown`]: healthy leases must not end because of others.
    ///
    /// # Errors
    ///
    /// Faults as in the contract, if no renewal got an answer: each lease ends at its old deadline
    /// or at the new one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call leaves each lease at its old deadline or at the new one.
    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>>;

    /// Frees a lease, and hands the name over to the next in line.
    ///
    /// # Errors
    ///
    /// Faults as in the contract: the lease ends now or by its ttl.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it finish.
    async fn release(&self, release: &Release) -> Result<Released>;

    /// Waits for the next news that the store has for this client.
    ///
    /// Only the engine calls this, from one task.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no news is lost.
    async fn news(&self) -> News;

    /// Lists holders and waiters, for one name or for all, sorted by name.
    ///
    /// # Errors
    ///
    /// Faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: listing changes nothing.
    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>>;

    /// Evicts all holders of a name, and returns them.
    ///
    /// The fence advances, the next in line are granted the name, and each holder is told by
    /// [`News::Lost`] if the store [supports it](Capabilities::tells_evictions).
    ///
    /// # Errors
    ///
    /// Faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it finish.
    async fn evict(&self, name: &Name) -> Result<Vec<Holder>>;

    /// Waits until no request of this client is in flight.
    ///
    /// A program that ends earlier may leave behind grants that it has not heard of.
    ///
    /// Takes no longer than requests may take. Does not wait for retries to unresponsive servers.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: requests in flight continue.
    async fn settled(&self);

    /// Opens the store again on behalf of this client, on the runtime that polls the future.
    ///
    /// When the runtime of a client ends, the engine uses this to release and withdraw what the
    /// client has left behind. The default is `None`: such leases then end by their ttl, or with
    /// the client if the store [detects](Capabilities::sees_clients_end) that.
    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        None
    }

    /// Returns where the caller's own transaction can check that a lease is held; see
    /// [`Guard::hold_in`](crate::Guard::hold_in) and [`Guard::write_nodes`](crate::Guard::write_nodes).
    ///
    /// The default is `None`: leases of such stores cannot be part of a transaction.
    fn proof(&self, claim: &Claim, fence: Fence) -> Option<Proof> {
        let (_, _) = (claim, fence);
        None
    }

    /// Returns where the caller's own transactions lock this name, and creates what they need
    /// there; see [`Client::row`](crate::Client::row).
    ///
    /// The default is `None`.
    ///
    /// # Errors
    ///
    /// Faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it finish.
    async fn row_lock(&self, name: &Name) -> Result<Option<RowKey>> {
        let _ = name;
        Ok(None)
    }
}

/// A driver that is being opened; see [`Driver::reopen`].
pub type Reopening = Pin<Box<dyn Future<Output = Result<Arc<dyn Driver>>> + Send>>;

/// The clock on which an engine counts its leases and sleeps.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Clock {
    /// The time since the machine booted, which advances while the machine is suspended.
    Boot,
    /// Tokio's clock, which stops while the machine is suspended, and which tests can pause.
    Tokio,
    /// The driver's own clock: simulations let it drift, jump and stop.
    Source(Arc<dyn TimeSource>),
}

/// A clock that a driver provides.
#[async_trait]
pub trait TimeSource: Debug + Send + Sync + 'static {
    /// Returns the time since a fixed moment; it never goes backwards.
    fn now(&self) -> Duration;

    /// Sleeps for this long on this clock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: sleeping changes nothing.
    async fn sleep(&self, duration: Duration);
}

/// What a store can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether claims may [share](Mode::Shared) a name.
    pub shared: bool,
    /// Whether claims of several clients may name the same owner and hold a name together.
    pub permits: bool,
    /// Whether leases may belong to no client ([`Life::Ttl`]).
    pub by_hand: bool,
    /// Whether claims of several clients may name one owner, and hold together.
    pub shared_owners: bool,
    /// In which order waiters are served.
    pub fairness: Fairness,
    /// Whether holders are told that somebody else wants the name ([`Claim::tell_if_wanted`]).
    pub calls: bool,
    /// Whether a lease ends with its client, not only by its ttl.
    pub sees_clients_end: bool,
    /// Whether holders are told at once that they were evicted ([`News::Lost`]). If not, their next
    /// renewal or release returns [`Loss::Evicted`].
    pub tells_evictions: bool,
    /// Whether a name may stay taken after its release ([`Release::stays_taken`]).
    pub stays_taken: bool,
    /// The shortest ttl.
    pub shortest_ttl: Duration,
    /// The longest ttl.
    pub longest_ttl: Duration,
    /// How many fences a grant can reserve.
    pub most_fences: u32,
    /// How long a request may remain unanswered before it fails; `None` if it cannot time out.
    pub timeout: Option<Duration>,
}

impl Capabilities {
    /// Returns the capabilities of a store that supports everything; turn off what yours lacks.
    pub fn all() -> Self {
        Self {
            shared: true,
            permits: true,
            by_hand: true,
            shared_owners: true,
            fairness: Fairness::FirstCome,
            calls: true,
            sees_clients_end: true,
            tells_evictions: true,
            stays_taken: true,
            shortest_ttl: Duration::from_millis(10),
            longest_ttl: Duration::from_secs(365 * 24 * 60 * 60),
            most_fences: u32::MAX,
            timeout: None,
        }
    }

    /// Returns the shortest ttl that survives a lost answer: three times the
    /// [timeout](Self::timeout).
    ///
    /// The engine renews a lease after a third of its ttl, which leaves time for one more attempt
    /// if that fails.
    pub fn shortest_safe_ttl(&self) -> Duration {
        self.timeout.map_or(Duration::ZERO, |timeout| timeout * 3)
    }
}

/// In which order a store serves its waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fairness {
    /// First come, first served.
    FirstCome,
    /// In any order.
    Any,
}
