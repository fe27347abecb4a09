//! An atomic release, but no renewal: a job that takes longer than the lease works without the
//! lock.

use crate::lab::prelude::*;

pub(super) const CASE: Case = Case {
    number: 7,
    name: "lease",
    title: "A job that outlives its lease",
    // Correct in everything it does, but it does not renew.
    recipe: Recipe::PLAIN,
    fault: "the job takes longer than the ttl",
    faults: &["long-hold"],
    breaks: Promise::Exclusion,
    instead: "renews the lease while the guard lives, at a third of its ttl.",
    lesson: include_str!("lesson.md"),
    ttl: SHORT,
    grants: 2,
    run,
};

/// The holder works for longer than its lease lasts, while another client waits.
fn run(lab: &mut Experiment) -> Result<()> {
    let (ann, bob) = lab.two_clients()?;
    let first = lab.lock(ann)?;
    lab.read(first)?;
    let second = lab.ask(bob)?;
    let longest = match lab.is_tenure() {
        true => lab.ttl * 2,
        false => LONG,
    };
    lab.hold(second, longest)?;
    lab.fault("long-hold", Some(ann));
    lab.heal();
    lab.write(first)?;
    lab.release(first)?;
    lab.finish(second)
}
