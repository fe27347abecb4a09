//! Parses the messages that scripts publish to a client's inbox.

use std::time::Duration;

use crate::driver::{Grant, Loss, News};
use crate::name::ClaimId;
use crate::store::redis::answers::read_fence;
use crate::store::redis::keys::Keys;

/// Parses a message: a letter, its arguments, a line break, and the key of the lease.
///
/// Returns `None` for a message from somebody else.
pub(crate) fn read(message: &[u8], keys: &Keys) -> Option<News> {
    let message = std::str::from_utf8(message).ok()?;
    let (what, key) = message.split_once('\n')?;
    let name = keys.name(key)?;
    let mut words = what.splitn(2, ' ');
    let letter = words.next()?;
    let rest = words.next().unwrap_or_default();
    match letter {
        "a" => Some(News::AskAgain(Some(name))),
        "g" => {
            let mut words = rest.splitn(5, ' ');
            let fence = read_fence(words.next()?.as_bytes())?;
            let fences = words.next()?.parse().ok()?;
            let valid = Duration::from_millis(words.next()?.parse().ok()?);
            let after_us: i64 = words.next()?.parse().ok()?;
            Some(News::Granted {
                name,
                claim: ClaimId::new(words.next()?).ok()?,
                grant: Grant::new(fence, valid).with_fences(fences),
                // The time is negative if the server's clock was set back in the meantime.
                after: Duration::from_micros(u64::try_from(after_us).unwrap_or(0)),
            })
        }
        "l" | "w" => {
            let (fence, claim) = rest.split_once(' ')?;
            let (fence, claim) = (read_fence(fence.as_bytes())?, ClaimId::new(claim).ok()?);
            let loss = Loss::Evicted;
            Some(match letter {
                "l" => News::Lost {
                    name,
                    claim,
                    fence,
                    loss,
                },
                _ => News::Wanted { name, claim, fence },
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Fence, Name};

    #[test]
    fn each_message_is_news() {
        let keys = Keys::new("tenure:");
        let name = Name::new("a b").unwrap();
        let claim = ClaimId::new("ann o").unwrap();
        let fence = Fence::new(7).unwrap();
        let read = |message: &str| read(message.as_bytes(), &keys);
        let again = News::AskAgain(Some(name.clone()));
        assert_eq!(read("a\ntenure:{a b}"), Some(again));
        let granted = News::Granted {
            name: name.clone(),
            claim: claim.clone(),
            grant: Grant::new(fence, Duration::from_millis(30_000)).with_fences(8),
            after: Duration::from_micros(1500),
        };
        let message = "g 7 8 30000 1500 ann o\ntenure:{a b}";
        assert_eq!(read(message), Some(granted));
        let lost = News::Lost {
            name: name.clone(),
            claim: claim.clone(),
            fence,
            loss: Loss::Evicted,
        };
        assert_eq!(read("l 7 ann o\ntenure:{a b}"), Some(lost));
        let wanted = News::Wanted { name, claim, fence };
        assert_eq!(read("w 7 ann o\ntenure:{a b}"), Some(wanted));
    }

    #[test]
    fn a_clock_that_went_back_loses_no_message() {
        let keys = Keys::new("tenure:");
        let news = read(b"g 7 1 1000 -5 ann\ntenure:{a}", &keys);
        let Some(News::Granted { after, .. }) = news else {
            panic!("{news:?}");
        };
        assert_eq!(after, Duration::ZERO);
    }

    #[test]
    fn anything_else_is_no_news() {
        let keys = Keys::new("tenure:");
        for message in [
            "",
            "a",
            "x\ntenure:{a}",
            "g 7\ntenure:{a}",
            "g 0 1 1 1 o\ntenure:{a}",
            "g 1 1 1 o\ntenure:{a}",
            "a\nother:{a}",
            "l x o\ntenure:{a}",
        ] {
            assert_eq!(read(message.as_bytes(), &keys), None, "{message:?}");
        }
        assert_eq!(read(b"\xff\n", &keys), None);
    }
}
