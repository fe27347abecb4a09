//! Patterns for names: `*` stands for any text, `?` for one character.

/// A pattern that selects names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pattern(Option<Vec<char>>);

impl Pattern {
    /// Creates a pattern; `None` matches all names.
    pub(crate) fn new(text: Option<&str>) -> Self {
        Self(text.map(|text| text.chars().collect()))
    }

    /// Returns whether the pattern matches a name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some(pattern) = &self.0 else {
            return true;
        };
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut seen) = (0, 0);
        // The position of the latest star, and how much of the name it has matched.
        let mut star: Option<(usize, usize)> = None;
        while seen < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(&one) if one == '?' || one == name[seen] => {
                    at += 1;
                    seen += 1;
                }
                _ => {
                    let Some((place, taken)) = star else {
                        return false;
                    };
                    star = Some((place, taken + 1));
                    at = place + 1;
                    seen = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|one| *one == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_shells_do() {
        let cases = [
            ("*", "anything", true),
            ("deploy", "deploy", true),
            ("deploy", "deploys", false),
            ("deploy/*", "deploy/eu", true),
            ("deploy/*", "deploy", false),
            ("*a*b", "xaxxab", true),
            ("*a*b", "xaxxabc", false),
            ("?", "ä", true),
            ("?", "", false),
            ("", "a", false),
            ("a**", "a", true),
        ];
        for (pattern, name, expected) in cases {
            let found = Pattern::new(Some(pattern)).matches(name);
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }
}
