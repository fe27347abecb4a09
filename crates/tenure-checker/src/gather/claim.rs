//! Reads the events of claims: asked, answered, used for writes, and released.

use super::{Life, Reader};
use crate::claims::{Claim, Grant, Release, Write};
use crate::history::{Event, Freed, What, Written};

/// The maximum number of events to search for a later one in the same microsecond.
const TIES: usize = 1_000;

impl<'a> Reader<'a> {
    pub(super) fn asked(&mut self, place: usize, process: u32, what: &'a What) {
        let What::Asked {
            claim: number,
            name,
            mode,
            owner,
        } = what
        else {
            return;
        };
        self.noted_by(place, process);
        let claim = self.view.claims.len();
        if *self.numbers.entry(*number).or_insert(claim) != claim {
            self.contradict(|| format!("claim {number} was asked for twice"));
            return;
        }
        let name = self.name(name);
        let owners = self.owners.len();
        let owner = *self.owners.entry(owner).or_insert(owners);
        let noted = self.view.noted.entry((process, owner));
        noted.or_default().push(place);
        self.view.names[name].claims.push(claim);
        let mut asked = Claim::new(place, process, *number, *mode);
        asked.name = name;
        asked.owner = owner;
        asked.nested_in = self.holding(name, owner);
        let first = *self.first.entry((name, owner)).or_insert(claim);
        if first != claim {
            asked.shares_owner = true;
            self.view.claims[first].shares_owner = true;
        }
        asked.blocked = self.holders[name].against(owner, *mode).is_some();
        let asker = self.processes.entry(process).or_default();
        match asker.life {
            Life::Killed(end, _) | Life::Ended(end) => asked.died = Some(end),
            Life::Unseen | Life::Alive => asker.claims.push(claim),
        }
        self.view.claims.push(asked);
    }

    /// Reads an event of a claim. Only its own process records these, except for its place in line.
    pub(super) fn claim(&mut self, place: usize, event: &Event, number: u64) {
        let Some(claim) = self.numbers.get(&number).copied() else {
            self.contradict(|| format!("nobody asked for claim {number}, but it goes on"));
            return;
        };
        let own = self.view.claims[claim].process == event.process;
        if let What::Queued { .. } = event.what {
            self.view.claims[claim].queued.get_or_insert(place);
        } else if !own {
            let process = event.process;
            self.contradict(|| format!("claim {number} is not of process {process}"));
            return;
        }
        if own {
            self.noted_by(place, event.process);
            let owner = self.view.claims[claim].owner;
            let noted = self.view.noted.entry((event.process, owner));
            noted.or_default().push(place);
        }
        match event.what {
            What::Granted { fence, .. } => self.granted(place, claim, fence),
            What::Refused { .. } => self.refused(place, claim),
            What::Unknown { .. } => self.unknown(place, claim),
            What::Lost { .. } => self.lost(place, claim),
            What::Excused { until_us, .. } => {
                let window = (event.at_us, until_us);
                self.view.claims[claim].excused.push(window);
            }
            What::Releasing { .. } => self.releasing(place, claim),
            What::Released { freed, .. } => self.released(place, claim, freed),
            _ => {}
        }
    }

    fn granted(&mut self, place: usize, number: usize, fence: Option<u64>) {
        let claim = &self.view.claims[number];
        let (told, name, owner, mode) = (claim.number, claim.name, claim.owner, claim.mode);
        if claim.granted.is_some() {
            self.contradict(|| format!("claim {told} was granted twice"));
            return;
        }
        if !claim.releases.is_empty() {
            self.contradict(|| format!("claim {told} was let go before it was granted"));
        }
        let reentry = self.holding(name, owner).is_some();
        let claim = &mut self.view.claims[number];
        claim.reentry = reentry;
        claim.granted = Some(Grant {
            event: place,
            fence,
        });
        self.view.names[name].grants.push(number);
        if let Some(died) = self.view.claims[number].died {
            self.view.claims[number].until = Some(died);
        } else {
            self.holders[name].enter(number, owner, mode);
            self.held.entry((name, owner)).or_default().push(number);
        }
    }

    fn refused(&mut self, place: usize, number: usize) {
        let claim = &mut self.view.claims[number];
        let told = claim.number;
        if claim.granted.is_some() || claim.refused.is_some() {
            self.contradict(|| format!("claim {told} was refused after another answer"));
        } else {
            claim.refused = Some(place);
        }
    }

    fn unknown(&mut self, place: usize, number: usize) {
        let claim = &mut self.view.claims[number];
        let told = claim.number;
        if claim.answered().is_some() {
            self.contradict(|| format!("claim {told} became unknown after another answer"));
        } else {
            claim.unknown = Some(place);
        }
    }

    fn lost(&mut self, place: usize, number: usize) {
        let claim = &mut self.view.claims[number];
        let told = claim.number;
        if claim.granted.is_none() {
            self.contradict(|| format!("claim {told} was lost, but never granted"));
            return;
        }
        claim.lost.get_or_insert(place);
        self.believes_no_more(place, number);
    }

    fn releasing(&mut self, place: usize, number: usize) {
        self.view.claims[number].releases.push(Release {
            began: place,
            told: None,
        });
        self.believes_no_more(place, number);
    }

    fn released(&mut self, place: usize, number: usize, freed: Freed) {
        let claim = &mut self.view.claims[number];
        let told = claim.number;
        // A call that was dropped while it waited has nothing to free, or does not know.
        let is_freed = matches!(freed, Freed::Freed | Freed::Lowered);
        if is_freed && claim.answered().is_none() {
            self.contradict(|| format!("claim {told} was freed, but never answered"));
            return;
        }
        match claim.releases.last_mut() {
            Some(release) if release.told.is_none() => release.told = Some((place, freed)),
            _ => self.contradict(|| format!("claim {told} was released, but nobody let go")),
        }
    }

    pub(super) fn wrote(&mut self, place: usize, what: &'a What) {
        let What::Wrote {
            claim: number,
            ref name,
            fence,
            read,
            version,
            outcome,
        } = *what
        else {
            return;
        };
        let Some(claim) = self.numbers.get(&number).copied() else {
            self.contradict(|| format!("nobody asked for claim {number}, but it writes"));
            return;
        };
        // A grant in the same microsecond may follow the write.
        let told = self.view.claims[claim].answered().is_some();
        if !told && !self.granted_now(place, number) {
            self.contradict(|| format!("claim {number} writes, but nothing was granted"));
            return;
        }
        if outcome == Written::Accepted {
            let name = self.name(name);
            self.view.names[name].writes.push(Write {
                event: place,
                claim,
                fence,
                read,
                version,
            });
        }
    }

    /// Returns whether a claim is granted later in the same microsecond.
    fn granted_now(&self, place: usize, number: u64) -> bool {
        let rest = &self.view.events[place..];
        let now = rest.iter().take_while(|event| event.at_us == self.now_us);
        now.take(TIES)
            .any(|event| matches!(event.what, What::Granted { claim, .. } if claim == number))
    }

    /// Ends the belief in a claim, if there is one.
    pub(super) fn believes_no_more(&mut self, place: usize, number: usize) {
        let claim = &mut self.view.claims[number];
        if claim.granted.is_some() && claim.until.is_none() {
            claim.until = Some(place);
            self.holders[claim.name].leave(number, claim.owner, claim.mode);
        }
    }

    /// Returns a claim of this owner that currently holds the name.
    fn holding(&mut self, name: usize, owner: usize) -> Option<usize> {
        let held = self.held.get_mut(&(name, owner))?;
        while held
            .pop_if(|last| self.view.claims[*last].until.is_some())
            .is_some()
        {}
        held.last().copied()
    }
}
