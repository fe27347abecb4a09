//! Reads a history once, from its first event to its last, and notes what contradicts itself.

use std::collections::HashMap;

use crate::claims::{Claim, Contradictions, End, Grant, Name, Pause, Release, View, Write};
use crate::history::{Event, Freed, Mode, What, Written};
use crate::holders::Holders;
use crate::verdict::Expect;

/// The fault that ends a process.
const KILL: &str = "kill";
/// The fault that holds a process up until it is over.
const PAUSE: &str = "pause";

/// Puts a history in order for the rules.
pub(crate) fn gather<'a>(events: &'a [Event], expect: &'a Expect) -> View<'a> {
    let mut reader = Reader::new(events, expect);
    for (place, event) in events.iter().enumerate() {
        reader.read(place, event);
    }
    reader.finish()
}

/// What is known so far.
struct Reader<'a> {
    view: View<'a>,
    numbers: HashMap<u64, usize>,
    names: HashMap<&'a str, usize>,
    owners: HashMap<&'a str, usize>,
    holders: Vec<Holders>,
    /// The claims of an owner that hold a name; those that do no longer are taken off when the end is looked at.
    held: HashMap<(usize, usize), Vec<usize>>,
    processes: HashMap<u32, Process>,
    now_us: u64,
}

/// What is known of a process so far.
#[derive(Default)]
struct Process {
    life: Life,
    /// Those of this life.
    claims: Vec<usize>,
}

/// How a process is.
#[derive(Default, Clone, Copy)]
enum Life {
    #[default]
    Unseen,
    Alive,
    /// Since then; what it noted later must have been on its way.
    Killed(usize, Option<usize>),
    Ended(usize),
}

impl<'a> Reader<'a> {
    fn new(events: &'a [Event], expect: &'a Expect) -> Self {
        Self {
            view: View {
                events,
                expect,
                claims: Vec::new(),
                names: Vec::new(),
                pauses: HashMap::new(),
                ends: Vec::new(),
                faults: Vec::new(),
                healed: None,
                left: Vec::new(),
                noted: HashMap::new(),
                contradictions: Contradictions::default(),
            },
            numbers: HashMap::new(),
            names: HashMap::new(),
            owners: HashMap::new(),
            holders: Vec::new(),
            held: HashMap::new(),
            processes: HashMap::new(),
            now_us: 0,
        }
    }

    fn read(&mut self, place: usize, event: &'a Event) {
        if event.at_us < self.now_us {
            let (at, before) = (event.at_us, self.now_us);
            self.contradict(|| format!("{at} µs comes after {before} µs"));
        }
        self.now_us = event.at_us;
        match &event.what {
            What::Started => self.started(event.process),
            What::Ended { crashed } => self.ended(place, event.process, *crashed),
            What::Fault { kind, target } => self.fault(place, kind, *target),
            What::Over { kind, target } => self.over(place, kind, *target),
            What::Healed => self.view.healed = Some(place),
            What::Left { .. } => self.view.left.push(place),
            What::Asked {
                claim,
                name,
                mode,
                owner,
            } => self.asked(place, event.process, *claim, name, *mode, owner),
            What::Wrote { name, .. } => self.wrote(place, name, &event.what),
            What::Queued { claim }
            | What::Granted { claim, .. }
            | What::Refused { claim }
            | What::Unknown { claim, .. }
            | What::Lost { claim }
            | What::Releasing { claim }
            | What::Released { claim, .. } => self.claim(place, event, *claim),
        }
    }

    fn finish(mut self) -> View<'a> {
        let mut late: Vec<_> = self.processes.iter().collect();
        late.sort_unstable_by_key(|(number, _)| **number);
        for (number, process) in late {
            if let Life::Killed(_, Some(_)) = process.life {
                self.view
                    .contradictions
                    .note(|| format!("process {number} went on after it was killed"));
            }
        }
        self.view
    }

    fn started(&mut self, number: u32) {
        let process = self.processes.entry(number).or_default();
        let life = std::mem::replace(&mut process.life, Life::Alive);
        process.claims.clear();
        match life {
            Life::Unseen | Life::Ended(_) | Life::Killed(_, None) => {}
            Life::Alive => self.contradict(|| format!("process {number} began twice")),
            Life::Killed(_, Some(_)) => {
                self.contradict(|| format!("process {number} went on after it was killed"));
            }
        }
    }

    fn ended(&mut self, place: usize, number: u32, crashed: bool) {
        let life = self.processes.entry(number).or_default().life;
        let killed = matches!(life, Life::Killed(..));
        if matches!(life, Life::Ended(_)) {
            self.contradict(|| format!("process {number} ended twice"));
        }
        let waiting = self.end_of(place, number, Life::Ended(place));
        self.view.ends.push(End {
            event: place,
            process: number,
            crashed: crashed && !killed,
            waiting,
        });
    }

    /// Ends a life and all that was believed in it; gives a claim that still had no answer.
    fn end_of(&mut self, place: usize, number: u32, life: Life) -> Option<usize> {
        let process = self.processes.entry(number).or_default();
        process.life = life;
        // The end is the end of a pause, too.
        self.over(place, PAUSE, Some(number));
        let process = self.processes.entry(number).or_default();
        let mut waiting = None;
        for claim in std::mem::take(&mut process.claims) {
            self.view.claims[claim].died = Some(place);
            self.believes_no_more(place, claim);
            if self.view.claims[claim].answered().is_none() {
                waiting.get_or_insert(claim);
            }
        }
        waiting
    }

    fn fault(&mut self, place: usize, kind: &str, target: Option<u32>) {
        self.view.faults.push(place);
        let Some(number) = target else {
            return;
        };
        match kind {
            KILL => {
                let life = self.processes.entry(number).or_default().life;
                if !matches!(life, Life::Ended(_) | Life::Killed(..)) {
                    self.end_of(place, number, Life::Killed(place, None));
                }
            }
            PAUSE => {
                let pauses = self.view.pauses.entry(number).or_default();
                if pauses.last().is_none_or(|last| last.over.is_some()) {
                    pauses.push(Pause {
                        from: place,
                        over: None,
                    });
                }
            }
            _ => {}
        }
    }

    fn over(&mut self, place: usize, kind: &str, target: Option<u32>) {
        let pauses = target.and_then(|number| self.view.pauses.get_mut(&number));
        if kind != PAUSE {
            return;
        }
        if let Some(last) = pauses.and_then(|pauses| pauses.last_mut()) {
            last.over.get_or_insert(place);
        }
    }

    fn asked(
        &mut self,
        place: usize,
        process: u32,
        number: u64,
        name: &'a str,
        mode: Mode,
        owner: &'a str,
    ) {
        self.noted_by(place, process);
        let name = self.name(name);
        let owners = self.owners.len();
        let owner = *self.owners.entry(owner).or_insert(owners);
        let claim = self.view.claims.len();
        if self.numbers.contains_key(&number) {
            self.contradict(|| format!("claim {number} was asked for twice"));
            return;
        }
        self.numbers.insert(number, claim);
        self.view
            .noted
            .entry((process, owner))
            .or_default()
            .push(place);
        self.view.names[name].claims.push(claim);
        let mut died = None;
        let asker = self.processes.entry(process).or_default();
        match asker.life {
            Life::Killed(end, _) | Life::Ended(end) => died = Some(end),
            _ => asker.claims.push(claim),
        }
        let nested_in = self.holding(name, owner);
        self.view.claims.push(Claim {
            number,
            name,
            owner,
            mode,
            process,
            asked: place,
            queued: None,
            granted: None,
            refused: None,
            unknown: None,
            lost: None,
            releases: Vec::new(),
            died,
            until: None,
            blocked: self.holders[name].against(owner, mode).is_some(),
            nested_in,
            reentry: false,
        });
    }

    /// What happened to a claim, told by its own process; only its place in line may be seen by others.
    fn claim(&mut self, place: usize, event: &Event, number: u64) {
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
        match claim.releases.last_mut() {
            Some(release) if release.told.is_none() => release.told = Some((place, freed)),
            _ => self.contradict(|| format!("claim {told} was released, but nobody let go")),
        }
    }

    fn wrote(&mut self, place: usize, name: &'a str, what: &What) {
        let What::Wrote {
            claim: number,
            fence,
            read,
            version,
            outcome,
            ..
        } = *what
        else {
            return;
        };
        let Some(claim) = self.numbers.get(&number).copied() else {
            self.contradict(|| format!("nobody asked for claim {number}, but it writes"));
            return;
        };
        // A grant in the same microsecond may stand behind the write.
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

    /// Whether a claim is granted later in the same microsecond.
    fn granted_now(&self, place: usize, number: u64) -> bool {
        let rest = &self.view.events[place..];
        let now = rest.iter().take_while(|event| event.at_us == self.now_us);
        now.take(TIES)
            .any(|event| matches!(event.what, What::Granted { claim, .. } if claim == number))
    }

    /// Ends the belief in a claim, if there is one.
    fn believes_no_more(&mut self, place: usize, number: usize) {
        let claim = &mut self.view.claims[number];
        if claim.granted.is_some() && claim.until.is_none() {
            claim.until = Some(place);
            self.holders[claim.name].leave(number, claim.owner, claim.mode);
        }
    }

    /// A claim of this owner that holds the name now.
    fn holding(&mut self, name: usize, owner: usize) -> Option<usize> {
        let held = self.held.get_mut(&(name, owner))?;
        while held
            .pop_if(|last| self.view.claims[*last].until.is_some())
            .is_some()
        {}
        held.last().copied()
    }

    /// A process can note something only while it lives, or in the very microsecond of its end.
    fn noted_by(&mut self, place: usize, number: u32) {
        let process = self.processes.entry(number).or_default();
        let now_us = self.now_us;
        let past = |end: usize| self.view.events[end].at_us < now_us;
        match process.life {
            Life::Unseen => process.life = Life::Alive,
            Life::Killed(end, _) if past(end) => process.life = Life::Killed(end, Some(place)),
            Life::Ended(end) if past(end) => {
                self.contradict(|| format!("process {number} went on after its end"));
            }
            Life::Alive | Life::Killed(..) | Life::Ended(_) => {}
        }
    }

    fn name(&mut self, text: &'a str) -> usize {
        *self.names.entry(text).or_insert_with(|| {
            self.holders.push(Holders::default());
            self.view.names.push(Name {
                text,
                claims: Vec::new(),
                grants: Vec::new(),
                writes: Vec::new(),
            });
            self.view.names.len() - 1
        })
    }

    fn contradict(&mut self, tell: impl FnOnce() -> String) {
        self.view.contradictions.note(tell);
    }
}

/// So many events at most are looked at for one that stands behind in the same microsecond.
const TIES: usize = 1_000;
