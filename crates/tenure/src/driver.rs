//! The contract between the engine and a store; read this first to add a store.
//!
//! A driver asks its store to decide, and passes on what the store says. Waiting, renewal, loss,
//! cancellation, release on drop, retries and metrics are the engine's, written once.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::name::{ClaimId, Fence, Name, Owner};

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
/// Drivers neither retry nor decide how long to wait. There are no provided methods: a wrapper
/// that forgets to forward one must not compile.
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
    /// The fence moves on, each holder is told by [`News::Lost`], and the next in line go in.
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
            stays_taken: true,
            shortest_ttl: Duration::from_millis(10),
            longest_ttl: Duration::from_secs(365 * 24 * 60 * 60),
            most_fences: u32::MAX,
            timeout: None,
        }
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

/// How a name is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Together with other shared holders.
    Shared,
    /// With `take` of `of` permits; claims with different `of` all keep to the smallest.
    Permits {
        /// How many this claim takes, at least 1.
        take: u32,
        /// How many there are.
        of: u32,
    },
}

/// What ends a lease besides its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Life {
    /// Its ttl, or the end of the client that asked for it, where the store sees that.
    Client,
    /// Its ttl alone: it belongs to no client, and anyone who knows the owner may go on with it.
    Ttl,
}

/// Whether a claim that cannot be granted at once stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// It does not: the answer is [`Answer::Busy`], and no lease or line changes.
    No,
    /// It does: the answer is [`Answer::Queued`], and the grant comes as [`News::Granted`].
    InLine,
}

/// One request for a name.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What is asked for.
    pub name: Name,
    /// What every request about this claim names; chosen before the first request goes out, so
    /// that a lost answer can be cleaned up, and never used for another claim.
    pub id: ClaimId,
    /// Whose claims hold together with this one; without an owner it shares with no other claim.
    pub owner: Option<Owner>,
    /// How it is asked for.
    pub mode: Mode,
    /// How long the lease lasts unless renewed.
    pub ttl: Duration,
    /// Whether to stand in line.
    pub wait: Wait,
    /// What ends the lease.
    pub life: Life,
    /// How many fences to set aside for this grant, at least 1.
    pub fences: u32,
    /// Whether to be told by [`News::Wanted`] when somebody else asks for the name while this
    /// lease runs; not for [`Life::Ttl`], which has no client to tell.
    pub tell_if_wanted: bool,
    /// For people who look at the lock.
    pub about: About,
}

impl Claim {
    /// Returns the owner as people see it: the id of a claim that has none.
    pub fn owner_text(&self) -> &str {
        match &self.owner {
            Some(owner) => owner.as_str(),
            None => self.id.as_str(),
        }
    }
}

/// Who asks and why, for people who look at the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct About {
    /// Why the lock is wanted.
    pub reason: Option<Arc<str>>,
    /// The machine that asks.
    pub host: Arc<str>,
    /// The process that asks.
    pub pid: u32,
}

impl About {
    /// Returns who this process is, and why it asks.
    pub fn this_process(reason: Option<&Arc<str>>) -> Self {
        static THIS: OnceLock<About> = OnceLock::new();
        let this = THIS.get_or_init(|| Self {
            reason: None,
            host: rustix::system::uname().nodename().to_string_lossy().into(),
            pid: std::process::id(),
        });
        Self {
            reason: reason.cloned(),
            ..this.clone()
        }
    }
}

/// What the store says to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Somebody else holds the name or stands in line for it; nothing was changed, except that
    /// holders who asked for it are told ([`News::Wanted`]).
    Busy,
    /// The claim is granted; the engine counts from before this answer's request.
    Granted(Grant),
    /// The claim stands in line, and news will follow.
    Queued {
        /// When to ask again if no news came: the next time at which a lease may end by itself.
        /// `None` if the store is certain to send news.
        ask_again: Option<Duration>,
    },
}

/// What a store granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The number of the grant.
    pub fence: Fence,
    /// How many fences are set aside for it, its own included: the engine may use as many.
    pub fences: u32,
    /// For how long nobody else can have the name, unless the lease is renewed.
    pub valid: Duration,
}

impl Grant {
    /// Describes a grant with one fence.
    pub fn new(fence: Fence, valid: Duration) -> Self {
        Self {
            fence,
            fences: 1,
            valid,
        }
    }

    /// The same grant with so many fences.
    pub fn with_fences(self, fences: u32) -> Self {
        Self { fences, ..self }
    }
}

/// Which lease to renew, and for how long.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// What is held.
    pub name: Name,
    /// The claim that was granted.
    pub claim: ClaimId,
    /// The number of its grant, if the lease must have just this one.
    pub fence: Option<Fence>,
    /// What ends the lease.
    pub life: Life,
    /// How long it lasts from now.
    pub ttl: Duration,
}

/// What became of one renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease goes on; the engine counts from before this answer's request.
    Kept {
        /// The number of its grant.
        fence: Fence,
        /// For how long nobody else can have the name, unless the lease is renewed again.
        valid: Duration,
    },
    /// The claim holds the name no longer; nothing was changed.
    Lost(Loss),
    /// This one got no answer where others did: a part of the store is away.
    Unknown,
}

/// Which lease to let go.
#[derive(Debug, Clone)]
pub struct Release {
    /// What is held.
    pub name: Name,
    /// The claim that was granted.
    pub claim: ClaimId,
    /// The number of its grant, if the lease must have just this one.
    pub fence: Option<Fence>,
    /// What ends the lease.
    pub life: Life,
    /// How long the name stays taken all the same, by nobody, after it was freed.
    pub stays_taken: Duration,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease is freed.
    Freed {
        /// How many claims of the same owner still hold the name.
        left: u32,
    },
    /// The claim did not hold the name any more, and nothing was changed.
    NotHeld(Loss),
}

/// Why a lease is over that was not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Loss {
    /// An operator took it away.
    #[error("the lock was evicted by an operator")]
    Evicted,
    /// It was not renewed in time.
    #[error("the lease expired before it was renewed")]
    Expired,
    /// It is not in the store: it ended, or it never was.
    #[error("the lease is not in the store any more")]
    Gone,
    /// It reached the longest time that its holder allowed itself.
    #[error("the lock was held for as long as max_hold allows")]
    MaxHold,
    /// Another claim has it.
    #[error("another claim holds the lock")]
    TakenOver,
    /// The store could not be reached until the lease was over.
    #[error("the store could not be reached until the lease was over")]
    Unreachable,
}

/// What a store tells a client of its own accord.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// Something changed, or news may have been missed: ask again for this name, or for all.
    AskAgain(Option<Name>),
    /// A claim that stood in line is granted.
    ///
    /// May come once more after the claim was asked for again and answered.
    Granted {
        /// The claim's name.
        name: Name,
        /// The claim.
        claim: ClaimId,
        /// What was granted.
        grant: Grant,
        /// How long after it took the claim into the line the store granted it, by the store's
        /// clock. The engine counts the lease from the first request plus this, and never from
        /// later than it heard of the grant.
        after: Duration,
    },
    /// A lease is over.
    Lost {
        /// The lease's name.
        name: Name,
        /// The claim that was granted.
        claim: ClaimId,
        /// The lease's grant.
        fence: Fence,
        /// Why.
        loss: Loss,
    },
    /// All leases of this client are over at once, and all its places in line: the session that
    /// carried them has ended. The engine asks again for every claim that waits.
    SessionLost(Loss),
    /// Another client asks for a name whose lease this client said it could give back
    /// ([`Claim::tell_if_wanted`]).
    ///
    /// Told once for each grant: at the first claim of another client that is refused or put in
    /// line while the lease runs; or right after the grant, if the claim of another client stands
    /// in line at that moment. It is no order: the lease runs on until it is released.
    ///
    /// May overtake the answer that grants the lease. May be lost, as a message can be that its
    /// sender did not live to send; so the engine gives such leases back after a while even if
    /// nobody calls. After a gap in the news the driver says [`AskAgain`](Self::AskAgain) for all
    /// names, which the engine takes for a call.
    Wanted {
        /// The lease's name.
        name: Name,
        /// The claim that was granted.
        claim: ClaimId,
        /// The lease's grant.
        fence: Fence,
    },
}

/// Who holds a name and who waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is held.
    pub name: Name,
    /// Its holders, oldest first.
    pub holders: Vec<Holder>,
    /// Its line, first to last.
    pub waiters: Vec<Waiter>,
}

/// One claim that holds a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The claim that was granted.
    pub claim: ClaimId,
    /// Who holds it: the claim's owner, or the claim itself if it has none.
    pub owner: Owner,
    /// How.
    pub mode: Mode,
    /// The number of the grant.
    pub fence: Fence,
    /// How many claims of this owner hold the name, this one included; 0 while the name stays taken
    /// by nobody after its [release](Release::stays_taken).
    pub depth: u32,
    /// What ends the lease.
    pub life: Life,
    /// Who that is, for people.
    pub about: About,
    /// Since when.
    pub held: Duration,
    /// Until when, unless renewed.
    pub expires_in: Duration,
}

/// One claim that waits for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The claim.
    pub claim: ClaimId,
    /// Who waits: the claim's owner, or the claim itself if it has none.
    pub owner: Owner,
    /// For what.
    pub mode: Mode,
    /// Who that is, for people.
    pub about: About,
    /// Since when.
    pub waited: Duration,
}
