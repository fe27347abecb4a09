//! Says from a history of claims, grants and writes whether a lock kept its promises.
//!
//! A [`History`] is what clients, the protected resource and the one who made the faults noted down. The checker knows no
//! store and no clock of a store: it compares what was believed, what was accepted and in which order. It is plain code
//! without a clock of its own, and gives the same verdict for the same history.
//!
//! # The promises
//!
//! - [`Exclusion`](Promise::Exclusion): a client *believes* from `granted` to the first of `lost`, `releasing` and the end of
//!   its process. Beliefs of different owners that exclude each other must not overlap. While a process is paused it cannot
//!   notice anything, so its belief does not count from the pause's start until the first thing that the owner notes after
//!   the pause's end, and [`Expect::notice_us`] longer. What it *writes* meanwhile is judged all the same. Nor does a belief
//!   count while it is [excused](What::Excused): its lease was ended by something that the lock does not promise to survive.
//! - [`NoLostUpdate`](Promise::NoLostUpdate): each accepted write had read the version that the one before it made.
//! - [`FencedWrites`](Promise::FencedWrites): accepted fences never decrease, and once one came, none is missing. A stale
//!   write that was refused is as it should be.
//! - [`GrowingFences`](Promise::GrowingFences): no fence is given twice, but to an owner that holds it already, in any process, until
//!   one of its releases reports *freed*. A grant that was asked for after another was reported carries a larger one. A lock without any fence is not judged.
//!   Readers that asked at the same time may share one where [`Expect::readers_share_fences`] says so, and claims of one owner may have
//!   different ones where [`Expect::owners_have_several_fences`] does.
//! - [`OwnerOnly`](Promise::OwnerOnly): no release reports *freed* after another owner was granted the name, and before that
//!   one let go. A smaller fence was granted earlier, however late its owner was told.
//! - [`Order`](Promise::Order): nobody who asked after another was seen in line goes in before it, give or take
//!   [`Expect::order_slack_us`] at both ends. For exclusive claims of different processes.
//!   A process may keep the place of a claim of its own that gave up for its next one, and pass a grant on to
//!   its next one for as long as that slack: it has the next fence then. Whoever comes back from a pause may do so as well, if
//!   it kept the grant. Owners with several claims may enter past the line, and so are not judged by who waits for them.
//! - [`Liveness`](Promise::Liveness): after `healed` each claim ends within [`Expect::patience_us`], whatever its answer is; and
//!   none is open when its process ends as it should. No process crashes by itself.
//! - [`NothingLeft`](Promise::NothingLeft): nothing was found in the store when all had gone.
//! - [`HonestErrors`](Promise::HonestErrors): a claim that was refused is never seen to hold.
//!
//! # Three verdicts
//!
//! *Broken* names each broken promise with the few events that prove it. *Unknown* is no pass: the run had too few grants, too
//! little contention, a fault did not land, nobody said `healed`; or the history contradicts itself (a grant of a claim that
//! nobody asked for, two answers to one claim, a lease freed whose claim was never answered, times that go back, a process that goes on after its end). A witness that contradicts
//! itself proves nothing, so then no promise is judged at all. *Valid* is the rest.
//!
//! # What it cannot see
//!
//! - What nobody noted. A holder that acts without writing, or a store that holds what nobody was told of, is seen only by
//!   what follows from it.
//! - The order of two events of different processes in the same microsecond: such ties are read in the lock's favour.
//! - Whose lock a release freed. It sees only that the release reports success at a time when another was the holder.
//! - Whether a killed process still wrote: only the resource's notes tell.
//! - A wait that never ends in a history that ends before the patience does, if its process was killed or its end is not noted.
//! - A grant that nobody noted, of a claim that was let go and freed nothing: it looks like a call that was dropped while it waited.
//! - A nested call that is refused rather than left to wait: a refusal is an answer.

mod claims;
mod enough;
mod expect;
mod gather;
mod history;
mod holders;
mod rules;
mod show;
mod verdict;

pub use history::{Event, Freed, History, Mode, What, Written};
pub use verdict::{Expect, Finding, Promise, Statistics, Verdict};

/// Says whether the promises of `expect` were kept in `history`.
///
/// Takes any events in any order without a panic; the time grows with their number, not with their pairs.
#[must_use]
pub fn check(history: &[Event], expect: &Expect) -> Verdict {
    let view = gather::gather(history, expect);
    let statistics = enough::count(&view);
    if !view.contradictions.is_empty() {
        let reasons = view.contradictions.sentences();
        return Verdict::Unknown {
            reasons,
            statistics,
        };
    }
    let findings = rules::judge(&view);
    if !findings.is_empty() {
        return Verdict::Broken {
            findings,
            statistics,
        };
    }
    let reasons = enough::missing(&view, &statistics);
    if !reasons.is_empty() {
        return Verdict::Unknown {
            reasons,
            statistics,
        };
    }
    Verdict::Valid { statistics }
}
