//! Planted bugs: deliberate mistakes at the boundary of the store, to test whether the simulator
//! finds them.
//!
//! Some are known from other locks, and say which. They are layers around the store or its driver,
//! so the library knows nothing about them, except for the old rule for split votes.

mod planted;
mod redlock;
mod sql;

use crate::generate::Stores;

pub(crate) use planted::Planted;

/// A mistake that can be switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "each is explained by `about`, where the command shows it"
)]
#[non_exhaustive]
pub enum Bug {
    AtLeastIgnored,
    ClaimDiesAndIsGranted,
    DuplicateCounts,
    EvictionNotTold,
    FencesGoBack,
    FencesRepeat,
    FencesRestart,
    GrantNotTold,
    LeaseNeverExpires,
    LeaseShorterThanTold,
    NewestFirst,
    NoPlaceInLine,
    OwnerSharesOneLease,
    PermitTooMany,
    ReadersFreeEachOther,
    RedlockFenceNotWritten,
    RedlockLostAnswerMeansNo,
    RedlockMinorityKept,
    RedlockRenewalByMinority,
    RedlockTieByNodeOrder,
    RedlockValidityFromAnswers,
    RedlockYoungNodeCounts,
    ReentryWhereBuilt,
    ReleaseByOwner,
    ReleaseFreesNext,
    ReleaseFreesName,
    ReleaseLies,
    ReleaseSwallowed,
    RenewalOfNobody,
    RenewalRecreates,
    RenewalShortens,
    SharedBesideExclusive,
    SqlExtendRevives,
    SqlGiveIgnoresClaim,
    SqlInsertOverwrites,
    SqlLetterLost,
    SqlLetterWithoutWrite,
    SqlPresenceGone,
    SqlSweepHeld,
    SqlTakeIgnoresEnd,
    SqlTopForgotten,
    SqlTurnNotCounted,
    SqlVersionIgnored,
    TryAlwaysWins,
    WithdrawalByOwner,
    WithdrawalFreesHolder,
    WithdrawalLate,
    WithdrawalSwallowed,
}

impl Bug {
    /// All planted bugs.
    pub const ALL: [Self; 48] = [
        Self::AtLeastIgnored,
        Self::ClaimDiesAndIsGranted,
        Self::DuplicateCounts,
        Self::EvictionNotTold,
        Self::FencesGoBack,
        Self::FencesRepeat,
        Self::FencesRestart,
        Self::GrantNotTold,
        Self::LeaseNeverExpires,
        Self::LeaseShorterThanTold,
        Self::NewestFirst,
        Self::NoPlaceInLine,
        Self::OwnerSharesOneLease,
        Self::PermitTooMany,
        Self::ReadersFreeEachOther,
        Self::RedlockFenceNotWritten,
        Self::RedlockLostAnswerMeansNo,
        Self::RedlockMinorityKept,
        Self::RedlockRenewalByMinority,
        Self::RedlockTieByNodeOrder,
        Self::RedlockValidityFromAnswers,
        Self::RedlockYoungNodeCounts,
        Self::ReentryWhereBuilt,
        Self::ReleaseByOwner,
        Self::ReleaseFreesNext,
        Self::ReleaseFreesName,
        Self::ReleaseLies,
        Self::ReleaseSwallowed,
        Self::RenewalOfNobody,
        Self::RenewalRecreates,
        Self::RenewalShortens,
        Self::SharedBesideExclusive,
        Self::SqlExtendRevives,
        Self::SqlGiveIgnoresClaim,
        Self::SqlInsertOverwrites,
        Self::SqlLetterLost,
        Self::SqlLetterWithoutWrite,
        Self::SqlPresenceGone,
        Self::SqlSweepHeld,
        Self::SqlTakeIgnoresEnd,
        Self::SqlTopForgotten,
        Self::SqlTurnNotCounted,
        Self::SqlVersionIgnored,
        Self::TryAlwaysWins,
        Self::WithdrawalByOwner,
        Self::WithdrawalFreesHolder,
        Self::WithdrawalLate,
        Self::WithdrawalSwallowed,
    ];

    /// Returns its name, as used by the command.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns what is wrong, in one sentence.
    pub fn about(self) -> &'static str {
        self.words().1
    }

    /// Returns the bug with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }

    /// Returns whether it shows only if an owner is used more than once.
    pub fn needs_owners(self) -> bool {
        matches!(
            self,
            Self::OwnerSharesOneLease
                | Self::ReentryWhereBuilt
                | Self::ReleaseByOwner
                | Self::WithdrawalByOwner
        )
    }

    /// Returns the stores that show it.
    pub fn stores(self) -> Stores {
        match self {
            Self::RedlockFenceNotWritten
            | Self::RedlockLostAnswerMeansNo
            | Self::RedlockMinorityKept
            | Self::RedlockRenewalByMinority
            | Self::RedlockTieByNodeOrder
            | Self::RedlockValidityFromAnswers
            | Self::RedlockYoungNodeCounts => Stores::Redlock,
            Self::SqlExtendRevives
            | Self::SqlGiveIgnoresClaim
            | Self::SqlInsertOverwrites
            | Self::SqlLetterLost
            | Self::SqlLetterWithoutWrite
            | Self::SqlPresenceGone
            | Self::SqlSweepHeld
            | Self::SqlTakeIgnoresEnd
            | Self::SqlTopForgotten
            | Self::SqlTurnNotCounted
            | Self::SqlVersionIgnored => Stores::Sql,
            _ => Stores::Single,
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::AtLeastIgnored => (
                "at-least-ignored",
                "a release frees the name before its at_least is over",
            ),
            Self::ClaimDiesAndIsGranted => (
                "claim-dies-and-is-granted",
                "a claim that asks again is granted its old lease, although that has expired (etcd#11456)",
            ),
            Self::DuplicateCounts => (
                "duplicate-counts",
                "a repeated acquire counts twice, and one release does not free the lock (redisson#7367)",
            ),
            Self::EvictionNotTold => (
                "eviction-not-told",
                "holders are not told that an operator has taken their lock away",
            ),
            Self::FencesGoBack => (
                "fences-go-back",
                "each fence is smaller than the one before",
            ),
            Self::FencesRepeat => ("fences-repeat", "two grants in a row carry the same fence"),
            Self::FencesRestart => (
                "fences-restart",
                "fences start again when the store has lost its data",
            ),
            Self::GrantNotTold => (
                "grant-not-told",
                "a waiter is not told of its grant (redisson#1763)",
            ),
            Self::LeaseNeverExpires => (
                "lease-never-expires",
                "a lease runs until it is released, also if its client is dead (SETNX without a ttl)",
            ),
            Self::LeaseShorterThanTold => (
                "lease-shorter-than-told",
                "the store grants half of the ttl that the client counts with",
            ),
            Self::NewestFirst => ("newest-first", "the line serves the newest waiter first"),
            Self::NoPlaceInLine => (
                "no-place-in-line",
                "a claim is told that it is queued, and has no place in the line",
            ),
            Self::OwnerSharesOneLease => (
                "owner-shares-one-lease",
                "two claims of one owner in one client have one lease, and the first release frees it",
            ),
            Self::PermitTooMany => (
                "permit-too-many",
                "a semaphore has one permit more than it should",
            ),
            Self::ReadersFreeEachOther => (
                "readers-free-each-other",
                "the release of one reader frees all readers",
            ),
            Self::RedlockFenceNotWritten => (
                "redlock-fence-not-written",
                "a fence counts although no majority of the nodes has written it down",
            ),
            Self::RedlockLostAnswerMeansNo => (
                "redlock-lost-answer-means-no",
                "a node that did not answer is taken to have granted nothing",
            ),
            Self::RedlockMinorityKept => (
                "redlock-minority-kept",
                "what a minority granted is not taken back",
            ),
            Self::RedlockRenewalByMinority => (
                "redlock-renewal-by-minority",
                "a node that has lost a lease counts for its renewal",
            ),
            Self::RedlockTieByNodeOrder => (
                "redlock-tie-by-node-order",
                "whoever holds the first node of its own URL stays after a split vote, and asks again for ever",
            ),
            Self::RedlockValidityFromAnswers => (
                "redlock-validity-from-answers",
                "a lease counts from when the nodes answered, not from when they were asked",
            ),
            Self::RedlockYoungNodeCounts => (
                "redlock-young-node-counts",
                "a node that has just restarted, and may have forgotten leases, votes",
            ),
            Self::ReentryWhereBuilt => (
                "reentry-where-built",
                "a re-entrant lock belongs to whoever built it, and all who clone it enter together",
            ),
            Self::ReleaseByOwner => (
                "release-by-owner",
                "a release names only the owner, and frees all that this client has for it",
            ),
            Self::ReleaseFreesNext => (
                "release-frees-next",
                "a release that comes too late frees the next holder (DEL without an owner check)",
            ),
            Self::ReleaseFreesName => (
                "release-frees-name",
                "a release frees the name from all its holders",
            ),
            Self::ReleaseLies => (
                "release-lies",
                "a release reports success although the lock was not held",
            ),
            Self::ReleaseSwallowed => (
                "release-swallowed",
                "a release is confirmed and does nothing",
            ),
            Self::RenewalOfNobody => (
                "renewal-of-nobody",
                "a renewal is confirmed although the lease is over (redis-distlock#2)",
            ),
            Self::RenewalRecreates => (
                "renewal-recreates",
                "a renewal makes an ended lease anew (redlock-rb#36)",
            ),
            Self::RenewalShortens => (
                "renewal-shortens",
                "a renewal is confirmed and leaves a tenth of the ttl",
            ),
            Self::SharedBesideExclusive => (
                "shared-beside-exclusive",
                "readers are let in beside a writer",
            ),
            Self::SqlExtendRevives => (
                "sql-extend-revives",
                "a renewal in one statement brings back a lease that is over, whoever has the name now",
            ),
            Self::SqlGiveIgnoresClaim => (
                "sql-give-ignores-claim",
                "a release in one statement frees the lone holder, whoever it is",
            ),
            Self::SqlInsertOverwrites => (
                "sql-insert-overwrites",
                "a row that was missing when it was read is written over one that was made meanwhile",
            ),
            Self::SqlLetterLost => (
                "sql-letter-lost",
                "a row is written, and whoever it concerns is not told",
            ),
            Self::SqlLetterWithoutWrite => (
                "sql-letter-without-write",
                "letters are sent although the row was not written",
            ),
            Self::SqlPresenceGone => (
                "sql-presence-gone",
                "clients in line are taken for gone, although they are there",
            ),
            Self::SqlSweepHeld => ("sql-sweep-held", "a sweep deletes rows that are in use"),
            Self::SqlTakeIgnoresEnd => (
                "sql-take-ignores-end",
                "a name is taken in one statement although its lease runs",
            ),
            Self::SqlTopForgotten => (
                "sql-top-forgotten",
                "the largest fence of a name is forgotten when it is freed",
            ),
            Self::SqlTurnNotCounted => (
                "sql-turn-not-counted",
                "a row does not show that somebody in line has to be told",
            ),
            Self::SqlVersionIgnored => (
                "sql-version-ignored",
                "a row is written although it has changed since it was read",
            ),
            Self::TryAlwaysWins => (
                "try-always-wins",
                "a claim that would not wait is granted although the lock is held",
            ),
            Self::WithdrawalByOwner => (
                "withdrawal-by-owner",
                "a withdrawal names only the owner, and takes away the next claim of the same owner",
            ),
            Self::WithdrawalFreesHolder => (
                "withdrawal-frees-holder",
                "a withdrawal frees what another call of the same client holds",
            ),
            Self::WithdrawalLate => (
                "withdrawal-late",
                "a withdrawal takes effect only with the next one",
            ),
            Self::WithdrawalSwallowed => (
                "withdrawal-swallowed",
                "a withdrawal is confirmed and does nothing (redisson#5019)",
            ),
        }
    }
}
