//! From a name to the keys of its lock, and back.

use crate::name::Name;
use crate::url::decode;

/// The keys and channels of one store.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    /// Returns the key of a name's lease: `<prefix>{<name>}`.
    ///
    /// The braces are a hash tag, so that all keys of a lock are in one slot of a cluster. A tag
    /// ends at the first closing brace, so closing braces in the name are escaped as `%7D`.
    pub(crate) fn lease(&self, name: &Name) -> String {
        let name = name.as_str();
        let mut key = String::with_capacity(self.prefix.len() + name.len() + 2);
        key.push_str(&self.prefix);
        key.push('{');
        if name.contains(['}', '%']) {
            for letter in name.chars() {
                match letter {
                    '}' => key.push_str("%7D"),
                    '%' => key.push_str("%25"),
                    other => key.push(other),
                }
            }
        } else {
            key.push_str(name);
        }
        key.push('}');
        key
    }

    /// Returns the name whose lease or line has this key.
    pub(crate) fn name(&self, key: &str) -> Option<Name> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix('{')?;
        let rest = rest.strip_suffix(LINE).unwrap_or(rest);
        let text = rest.strip_suffix('}')?;
        if text.contains('}') {
            return None;
        }
        Name::new(&decode(text).ok()?).ok()
    }

    /// Returns the prefix of all inboxes.
    pub(crate) fn inboxes(&self) -> String {
        format!("{}inbox:", self.prefix)
    }

    /// Returns the pattern of all leases and lines, for SCAN.
    pub(crate) fn pattern(&self) -> String {
        escaped(&self.prefix) + "{*}*"
    }
}

/// Escapes a text for a glob pattern.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

pub(crate) const LINE: &str = ":line";
pub(crate) const PLACES: &str = ":places";
pub(crate) const ENDS: &str = ":ends";
pub(crate) const FENCE: &str = ":fence";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_stands_in_its_key_as_it_is() {
        let keys = Keys::new("tenure:");
        let name = Name::new("inventory:001").unwrap();
        assert_eq!(keys.lease(&name), "tenure:{inventory:001}");
    }

    #[test]
    fn other_keys_of_a_lock_are_no_lease() {
        let keys = Keys::new("tenure:");
        assert_eq!(keys.name("tenure:{a}:line"), Name::new("a").ok());
        for other in [
            "tenure:{a}:fence",
            "tenure:{a}:ends",
            "tenure:{a}:places",
            "other:{a}",
            "tenure:a",
        ] {
            assert_eq!(keys.name(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_name_has_one_key_and_one_slot(one in "[a}{%7D:*]{1,8}", other in "[a}{%7D:*]{1,8}") {
            let keys = Keys::new("p:");
            let (one, other) = (Name::new(&one).unwrap(), Name::new(&other).unwrap());
            let key = keys.lease(&one);
            prop_assert_eq!(keys.name(&key), Some(one.clone()));
            prop_assert_eq!(key == keys.lease(&other), one == other);
            // A cluster hashes everything between the braces.
            let tag = &key[3..key.find('}').unwrap()];
            prop_assert_eq!(tag.len() + 4, key.len());
        }
    }
}
