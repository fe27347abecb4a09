//! Who holds a name, as people see it: one row per owner instead of one per claim.

use std::time::Duration;

use tenure::driver::Holder;

use crate::output::who;

/// An owner that holds a name with one or several claims.
#[derive(Debug)]
pub(crate) struct Holding<'a> {
    /// Its oldest claim.
    pub(crate) first: &'a Holder,
    others: Vec<&'a Holder>,
}

impl<'a> Holding<'a> {
    /// Returns the owners that hold a name, in the order of their oldest claims.
    ///
    /// A name that stays taken after its release has no live claim, so it gets an entry of its own.
    pub(crate) fn all(holders: &'a [Holder]) -> Vec<Self> {
        let owner = |holder: &'a Holder| (&holder.owner, holder.depth > 0);
        let mut all: Vec<Self> = Vec::new();
        for holder in holders {
            match all.iter_mut().find(|one| owner(one.first) == owner(holder)) {
                Some(one) => one.others.push(holder),
                None => all.push(Self {
                    first: holder,
                    others: Vec::new(),
                }),
            }
        }
        all
    }

    /// Returns the number of live claims: zero if the name only stays taken after its release.
    pub(crate) fn depth(&self) -> usize {
        self.claims().filter(|claim| claim.depth > 0).count()
    }

    /// Returns how long the owner has held the name.
    pub(crate) fn held(&self) -> Duration {
        let held = self.claims().map(|claim| claim.held);
        held.max().unwrap_or_default()
    }

    /// Returns when the name becomes free, if no claim is renewed or released.
    pub(crate) fn expires_in(&self) -> Duration {
        let ends = self.claims().map(|claim| claim.expires_in);
        ends.max().unwrap_or_default()
    }

    /// Returns the processes, or only the first few of them.
    pub(crate) fn who(&self) -> String {
        let mut processes: Vec<_> = Vec::new();
        for claim in self.claims() {
            let process = who(&claim.about);
            if !processes.contains(&process) {
                processes.push(process);
            }
        }
        let more = processes.len().saturating_sub(SHOWN);
        processes.truncate(SHOWN);
        if more > 0 {
            processes.push(format!("{more} more"));
        }
        processes.join(", ")
    }

    fn claims(&self) -> impl Iterator<Item = &'a Holder> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// How many processes fit into a row.
const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use tenure::driver::About;
    use tenure::{ClaimId, Fence, Owner};

    use super::*;

    #[test]
    fn the_claims_of_an_owner_are_one_holding() {
        let holders = [
            holder("ann", 1, 5, 9, 1),
            holder("bob", 2, 4, 9, 1),
            holder("ann", 3, 3, 20, 1),
            holder("ann", 1, 2, 1, 1),
        ];
        let all = Holding::all(&holders);
        assert_eq!(all.len(), 2);
        let ann = &all[0];
        assert_eq!((ann.depth(), ann.who().as_str()), (3, "vm/1, vm/3"));
        assert_eq!(ann.held(), Duration::from_secs(5));
        assert_eq!(ann.expires_in(), Duration::from_secs(20));
        assert_eq!(all[1].depth(), 1);
    }

    #[test]
    fn a_name_that_only_stays_taken_has_no_depth() {
        let holders = [holder("ann", 1, 5, 9, 0), holder("ann", 1, 4, 9, 1)];
        let depths = Holding::all(&holders)
            .iter()
            .map(Holding::depth)
            .collect::<Vec<_>>();
        assert_eq!(depths, [0, 1]);
    }

    #[test]
    fn many_processes_are_counted() {
        let holders: Vec<_> = (1..=5).map(|pid| holder("ann", pid, 1, 1, 1)).collect();
        let all = Holding::all(&holders);
        assert_eq!(all[0].who(), "vm/1, vm/2, vm/3, 2 more");
    }

    fn holder(owner: &str, pid: u32, held: u64, expires_in: u64, depth: u32) -> Holder {
        let (claim, fence) = (ClaimId::unique(), Fence::new(1).unwrap());
        let expires_in = Duration::from_secs(expires_in);
        let mut holder = Holder::new(claim, fence, About::new("vm", pid), expires_in);
        holder.owner = Owner::named(owner).unwrap();
        holder.depth = depth;
        holder.held = Duration::from_secs(held);
        holder
    }
}
