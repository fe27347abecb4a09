//! The history, put in order for the rules: what became of each claim, and who believed what when.

use std::collections::HashMap;

use crate::history::{Event, Freed, Mode};
use crate::verdict::Expect;

/// A history with an index. Events are meant by their place in it.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) events: &'a [Event],
    pub(crate) expect: &'a Expect,
    /// In the order in which they were asked.
    pub(crate) claims: Vec<Claim>,
    pub(crate) names: Vec<Name<'a>>,
    pub(crate) pauses: HashMap<u32, Vec<Pause>>,
    pub(crate) ends: Vec<End>,
    pub(crate) faults: Vec<usize>,
    pub(crate) healed: Option<usize>,
    pub(crate) left: Vec<usize>,
    /// What an owner noted in a process, in order.
    pub(crate) noted: HashMap<(u32, usize), Vec<usize>>,
    pub(crate) contradictions: Contradictions,
}

/// What is known of one name.
#[derive(Debug)]
pub(crate) struct Name<'a> {
    pub(crate) text: &'a str,
    /// In the order in which they were asked.
    pub(crate) claims: Vec<usize>,
    /// In the order in which they were granted.
    pub(crate) grants: Vec<usize>,
    /// In the order of the resource.
    pub(crate) writes: Vec<Write>,
}

/// What became of one claim.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) number: u64,
    pub(crate) name: usize,
    pub(crate) owner: usize,
    pub(crate) mode: Mode,
    pub(crate) process: u32,
    pub(crate) asked: usize,
    pub(crate) queued: Option<usize>,
    pub(crate) granted: Option<Grant>,
    pub(crate) refused: Option<usize>,
    pub(crate) unknown: Option<usize>,
    pub(crate) lost: Option<usize>,
    pub(crate) releases: Vec<Release>,
    /// The end of its process.
    pub(crate) died: Option<usize>,
    /// The end of the belief.
    pub(crate) until: Option<usize>,
    /// From when to when its belief does not count, in microseconds.
    pub(crate) excused: Vec<(u64, u64)>,
    /// Whether another, who excluded it, held the name when it was asked.
    pub(crate) blocked: bool,
    /// A claim of the same owner that held the name when this one was asked.
    pub(crate) nested_in: Option<usize>,
    /// Whether the same owner held the name when this one was granted.
    pub(crate) reentry: bool,
    /// Whether another claim on the name has the same owner. While one of them holds the name, the others enter past
    /// the line, and when the store lets one go is not known exactly.
    pub(crate) shares_owner: bool,
}

/// A claim was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) event: usize,
    pub(crate) fence: Option<u64>,
}

/// A claim was let go.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) began: usize,
    pub(crate) told: Option<(usize, Freed)>,
}

/// The resource was asked to write.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) event: usize,
    pub(crate) claim: usize,
    pub(crate) fence: Option<u64>,
    pub(crate) read: u64,
    pub(crate) version: u64,
}

/// A process was paused.
#[derive(Debug)]
pub(crate) struct Pause {
    pub(crate) from: usize,
    pub(crate) over: Option<usize>,
}

/// A process has ended by itself.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) event: usize,
    pub(crate) process: u32,
    /// By a crash that no fault explains.
    pub(crate) crashed: bool,
    /// A claim that had no answer yet.
    pub(crate) waiting: Option<usize>,
}

/// A part of a belief that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) claim: usize,
    pub(crate) from_us: u64,
    pub(crate) until_us: u64,
    /// What the owner noted first after a pause, if the piece begins there.
    pub(crate) back: Option<usize>,
}

/// What cannot have happened.
#[derive(Debug, Default)]
pub(crate) struct Contradictions {
    first: Vec<String>,
    more: usize,
}

impl View<'_> {
    /// When an event happened, in microseconds.
    pub(crate) fn at(&self, event: usize) -> u64 {
        self.events[event].at_us
    }

    /// The time of the last event.
    pub(crate) fn end_us(&self) -> u64 {
        self.events.last().map_or(0, |event| event.at_us)
    }

    /// When the belief in a claim ended, or never.
    pub(crate) fn until_us(&self, claim: &Claim) -> u64 {
        claim.until.map_or(u64::MAX, |event| self.at(event))
    }

    /// The parts of the belief in a claim that count: all of it, but for pauses that nobody can notice in time.
    pub(crate) fn counted(&self, number: usize) -> Vec<Piece> {
        let claim = &self.claims[number];
        let Some(grant) = claim.granted else {
            return Vec::new();
        };
        let until_us = self.until_us(claim);
        let mut piece = Piece {
            claim: number,
            from_us: self.at(grant.event),
            until_us,
            back: None,
        };
        let mut pieces = Vec::new();
        for pause in self.pauses_around(claim, grant.event) {
            let from_us = self.at(pause.from);
            if from_us >= until_us {
                break;
            }
            pieces.push(Piece {
                until_us: from_us,
                ..piece
            });
            let back = self.back(claim, pause);
            let noticed_us = back.map_or(u64::MAX, |event| {
                self.at(event).saturating_add(self.expect.notice_us)
            });
            piece.from_us = piece.from_us.max(noticed_us);
            piece.back = back.filter(|event| *event > grant.event);
        }
        pieces.push(piece);
        for (from_us, until_us) in &claim.excused {
            pieces = without(&pieces, *from_us, *until_us);
        }
        pieces.retain(|piece| piece.from_us < piece.until_us);
        pieces
    }

    /// The pauses of a claim's process that touch its belief, and the last one before it: its owner may be just back.
    fn pauses_around(&self, claim: &Claim, granted: usize) -> &[Pause] {
        let pauses = self.pauses.get(&claim.process).map_or(&[][..], |all| all);
        let before = |pause: &Pause| pause.over.is_some_and(|over| over < granted);
        let first = pauses.partition_point(before);
        &pauses[first.saturating_sub(1)..]
    }

    /// What the owner of a claim noted first after a pause.
    fn back(&self, claim: &Claim, pause: &Pause) -> Option<usize> {
        let over = pause.over?;
        let noted = self.noted.get(&(claim.process, claim.owner))?;
        let first = noted.partition_point(|event| *event < over);
        noted.get(first).copied()
    }
}

/// The pieces before and after a time that does not count.
fn without(pieces: &[Piece], from_us: u64, until_us: u64) -> Vec<Piece> {
    let around = pieces.iter().flat_map(|piece| {
        let before = Piece {
            until_us: piece.until_us.min(from_us),
            ..*piece
        };
        let after = Piece {
            from_us: piece.from_us.max(until_us),
            ..*piece
        };
        [before, after]
    });
    around
        .filter(|piece| piece.from_us < piece.until_us)
        .collect()
}

impl Claim {
    /// A claim of which nothing is known but that it was asked; its name and owner are to be filled in.
    pub(crate) fn new(asked: usize, process: u32, number: u64, mode: Mode) -> Self {
        Self {
            number,
            name: 0,
            owner: 0,
            mode,
            process,
            asked,
            queued: None,
            granted: None,
            refused: None,
            unknown: None,
            lost: None,
            releases: Vec::new(),
            died: None,
            until: None,
            excused: Vec::new(),
            blocked: false,
            nested_in: None,
            reentry: false,
            shares_owner: false,
        }
    }

    /// The first answer to a claim: granted, refused or unknown.
    pub(crate) fn answered(&self) -> Option<usize> {
        let granted = self.granted.map(|grant| grant.event);
        let answers = [granted, self.refused, self.unknown];
        answers.into_iter().flatten().min()
    }

    /// When its owner had certainly let go of the name, in all processes, if that is known.
    ///
    /// Another of its claims may hold the name if this one did not hold it any more, also one of which nothing is noted.
    pub(crate) fn gone(&self) -> Option<usize> {
        let mut told = self.releases.iter().filter_map(|release| release.told);
        told.find_map(|(event, freed)| (freed == Freed::Freed).then_some(event))
    }

    /// Whether a claim was neither answered nor taken back.
    pub(crate) fn is_open(&self) -> bool {
        self.answered().is_none() && self.releases.is_empty()
    }

    /// When a claim no longer waited: it was answered or taken back, or its process ended.
    pub(crate) fn closed(&self) -> Option<usize> {
        let withdrawn = self.releases.first().map(|release| release.began);
        let ends = [self.answered(), withdrawn, self.died];
        ends.into_iter().flatten().min()
    }
}

impl Contradictions {
    /// Notes what cannot have happened.
    pub(crate) fn note(&mut self, tell: impl FnOnce() -> String) {
        if self.first.len() < 3 {
            self.first.push(tell());
        } else {
            self.more += 1;
        }
    }

    /// Whether the history may be true.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The first of them, and how many more there are.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<_> = self
            .first
            .iter()
            .map(|said| format!("the history contradicts itself: {said}"))
            .collect();
        if self.more > 0 {
            sentences.push(format!(
                "the history contradicts itself {} more times",
                self.more
            ));
        }
        sentences
    }
}
