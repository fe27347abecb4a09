//! The contract between the engine and a store; read this first to add a store.
//!
//! A driver asks its store to decide, and passes on what the store says. Waiting, renewal, loss,
//! cancellation, release on drop, retries and metrics are the engine's, written once.

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
/// - **One decision.** Each request is decided atomically by the store, by the store's clock. No
///   client wall time is ever sent.
/// - **Exclusion.** While a lease runs, no other owner is granted the same name in a mode that
///   conflicts ([`Mode`]).
/// - **One id per claim.** Every request names the [id](Claim::id) of its claim, and affects that
///   claim alone: also if it is repeated, reordered with other requests, or arrives long after
///   the claim has ended. Requests are idempotent.
/// - **Owners share.** Claims that name the same [owner](Claim::owner) hold together, each with a
///   lease, a ttl and a release of its own. A claim that joins others has their fence. Where
///   several servers vote on the fence, claims that are asked for at the same moment may have
///   different ones, all larger than those of the grants before. The name is free when the last
///   of them has ended.
/// - **First come, first served.** A waiting claim keeps its place; nobody passes it but owners
///   that hold the name already. Shared claims that stand together go in together. A store that
///   cannot keep an order says so ([`Capabilities::fairness`]).
/// - **Fences grow.** Each grant of a name carries a larger [`Fence`] than every grant before it,
///   and leaves room for as many fences as it [says](Grant::fences).
/// - **The store says what it granted.** The engine counts from [`Grant::valid`], never from what
///   it asked for: the session of a store may be shorter than the ttl.
/// - **Answers are values, faults are errors.** "Held by someone else" is [`Answer::Busy`], "no
///   longer yours" is [`Renewed::Lost`]. An `Err` is a fault, and its variant says whether
///   anything may have changed; when in doubt it is
///   [`Indeterminate`](crate::Error::Indeterminate).
/// - **Holders hear who wants their name**, once for each grant, if their claim asked for it
///   ([`News::Wanted`]) and the store can tell ([`Capabilities::calls`]).
/// - **Bounded.** A name that nobody holds or waits for leaves nothing behind, or only what
///   expires by itself.
///
/// A lease belongs to the client whose claim was granted, and nobody else can renew or release it;
/// a driver knows its own client. Leases by [`Life::Ttl`] belong to no client.
///
/// # News
///
/// [`news`](Self::news) is the only way by which a store reaches the engine of its own accord. A
/// store that pushes grants says [`News::Granted`]. A store that only watches what stands before a
/// claim (a predecessor in ZooKeeper, a smaller revision in etcd) says
/// [`News::AskAgain`] for that name when what it watched has gone: the engine then repeats the
/// acquire, which the store answers with a grant or with another place in line. If it can tell by
/// itself that the claim is first, it may say [`News::Granted`] and save that request. A store
/// whose watch can break without a word gives [`Answer::Queued`] a time to ask again.
///
/// Drivers neither retry nor decide how long to wait. Only what most stores cannot do has provided methods
/// ([`reopen`](Self::reopen), [`proof`](Self::proof), [`row_lock`](Self::row_lock)); a wrapper that forgets to forward
/// another one must not compile.
#[async_trait]
pub trait Driver: Debug + Send + Sync + 'static {
    /// Returns the kind of store, such as `"redis"`: for messages and metrics.
    fn kind(&self) -> &'static str;

    /// Returns the clock on which holders count their leases: [`Clock::Boot`] for every store
    /// whose leases run on while this process or machine stands still.
    fn clock(&self) -> Clock;

    /// Returns what the store can do; the engine refuses the rest before anything is sent.
    fn capabilities(&self) -> Capabilities;

    /// Grants the claim, or lets it stand in line, or says that the name is taken.
    ///
    /// The ttl starts when the store grants the lease, never earlier. Asking again for the same
    /// claim refreshes its place in line, or restarts the ttl of the lease that was granted
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`ModeConflict`](crate::Error::ModeConflict) if the owner holds the name in a mode that does
    /// not cover the claim's, and the claim does not stand in line; faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may leave a lease or a place behind. The engine never
    /// drops one half way; it lets it end and then [withdraws](Self::withdraw).
    async fn acquire(&self, claim: &Claim) -> Result<Answer>;

    /// Undoes a claim, whatever became of it: leaves the line and gives back a grant.
    ///
    /// # Errors
    ///
    /// Faults as in the contract. What could not be withdrawn ends by its ttl.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it end.
    async fn withdraw(&self, claim: &Claim) -> Result<()>;

    /// Restarts the ttl of each lease; answers in the same order.
    ///
    /// A lease that is over is never revived. Where only some get an answer, the others are
    /// [`Renewed::Unknown`]: what is well must not end because of what is not.
    ///
    /// # Errors
    ///
    /// Faults as in the contract, if none got an answer: each lease ends at its old deadline or at
    /// the new one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call leaves each lease at its old deadline or at the new one.
    async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>>;

    /// Frees a lease, and hands the name to whoever is next in line.
    ///
    /// # Errors
    ///
    /// Faults as in the contract: the lease ends now or by its ttl.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it end.
    async fn release(&self, release: &Release) -> Result<Released>;

    /// Waits for the next thing that the store has to tell this client.
    ///
    /// Only the engine calls this, from one task.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no news is lost.
    async fn news(&self) -> News;

    /// Lists who holds and who waits, for one name or for all of them, sorted by name.
    ///
    /// # Errors
    ///
    /// Faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: listing changes nothing.
    async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>>;

    /// Takes a name away from all its holders, and returns them.
    ///
    /// The fence moves on, each holder is told by [`News::Lost`] where the store
    /// [can](Capabilities::tells_evictions), and the next in line go in.
    ///
    /// # Errors
    ///
    /// Faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it end.
    async fn evict(&self, name: &Name) -> Result<Vec<Holder>>;

    /// Waits until no request of this client is in flight: a program that ends may leave behind
    /// what it has not heard of.
    ///
    /// Takes no longer than requests may. Does not wait for retries to unresponsive servers.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: requests in flight go on.
    async fn settled(&self);

    /// Opens the store once more in the name of this client, on the runtime that polls it.
    ///
    /// When the runtime of a client ends, the engine releases and withdraws by this what the client
    /// has left behind. `None`, unless a driver has it: such leases then end by their ttl, or with
    /// the client where the store [sees](Capabilities::sees_clients_end) that.
    fn reopen(self: Arc<Self>) -> Option<Reopening> {
        None
    }

    /// Returns where a transaction of the caller's can see that a lease is held; see
    /// [`Guard::hold_in`](crate::Guard::hold_in) and [`Guard::write_nodes`](crate::Guard::write_nodes).
    ///
    /// `None`, unless a driver has it: leases of other stores cannot be part of such a transaction.
    fn proof(&self, claim: &Claim, fence: Fence) -> Option<Proof> {
        let (_, _) = (claim, fence);
        None
    }

    /// Returns where transactions of callers lock this name, and makes what has to be there for it; see
    /// [`Client::row`](crate::Client::row).
    ///
    /// `None`, unless a driver has it.
    ///
    /// # Errors
    ///
    /// Faults as in the contract.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped call may or may not have taken effect. The engine lets it end.
    async fn row_lock(&self, name: &Name) -> Result<Option<RowKey>> {
        let _ = name;
        Ok(None)
    }
}

/// A driver that is about to be opened; see [`Driver::reopen`].
pub type Reopening = Pin<Box<dyn Future<Output = Result<Arc<dyn Driver>>> + Send>>;

/// The clock on which an engine counts its leases and sleeps.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Clock {
    /// The time since the machine started, which goes on while it sleeps.
    Boot,
    /// Tokio's, which stands still while the machine sleeps, and can be paused by tests.
    Tokio,
    /// A clock of the driver's own: simulations let it drift, jump and stand still.
    Source(Arc<dyn TimeSource>),
}

/// A clock that a driver brings along.
#[async_trait]
pub trait TimeSource: Debug + Send + Sync + 'static {
    /// Returns the time since a fixed moment; it never goes back.
    fn now(&self) -> Duration;

    /// Sleeps for so long on this clock.
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
    /// Whether claims may take [permits](Mode::Permits).
    pub permits: bool,
    /// Whether leases may belong to no client ([`Life::Ttl`]).
    pub by_hand: bool,
    /// Whether claims of several clients may name one owner, and hold together.
    pub shared_owners: bool,
    /// In which order waiters are served.
    pub fairness: Fairness,
    /// Whether holders are told who else wants the name ([`Claim::tell_if_wanted`]).
    pub calls: bool,
    /// Whether a lease ends with its client, and not only by its ttl.
    pub sees_clients_end: bool,
    /// Whether holders are told at once that they were evicted ([`News::Lost`]); if not, their next
    /// renewal or release says [`Loss::Evicted`].
    pub tells_evictions: bool,
    /// Whether a name may stay taken after its release ([`Release::stays_taken`]).
    pub stays_taken: bool,
    /// The smallest ttl.
    pub shortest_ttl: Duration,
    /// The largest ttl.
    pub longest_ttl: Duration,
    /// How many fences a grant can set aside.
    pub most_fences: u32,
    /// How long a request may stay without an answer before it fails; `None` if it cannot.
    pub timeout: Option<Duration>,
}

impl Capabilities {
    /// Returns what a store can do that lacks nothing; take away what yours does not have.
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
    /// A lease is renewed after a third of its ttl, and once more if that fails.
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
