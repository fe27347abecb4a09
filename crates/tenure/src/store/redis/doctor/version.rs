//! Which server and version it is, and the known problems of that version.

use crate::doctor::{Check, Finding, Verdict};
use crate::store::redis::doctor::node::Facts;

/// Checks the version.
pub(crate) fn version(facts: &Facts) -> Finding {
    if let Some(valkey) = facts.info("valkey_version") {
        return of_valkey(valkey);
    }
    let Some(text) = facts.info("redis_version") else {
        return CHECK.unknown(
            "not checked: the server does not answer INFO",
            "run this as a user with +info, and see that it is Redis 6.2 or newer",
        );
    };
    let Some(version) = Version::read(text) else {
        return CHECK.unknown(
            format!("the server's version {text:?} could not be parsed"),
            "see that it is Redis 6.2 or newer, or any Valkey",
        );
    };
    let found = format!("Redis {text}");
    if version < Version(6, 2, 0) {
        let advice = "update: locks need Redis 6.2 or newer, or any Valkey";
        return CHECK.problem(found, advice);
    }
    if !version.is_patched(&REDIS_FIXED) {
        return CHECK.warning(found + UNPATCHED, advice(&REDIS_FIXED));
    }
    let fine = CHECK.fine(found);
    match version < Version(7, 0, 0) {
        true => fine.but(
            Verdict::Fine,
            "plan an update: this line is old, though locks work",
        ),
        false => fine,
    }
}

fn of_valkey(text: &str) -> Finding {
    let found = format!("Valkey {text}");
    match Version::read(text) {
        Some(version) if !version.is_patched(&VALKEY_FIXED) => {
            CHECK.warning(found + UNPATCHED, advice(&VALKEY_FIXED))
        }
        _ => CHECK.fine(found),
    }
}

fn advice(fixed: &[Version]) -> String {
    let fixed: Vec<_> = fixed.iter().map(ToString::to_string).collect();
    format!(
        "update to {} or newer, unless your distribution has backported the fix; let nobody but \
         programs that lock run scripts",
        fixed.join(", ")
    )
}

/// A version of three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

impl Version {
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|part| {
            let digits = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..digits].parse().ok()
        });
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self(major, minor, numbers.next().flatten().unwrap_or(0)))
    }

    /// Returns whether it contains the fix of its own release line, or belongs to a later line than
    /// all of these.
    fn is_patched(self, fixed: &[Self]) -> bool {
        let line = fixed.iter().find(|fix| (fix.0, fix.1) == (self.0, self.1));
        match line {
            Some(fix) => self >= *fix,
            None => fixed.iter().all(|fix| self > *fix),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

const CHECK: Check = Check("version");

const UNPATCHED: &str = ", where a user who may run scripts can take over the server \
                         (CVE-2025-49844)";

/// The releases of each line of Redis that fix CVE-2025-49844.
const REDIS_FIXED: [Version; 5] = [
    Version(6, 2, 20),
    Version(7, 2, 11),
    Version(7, 4, 6),
    Version(8, 0, 4),
    Version(8, 2, 2),
];

/// The same for Valkey.
const VALKEY_FIXED: [Version; 3] = [Version(7, 2, 11), Version(8, 0, 6), Version(8, 1, 4)];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, version: &str) -> Finding {
        super::version(&Facts::of(&[(name, version)], &[]))
    }

    #[test]
    fn a_version_is_fine_old_unpatched_or_unknown() {
        let cases = [
            ("5.0.14", Verdict::Problem),
            ("6.0.16", Verdict::Problem),
            ("6.2.19", Verdict::Warning),
            ("6.2.20", Verdict::Fine),
            ("7.0.15", Verdict::Warning),
            ("7.2.10", Verdict::Warning),
            ("7.2.11", Verdict::Fine),
            ("7.4.6", Verdict::Fine),
            ("8.0.3", Verdict::Warning),
            ("8.2.1", Verdict::Warning),
            ("8.2.2", Verdict::Fine),
            ("8.4.0", Verdict::Fine),
            ("255.255.255", Verdict::Fine),
            ("new", Verdict::Unknown),
        ];
        for (version, verdict) in cases {
            assert_eq!(of("redis_version", version).verdict, verdict, "{version}");
        }
        assert_eq!(super::version(&Facts::default()).verdict, Verdict::Unknown);
    }

    #[test]
    fn valkey_is_not_taken_for_the_redis_that_it_says_it_is() {
        let both = [("redis_version", "7.2.4"), ("valkey_version", "8.1.4")];
        let found = super::version(&Facts::of(&both, &[]));
        assert_eq!(
            (found.verdict, found.found.as_str()),
            (Verdict::Fine, "Valkey 8.1.4")
        );
        assert_eq!(of("valkey_version", "8.0.5").verdict, Verdict::Warning);
    }
}
