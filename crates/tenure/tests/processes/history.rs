//! What many processes have seen of a lock, and whether that is possible.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use tenure::driver::Entry;

use crate::boot_time;

/// The events that one process records, in a separate file. A killed process leaves complete lines
/// and at most one incomplete one.
#[derive(Debug)]
pub(crate) struct Diary(File);

impl Diary {
    pub(crate) fn open(folder: &Path) -> Self {
        let path = folder.join(format!("diary-{}", std::process::id()));
        Self(File::create_new(path).expect("a process has one diary"))
    }

    /// Records a grant; called as soon as it is known.
    pub(crate) fn granted(&self, name: &str, fence: u64) {
        self.note(&format!("granted {name} {fence} {}\n", boot_time()));
    }

    /// Records the end of a hold; called before the release.
    pub(crate) fn releases(&self, name: &str, fence: u64) {
        self.note(&format!("releases {name} {fence} {}\n", boot_time()));
    }

    fn note(&self, line: &str) {
        let written = (&self.0).write_all(line.as_bytes());
        written.expect("a diary can be written");
    }
}

/// A period in which a process believed that it held a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    name: String,
    fence: u64,
    pid: u32,
    from: u64,
    until: u64,
}

/// Returns how many grants the files contain so far.
pub(crate) fn grants(folder: &Path) -> usize {
    let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let diaries = files.filter(|file| file.file_name().to_string_lossy().starts_with("diary-"));
    let texts = diaries.map(|file| fs::read_to_string(file.path()).unwrap());
    texts.map(|text| text.matches("granted ").count()).sum()
}

/// Reads all files. A process that was killed while it held a name held it at least until then.
pub(crate) fn holds(folder: &Path, killed: &BTreeMap<u32, u64>) -> Vec<Hold> {
    let mut holds = Vec::new();
    for file in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let file_name = file.file_name();
        let Some(pid) = file_name
            .to_str()
            .and_then(|name| name.strip_prefix("diary-"))
        else {
            continue;
        };
        let text = fs::read_to_string(file.path()).unwrap();
        holds.extend(read(&text, pid.parse().unwrap(), killed));
    }
    holds
}

fn read(text: &str, pid: u32, killed: &BTreeMap<u32, u64>) -> Vec<Hold> {
    let mut open = BTreeMap::new();
    let mut holds = Vec::new();
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    for line in text[..whole].lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [verb, name, fence, at] = words[..] else {
            panic!("{line}");
        };
        let (fence, at) = (fence.parse().unwrap(), at.parse().unwrap());
        let hold = Hold {
            name: name.to_owned(),
            fence,
            pid,
            from: at,
            until: at,
        };
        match verb {
            "granted" => assert_eq!(open.insert((name, fence), hold), None, "granted twice"),
            _ => {
                let begun = open
                    .remove(&(name, fence))
                    .expect("held before it is released");
                holds.push(Hold {
                    from: begun.from,
                    ..hold
                });
            }
        }
    }
    for hold in open.into_values() {
        let until = *killed
            .get(&pid)
            .expect("only who was killed does not release");
        holds.push(Hold {
            until: until.max(hold.from),
            ..hold
        });
    }
    holds
}

/// Fails if two holds of one name overlap, or if a fence does not grow.
pub(crate) fn check(mut holds: Vec<Hold>) -> Result<usize, String> {
    holds.sort_by(|one, other| {
        (&one.name, one.fence, one.from).cmp(&(&other.name, other.fence, other.from))
    });
    for pair in holds.windows(2) {
        let [one, next] = pair else {
            unreachable!("windows of two");
        };
        if one.name != next.name {
            continue;
        }
        if one.fence == next.fence {
            return Err(format!("granted twice: {one:?}, {next:?}"));
        }
        if one.until > next.from {
            return Err(format!(
                "held at once, or granted out of order: {one:?}, {next:?}"
            ));
        }
    }
    Ok(holds.len())
}

/// Fails if a waiter was passed over between two snapshots of one name.
pub(crate) fn check_order(before: &Entry, after: &Entry) -> Result<(), String> {
    let line = |entry: &Entry| -> Vec<_> {
        entry
            .waiters
            .iter()
            .map(|waiter| waiter.claim.clone())
            .collect()
    };
    let (was, is) = (line(before), line(after));
    let place = |claim| was.iter().position(|waiter| waiter == claim);
    let stayed: Vec<_> = is.iter().map(place).collect();
    let known = stayed.iter().take_while(|place| place.is_some()).count();
    if stayed[known..].iter().any(Option::is_some) || !stayed[..known].is_sorted() {
        return Err(format!("the line changed its order: {stayed:?}"));
    }
    let first_left = stayed.first().copied().flatten();
    for holder in &after.holders {
        if let (Some(went_in), Some(left)) = (place(&holder.claim), first_left)
            && left < went_in
        {
            return Err(format!("{went_in} went in while {left} still waits"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure::driver::{About, Holder, Waiter};
    use tenure::{ClaimId, Fence};

    use super::*;

    fn hold(fence: u64, from: u64, until: u64) -> Hold {
        let name = "a".to_owned();
        Hold {
            name,
            fence,
            pid: 1,
            from,
            until,
        }
    }

    #[test]
    fn holds_one_after_the_other_are_fine() {
        let holds = vec![hold(7, 20, 30), hold(3, 10, 20), hold(8, 30, 31)];
        assert_eq!(check(holds), Ok(3));
    }

    #[test]
    fn two_holds_at_once_are_found() {
        assert!(check(vec![hold(1, 10, 20), hold(2, 19, 30)]).is_err());
        assert!(check(vec![hold(1, 10, 20), hold(2, 12, 13)]).is_err());
    }

    #[test]
    fn a_fence_that_does_not_grow_is_found() {
        assert!(check(vec![hold(2, 10, 20), hold(1, 20, 30)]).is_err());
        assert!(check(vec![hold(1, 10, 20), hold(1, 20, 30)]).is_err());
    }

    #[test]
    fn names_have_nothing_to_do_with_each_other() {
        let other = Hold {
            name: "b".to_owned(),
            ..hold(1, 15, 25)
        };
        assert_eq!(check(vec![hold(2, 10, 20), other]), Ok(2));
    }

    #[test]
    fn the_killed_hold_until_they_were_killed() {
        let text = "granted a 1 10\nreleases a 1 15\ngranted a 2 20\nreleases a 2 2";
        let holds = read(text, 1, &BTreeMap::from([(1, 50)]));
        assert_eq!(holds, [hold(1, 10, 15), hold(2, 20, 50)]);
    }

    #[test]
    fn a_line_that_moves_up_is_fine() {
        let before = entry(&["h"], &["a", "b", "c"]);
        for after in [
            entry(&["a"], &["b", "c", "d"]),
            entry(&["b"], &["c"]),
            entry(&["x"], &["d"]),
            entry(&[], &["b", "c"]),
            before.clone(),
        ] {
            assert_eq!(check_order(&before, &after), Ok(()));
        }
    }

    #[test]
    fn a_waiter_that_is_passed_over_is_found() {
        let before = entry(&["h"], &["a", "b", "c"]);
        for after in [
            entry(&["b"], &["a", "c"]),
            entry(&["h"], &["b", "a", "c"]),
            entry(&["h"], &["a", "d", "b"]),
            entry(&["c"], &["b"]),
        ] {
            assert!(check_order(&before, &after).is_err(), "{after:?}");
        }
    }

    fn entry(holders: &[&str], waiters: &[&str]) -> Entry {
        let about = About::this_process(None);
        let claim = |text: &&str| ClaimId::new(text).unwrap();
        let fence = Fence::new(1).unwrap();
        let holder = |text| Holder::new(claim(text), fence, about.clone(), Duration::ZERO);
        let waiter = |text| Waiter::new(claim(text), about.clone());
        let mut entry = Entry::new("a".parse().unwrap());
        entry.holders = holders.iter().map(holder).collect();
        entry.waiters = waiters.iter().map(waiter).collect();
        entry
    }
}
