//! Finds a command that waits for a lock which the command around it holds.

use tenure::driver::Mode;
use tenure::{Client, Name};

/// A lock that the command around this one holds, or the script that this one runs in.
#[derive(Debug)]
pub(crate) struct Around {
    /// Whether it is held until that command ends, and not only until a ttl is over.
    pub(crate) for_good: bool,
    /// What to tell people.
    pub(crate) sentence: String,
}

impl Around {
    /// Looks for it, if the environment says that the name is held as another owner than `owner`.
    ///
    /// The store is asked, because the environment may be older than the lock.
    pub(crate) async fn find(
        client: &Client,
        name: &Name,
        mode: Mode,
        owner: Option<&str>,
    ) -> Option<Self> {
        if std::env::var("TENURE_NAME").ok()? != name.as_str() {
            return None;
        }
        let around = std::env::var("TENURE_OWNER").ok()?;
        if owner == Some(around.as_str()) {
            return None;
        }
        // If the store does not answer, the request for the lock tells why.
        let entries = client.list(Some(name)).await.ok()?;
        let mut holders = entries.iter().flat_map(|entry| &entry.holders);
        holders.find(|holder| {
            let is_around = holder.owner.as_str() == around && holder.depth > 0;
            is_around && excludes(holder.mode, mode)
        })?;
        // Only `acquire` sets this variable, and `run` removes it.
        let for_good = std::env::var_os("TENURE_CLAIM").is_none();
        let around = match for_good {
            true => "the command around this one",
            false => "this script",
        };
        let enter = match client.capabilities().shared_owners {
            true => "; to enter it again, use --owner \"$TENURE_OWNER\"",
            false => ", and this store has no way to enter it again",
        };
        let sentence = format!("'{name}' is already held by {around}{enter}");
        Some(Self { for_good, sentence })
    }
}

/// Returns whether nobody can get `wanted` while somebody else holds `held`.
fn excludes(held: Mode, wanted: Mode) -> bool {
    match (held, wanted) {
        (Mode::Shared, Mode::Shared) => false,
        (Mode::Permits { take, .. }, Mode::Permits { take: more, of }) => {
            take.saturating_add(more) > of
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_modes_that_cannot_be_held_together_exclude_each_other() {
        let permits = |take| Mode::Permits { take, of: 3 };
        let cases = [
            (Mode::Exclusive, Mode::Exclusive, true),
            (Mode::Exclusive, Mode::Shared, true),
            (Mode::Shared, Mode::Exclusive, true),
            (Mode::Shared, Mode::Shared, false),
            (permits(2), permits(1), false),
            (permits(2), permits(2), true),
        ];
        for (held, wanted, expected) in cases {
            assert_eq!(excludes(held, wanted), expected, "{held:?} {wanted:?}");
        }
    }
}
