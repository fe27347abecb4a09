//! The history, indexed for the rules: what happened to each claim, and who believed what when.

use std::collections::HashMap;

use crate::history::{Event, Freed, Mode};
use crate::verdict::Expect;

/// A history with an index. Events are identified by their position in it.
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
    /// The events that an owner recorded in a process, in order.
    pub(crate) noted: HashMap<(u32, usize), Vec<usize>>,
    pub(crate) contradictions: Contradictions,
}

/// What is known about one name.
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

/// What happened to one claim.
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
    /// The event that ended the belief.
    pub(crate) until: Option<usize>,
    /// The periods in which its belief does not count, in microseconds.
    pub(crate) excused: Vec<(u64, u64)>,
    /// Whether the name was held by another owner that excluded this claim when it was asked.
    pub(crate) blocked: bool,
    /// A claim of the same owner that held the name when this one was asked.
    pub(crate) nested_in: Option<usize>,
    /// Whether the same owner held the name when this one was granted.
    pub(crate) reentry: bool,
    /// Whether another claim on the name has the same owner. While one of them holds the name, the
    /// others bypass the line, and it is not known exactly when the store ends a claim.
    pub(crate) shares_owner: bool,
}

/// The grant of a claim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) event: usize,
    pub(crate) fence: Option<u64>,
}

/// The release of a claim.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) began: usize,
    pub(crate) told: Option<(usize, Freed)>,
}

/// A write to the resource.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) event: usize,
    pub(crate) claim: usize,
    pub(crate) fence: Option<u64>,
    pub(crate) read: u64,
    pub(crate) version: u64,
}

/// A pause of a process.
#[derive(Debug)]
pub(crate) struct Pause {
    pub(crate) from: usize,
    pub(crate) over: Option<usize>,
}

/// The end of a process that no fault caused.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) event: usize,
    pub(crate) process: u32,
    /// Whether it crashed without a fault that explains it.
    pub(crate) crashed: bool,
    /// A claim that was not answered yet.
    pub(crate) waiting: Option<usize>,
}

/// A part of a belief that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) claim: usize,
    pub(crate) from_us: u64,
    pub(crate) until_us: u64,
    /// The first event of the owner after a pause, if the piece starts there.
    pub(crate) back: Option<usize>,
}

/// Events that cannot have happened.
#[derive(Debug, Default)]
pub(crate) struct Contradictions {
    first: Vec<String>,
    more: usize,
}

impl View<'_> {
    /// Returns when an event happened, in microseconds.
    pub(crate) fn at(&self, event: usize) -> u64 {
        self.events[event].at_us
    }

    /// Returns the time of the last event.
    pub(crate) fn end_us(&self) -> u64 {
        self.events.last().map_or(0, |event| event.at_us)
    }

    /// Returns when the belief in a claim ended; `u64::MAX` if it never did.
    pub(crate) fn until_us(&self, claim: &Claim) -> u64 {
        claim.until.map_or(u64::MAX, |event| self.at(event))
    }

    /// Returns the parts of the belief in a claim that count: all of it, except for pauses, which
    /// nobody can notice in time, and periods that are excused.
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

    /// Returns the pauses of a claim's process that overlap with its belief, and the last pause
    /// before it, from which its owner may just have returned.
    fn pauses_around(&self, claim: &Claim, granted: usize) -> &[Pause] {
        let pauses = self.pauses.get(&claim.process).map_or(&[][..], |all| all);
        let before = |pause: &Pause| pause.over.is_some_and(|over| over < granted);
        let first = pauses.partition_point(before);
        &pauses[first.saturating_sub(1)..]
    }

    /// Returns the first event of the claim's owner after a pause.
    fn back(&self, claim: &Claim, pause: &Pause) -> Option<usize> {
        let over = pause.over?;
        let noted = self.noted.get(&(claim.process, claim.owner))?;
        let first = noted.partition_point(|event| *event < over);
        noted.get(first).copied()
    }
}

/// Returns the pieces before and after a period that does not count.
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
    /// Returns a claim that was asked, with nothing else known; its name and owner are still to be
    /// filled in.
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

    /// Returns the first answer to a claim: granted, refused or unknown.
    pub(crate) fn answered(&self) -> Option<usize> {
        let granted = self.granted.map(|grant| grant.event);
        let answers = [granted, self.refused, self.unknown];
        answers.into_iter().flatten().min()
    }

    /// Returns when the owner had certainly released the name in all processes, if that is known.
    ///
    /// If this claim no longer held the name, another claim of the owner may still hold it, even
    /// one without any event.
    pub(crate) fn gone(&self) -> Option<usize> {
        let mut told = self.releases.iter().filter_map(|release| release.told);
        told.find_map(|(event, freed)| (freed == Freed::Freed).then_some(event))
    }

    /// Returns whether a claim was neither answered nor withdrawn.
    pub(crate) fn is_open(&self) -> bool {
        self.answered().is_none() && self.releases.is_empty()
    }

    /// Returns when a claim stopped waiting: it was answered or withdrawn, or its process ended.
    pub(crate) fn closed(&self) -> Option<usize> {
        let withdrawn = self.releases.first().map(|release| release.began);
        let ends = [self.answered(), withdrawn, self.died];
        ends.into_iter().flatten().min()
    }
}

impl Contradictions {
    /// Records a contradiction.
    pub(crate) fn note(&mut self, tell: impl FnOnce() -> String) {
        if self.first.len() < 3 {
            self.first.push(tell());
        } else {
            self.more += 1;
        }
    }

    /// Returns whether the history is free of contradictions.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Returns the first contradictions, and how many more there are.
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
