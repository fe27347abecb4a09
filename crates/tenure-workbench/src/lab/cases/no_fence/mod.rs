//! Everything is correct, but there is no fence for a resource to check: nothing stops a holder
//! that was paused.

use crate::lab::cases::no_reentry;
use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 10,
    name: "no-fence",
    title: "Everything right, but no fence",
    recipe: no_reentry::CASE.recipe,
    fault: "the holder is paused between its last check and its write",
    faults: &["pause"],
    breaks: Promise::NoLostUpdate,
    instead: "numbers its grants, and the resource refuses the smaller number.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

/// The holder has read, and is paused past its lease before it writes. Meanwhile another client
/// reads, writes and releases.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    let first = lab.lock(ann)?;
    lab.read(first)?;
    lab.break_at(ann, BEFORE_WRITE)?;
    lab.begin_write(first)?;
    lab.until_at(ann, BEFORE_WRITE)?;
    let second = lab.ask(bob)?;
    lab.pause(ann)?;
    lab.granted(second)?;
    lab.read(second)?;
    lab.write(second)?;
    lab.release(second)?;
    lab.resume(ann)?;
    lab.heal();
    lab.continue_from(ann, BEFORE_WRITE)?;
    lab.done(first)?;
    lab.release(first)
}
