//! Formats a verdict as text for people.

use std::fmt::{self, Display, Formatter};

use crate::history::{Event, Freed, Mode, What, Written};
use crate::verdict::{Finding, Promise, Statistics, Verdict};

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid { statistics } => writeln!(f, "valid: {statistics}"),
            Self::Broken {
                findings,
                statistics,
            } => {
                writeln!(f, "broken: {statistics}")?;
                findings.iter().try_for_each(|found| write!(f, "\n{found}"))
            }
            Self::Unknown {
                reasons,
                statistics,
            } => {
                writeln!(f, "unknown, which is no pass: {statistics}")?;
                let mut reasons = reasons.iter();
                reasons.try_for_each(|reason| writeln!(f, "  {reason}"))
            }
        }
    }
}

/// Writes the promise and the sentence, then the events as a table: milliseconds since the first of
/// them, process, what happened.
impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.sentence)?;
        match self.count {
            0 | 1 => writeln!(f)?,
            count => writeln!(f, " (the first of {count})")?,
        }
        let start_us = self.events.first().map_or(0, |event| event.at_us);
        for event in &self.events {
            let after_us = event.at_us.saturating_sub(start_us);
            let (ms, us) = (after_us / 1_000, after_us % 1_000);
            let Event { process, what, .. } = event;
            writeln!(f, "  {ms:>8}.{us:03} ms  process {process:<3}  {what}")?;
        }
        Ok(())
    }
}

impl Display for Promise {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exclusion => "exclusion",
            Self::NoLostUpdate => "no-lost-update",
            Self::FencedWrites => "fenced-writes",
            Self::GrowingFences => "growing-fences",
            Self::OwnerOnly => "owner-only",
            Self::Order => "order",
            Self::Liveness => "liveness",
            Self::NothingLeft => "nothing-left",
            Self::HonestErrors => "honest-errors",
        })
    }
}

impl Display for Statistics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            claims,
            granted,
            contended,
            refused,
            unknown,
            lost,
            writes,
            stale,
            faults,
        } = self;
        write!(
            f,
            "{claims} claims, {granted} granted ({contended} had to wait), {refused} refused, {unknown} unknown, \
             {lost} lost; {writes} writes, {stale} refused as stale; faults: "
        )?;
        if faults.is_empty() {
            return f.write_str("none");
        }
        let faults: Vec<_> = faults
            .iter()
            .map(|it| format!("{} {}", it.1, it.0))
            .collect();
        f.write_str(&faults.join(", "))
    }
}

impl Display for What {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("begins"),
            Self::Ended { crashed: false } => f.write_str("ends"),
            Self::Ended { crashed: true } => f.write_str("crashes"),
            Self::Asked {
                claim,
                name,
                mode,
                owner,
            } => write!(
                f,
                "claim {claim} asks for \"{name}\"{mode}, as owner {owner}"
            ),
            Self::Queued { claim } => write!(f, "claim {claim} is seen in line"),
            Self::Granted { claim, fence } => {
                write!(f, "claim {claim} is granted{}", Fence(*fence))
            }
            Self::Refused { claim } => write!(f, "claim {claim} is refused"),
            Self::Unknown { claim, error } => write!(f, "claim {claim} is unknown: {error}"),
            Self::Lost { claim } => write!(f, "claim {claim} is noticed to be lost"),
            Self::Releasing { claim } => write!(f, "claim {claim} begins to let go"),
            Self::Released { claim, freed } => write!(f, "claim {claim} is told: {freed}"),
            Self::Wrote {
                claim,
                name,
                fence,
                read,
                version,
                outcome,
            } => write!(
                f,
                "claim {claim} writes version {version} of \"{name}\" over {read}{}: {outcome}",
                Fence(*fence)
            ),
            Self::Fault { kind, target } => write!(f, "fault: {kind}{}", Target(*target)),
            Self::Over { kind, target } => write!(f, "over: {kind}{}", Target(*target)),
            Self::Excused { claim, until_us } => {
                write!(f, "claim {claim} is excused until {until_us} µs")
            }
            Self::Healed => f.write_str("no more faults from here on"),
            Self::Left { found } => write!(f, "left behind: {found}"),
        }
    }
}

/// Writes the mode, unless it is exclusive.
impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => Ok(()),
            Self::Shared => f.write_str(", shared"),
            Self::Permits { take, of } => write!(f, ", {take} of {of} permits"),
        }
    }
}

impl Display for Freed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Freed => "freed",
            Self::Lowered => "held once less",
            Self::NotHeld => "not held any more",
            Self::Unknown => "nobody knows",
        })
    }
}

impl Display for Written {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted",
            Self::Stale => "refused as stale",
        })
    }
}

/// A fence, if there is one.
struct Fence(Option<u64>);

impl Display for Fence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |fence| write!(f, ", fence {fence}"))
    }
}

/// The process that a fault hit, if any.
struct Target(Option<u32>);

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |process| write!(f, " of process {process}"))
    }
}
