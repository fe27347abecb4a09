//! Parses the replies of the scripts.

use std::time::Duration;

use redis::Value;

use crate::driver::{Answer, Claim, Grant, Loss, Released, Renewed};
use crate::error::{Error, Result};
use crate::name::Fence;
use crate::store::redis::fault;

/// A grant as acquire.lua writes it: "<fence>[ <clock>][ joins]".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    fence: Fence,
    /// The server's clock, if the server votes.
    pub(crate) clock_us: Option<u64>,
    /// Whether the claim shares the fence of another claim of its owner.
    pub(crate) joins: bool,
}

impl Granted {
    /// Parses a reply; `None` if it is not a grant.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (numbers, joins) = match text.strip_suffix(" joins") {
            Some(numbers) => (numbers, true),
            None => (text, false),
        };
        let (fence, clock_us) = match numbers.split_once(' ') {
            Some((fence, clock_us)) => (fence, Some(clock_us.parse().ok()?)),
            None => (numbers, None),
        };
        Some(Self {
            fence: read_fence(fence.as_bytes())?,
            clock_us,
            joins,
        })
    }

    /// Returns the answer to a claim; one that shares a fence has none of the reserved ones.
    pub(crate) fn to(self, claim: &Claim) -> Answer {
        let fences = if self.joins { 1 } else { claim.fences.max(1) };
        Answer::Granted(Grant::new(self.fence, claim.ttl).with_fences(fences))
    }
}

/// Parses a reply to a claim that is not a grant: taken, or a place in line.
pub(crate) fn waits(answer: &Value) -> Result<Answer> {
    match answer {
        Value::Int(0) => Ok(Answer::Busy),
        Value::Int(queued) => Ok(Answer::Queued {
            ask_again: Some(Duration::from_millis(queued.unsigned_abs() - 1)),
        }),
        _ => Err(fault::garbled()),
    }
}

/// Parses a reply to a claim that is neither a grant nor a number.
pub(crate) fn refused(claim: &Claim, answer: &[u8]) -> Error {
    if answer == b"conflict" {
        let name = claim.name.clone();
        return Error::ModeConflict { name };
    }
    fault::garbled()
}

/// Parses the result of one renewal.
pub(crate) fn renewed(answer: &Value, ttl: Duration) -> Result<Renewed> {
    let Value::BulkString(answer) = answer else {
        return Err(fault::garbled());
    };
    match read_fence(answer) {
        Some(fence) => Ok(Renewed::Extended { fence, valid: ttl }),
        None => loss(answer).map(Renewed::Lost),
    }
}

/// Parses the result of a release.
pub(crate) fn released(answer: &Value) -> Result<Released> {
    match answer {
        Value::Int(left) => match u32::try_from(*left) {
            Ok(left) => Ok(Released::Freed { left }),
            Err(_) => Err(fault::garbled()),
        },
        Value::BulkString(answer) => loss(answer).map(Released::NotHeld),
        _ => Err(fault::garbled()),
    }
}

/// Parses a fence.
pub(crate) fn read_fence(text: &[u8]) -> Option<Fence> {
    Fence::new(std::str::from_utf8(text).ok()?.parse().ok()?)
}

fn loss(answer: &[u8]) -> Result<Loss> {
    match answer {
        b"taken" => Ok(Loss::TakenOver),
        b"gone" => Ok(Loss::Gone),
        _ => Err(fault::garbled()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_says_its_fence_the_clock_and_whether_it_joins() {
        let granted = |clock_us, joins| {
            let fence = Fence::new(7).unwrap();
            Some(Granted {
                fence,
                clock_us,
                joins,
            })
        };
        assert_eq!(Granted::read(b"7"), granted(None, false));
        assert_eq!(Granted::read(b"7 joins"), granted(None, true));
        assert_eq!(Granted::read(b"7 9"), granted(Some(9), false));
        assert_eq!(Granted::read(b"7 9 joins"), granted(Some(9), true));
        for text in ["", "0", "conflict", "7 x", " joins", "7 9 8"] {
            assert_eq!(Granted::read(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_a_fault() {
        assert!(waits(&Value::Nil).is_err());
        assert!(renewed(&Value::Int(1), Duration::ZERO).is_err());
        assert!(renewed(&Value::BulkString(b"0".to_vec()), Duration::ZERO).is_err());
        assert!(released(&Value::Int(-1)).is_err());
        assert!(released(&Value::BulkString(b"freed".to_vec())).is_err());
    }
}
