//! Judges from a history of claims, grants and writes whether a lock kept its promises.
//!
//! A [`History`] is what clients, the protected resource and the fault injector recorded. The
//! checker knows no store and no clock of a store: it compares what was believed, what was
//! accepted, and in which order. It is plain code without a clock of its own, and returns the same
//! verdict for the same history.
//!
//! # The promises
//!
//! - [`Exclusion`](Promise::Exclusion): a client *believes* that it holds the lock from `granted`
//!   to the first of `lost`, `releasing` and the end of its process. Beliefs of different owners
//!   that exclude each other must not overlap. While a process is paused it cannot notice anything,
//!   so its belief does not count from the start of the pause until the owner's first event after
//!   the end of the pause, and for another [`Expect::notice_us`]. What it *writes* in that time is
//!   judged all the same. A belief also does not count while it is [excused](What::Excused):
//!   something that the lock does not promise to survive has ended its lease.
//! - [`NoLostUpdate`](Promise::NoLostUpdate): each accepted write had read the version that the
//!   previous accepted write created.
//! - [`FencedWrites`](Promise::FencedWrites): accepted fences never decrease, and after the first
//!   fence none is missing. A stale write that was refused is correct behaviour.
//! - [`GrowingFences`](Promise::GrowingFences): no fence is granted twice, except to an owner that
//!   already holds it, in any process, until one of its releases reports *freed*. A grant that was
//!   asked for after another was reported has a larger fence. A lock without any fence is not
//!   judged. With [`Expect::readers_share_fences`], readers that asked at the same time may share a
//!   fence. With [`Expect::owners_have_several_fences`], claims of one owner may have different
//!   fences.
//! - [`OwnerOnly`](Promise::OwnerOnly): no release reports *freed* after another owner was granted
//!   the name and before that owner released it. A smaller fence was granted earlier, however late
//!   its owner learned of it.
//! - [`Order`](Promise::Order): a claim that was asked after another one was seen in line does not
//!   get the lock before it, with a tolerance of [`Expect::order_slack_us`] at both ends. This
//!   applies to exclusive claims of different processes. A process may keep the place of its own
//!   claim that gave up for its next claim. It may also pass a grant on to its next claim for the
//!   time of that slack; that claim then has the next fence. A process that returns from a pause
//!   may do so as well, if it kept the grant. Owners with several claims may bypass the line, so
//!   the order is not judged by their grants.
//! - [`Liveness`](Promise::Liveness): after `healed` each claim ends within
//!   [`Expect::patience_us`], whatever its answer is, and no claim is open when its process ends
//!   regularly. No process crashes by itself.
//! - [`NothingLeft`](Promise::NothingLeft): nothing is left in the store after everybody has ended.
//! - [`HonestErrors`](Promise::HonestErrors): a claim that was refused is never seen to hold the
//!   name.
//!
//! # Three verdicts
//!
//! *Broken* names each broken promise with the few events that prove it. *Unknown* is not a pass.
//! Either the run had too few grants, too little contention, a fault that did not happen, or no
//! `healed`; or the history contradicts itself (a grant of a claim that nobody asked for, two
//! answers to one claim, a freed lease whose claim was never answered, times that go back, a
//! process that continues after its end). A history that contradicts itself proves nothing, so then
//! no promise is judged at all. Everything else is *valid*.
//!
//! # What it cannot see
//!
//! - Anything that nobody recorded. A holder that acts without writing, or a lease in the store
//!   that no client knows of, is visible only by its effects.
//! - The order of two events of different processes in the same microsecond: such ties are read in
//!   the lock's favour.
//! - Whose lock a release freed. It sees only that the release reports success at a time when
//!   another owner was the holder.
//! - Whether a killed process still wrote: only the events of the resource show it.
//! - A wait that never ends, if the history ends before the patience does and the process was
//!   killed or its end was not recorded.
//! - A grant that nobody recorded, of a claim that was released and freed nothing: it looks like a
//!   call that was dropped while it waited.
//! - A nested call that is refused instead of having to wait: a refusal is an answer.

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

/// Returns what a history that still grows lacks for a verdict, one sentence each: grants, contention, writes, faults.
#[must_use]
pub fn lacks(history: &[Event], expect: &Expect) -> Vec<String> {
    let view = gather::gather(history, expect);
    enough::too_few(&view, &enough::count(&view))
}

/// Returns whether the promises of `expect` were kept in `history`.
///
/// Accepts any events in any order without a panic. The running time grows with their number, not
/// with the number of pairs.
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
