//! What scripts write to a client's inbox, as news.

use std::time::Duration;

use crate::driver::{Loss, News};
use crate::name::{Fence, Owner};
use crate::store::redis::keys::Keys;

/// Reads a message: a letter, what belongs to it, a line break, and the key of the lease.
///
/// `None` if it is not one of ours.
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
            let (fence, rest) = rest.split_once(' ')?;
            let (after, owner) = rest.split_once(' ')?;
            Some(News::Granted {
                name,
                owner: Owner::named(owner).ok()?,
                fence: fence_of(fence)?,
                after: Duration::from_micros(after.parse().ok()?),
            })
        }
        "l" => {
            let (fence, owner) = rest.split_once(' ')?;
            Some(News::Lost {
                name,
                owner: Owner::named(owner).ok()?,
                fence: fence_of(fence)?,
                loss: Loss::Evicted,
            })
        }
        "w" => {
            let (fence, owner) = rest.split_once(' ')?;
            Some(News::Wanted {
                name,
                owner: Owner::named(owner).ok()?,
                fence: fence_of(fence)?,
            })
        }
        _ => None,
    }
}

fn fence_of(text: &str) -> Option<Fence> {
    Fence::new(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    #[test]
    fn each_message_is_news() {
        let keys = Keys::new("tenure:");
        let name = Name::new("a b").unwrap();
        let owner = Owner::named("ann o").unwrap();
        let fence = Fence::new(7).unwrap();
        let read = |message: &str| read(message.as_bytes(), &keys);
        let again = News::AskAgain(Some(name.clone()));
        assert_eq!(read("a\ntenure:{a b}"), Some(again));
        let granted = News::Granted {
            name: name.clone(),
            owner: owner.clone(),
            fence,
            after: Duration::from_micros(1500),
        };
        assert_eq!(read("g 7 1500 ann o\ntenure:{a b}"), Some(granted));
        let lost = News::Lost {
            name: name.clone(),
            owner: owner.clone(),
            fence,
            loss: Loss::Evicted,
        };
        assert_eq!(read("l 7 ann o\ntenure:{a b}"), Some(lost));
        let wanted = News::Wanted { name, owner, fence };
        assert_eq!(read("w 7 ann o\ntenure:{a b}"), Some(wanted));
    }

    #[test]
    fn anything_else_is_no_news() {
        let keys = Keys::new("tenure:");
        for message in [
            "",
            "a",
            "x\ntenure:{a}",
            "g 7\ntenure:{a}",
            "g 0 1 o\ntenure:{a}",
            "a\nother:{a}",
            "l x o\ntenure:{a}",
        ] {
            assert_eq!(read(message.as_bytes(), &keys), None, "{message:?}");
        }
        assert_eq!(read(b"\xff\n", &keys), None);
    }
}
