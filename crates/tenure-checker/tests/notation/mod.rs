//! Handwritten histories: a title, the expectations, and one line for each event.
//!
//! ```text
//! A holder that is gone is not in the way
//! expect: fault kill, patience 100
//! breaks: exclusion                      (of bad ones: the promises that are named, and no others)
//! unknown: did not land                  (of unknown ones: words of the reasons, one line for each)
//!
//! 0    p1 asks 1 stock as ann            exclusive; or `shared`, or `permits 2/3` at the end
//! 1.5  p1 granted 1 #7                   times in milliseconds; #7 is the fence
//! 2    p0 wrote 1 stock 4>5 #7           read version 4, made 5; or `stale`
//! 3    p1 releasing 1
//! 4    p1 freed 1                        or `lowered`, `not-held`, `unsure`
//! 5    p0 fault kill p1                  or `over pause p1`
//! 6    p0 healed
//! 7    p1 excused 1 9                    until 9 ms, for the store ended its lease early
//! ```

use std::path::Path;
use std::time::Duration;

use tenure_checker::{Event, Expect, Freed, History, Mode, Promise, What, Written};

/// A file with a history.
#[derive(Debug)]
#[allow(dead_code, reason = "each test file reads what it needs")]
pub(crate) struct Story {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) expect: Expect,
    pub(crate) breaks: Vec<Promise>,
    pub(crate) unknown: Vec<String>,
    pub(crate) history: History,
}

/// Reads all files of a directory, ordered by name.
pub(crate) fn stories(folder: &str) -> Vec<Story> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let entries = std::fs::read_dir(path.join(folder)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        story(&file, &std::fs::read_to_string(path).unwrap())
    };
    paths.iter().map(read).collect()
}

/// Reads one history.
pub(crate) fn story(file: &str, text: &str) -> Story {
    let mut lines = text.lines();
    let mut story = Story {
        file: file.to_owned(),
        title: lines.next().unwrap_or_default().to_owned(),
        expect: Expect::new().patience(Duration::from_millis(1_000)),
        breaks: Vec::new(),
        unknown: Vec::new(),
        history: Vec::new(),
    };
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(wanted) = line.strip_prefix("expect:") {
            story.expect = wanted.split(',').fold(story.expect, expecting);
        } else if let Some(names) = line.strip_prefix("breaks:") {
            story.breaks = names.split(',').map(promise).collect();
        } else if let Some(words) = line.strip_prefix("unknown:") {
            story.unknown.push(words.trim().to_owned());
        } else {
            let event = event(line);
            story
                .history
                .push(event.unwrap_or_else(|| panic!("{file}: cannot read \"{line}\"")));
        }
    }
    story
}

fn expecting(expect: Expect, wanted: &str) -> Expect {
    let (what, value) = wanted
        .trim()
        .split_once(' ')
        .unwrap_or_else(|| (wanted.trim(), ""));
    let number = || value.parse().unwrap();
    let time = || Duration::from_micros(micros(value).unwrap());
    match what {
        "grants" => expect.grants(number()),
        "contended" => expect.contended(number()),
        "writes" => expect.writes(number()),
        "fault" => expect.fault(value),
        "patience" => expect.patience(time()),
        "slack" => expect.order_slack(time()),
        "notice" => expect.notice(time()),
        "readers-share-fences" => expect.readers_share_fences(),
        "owners-have-several-fences" => expect.owners_have_several_fences(),
        "without" => expect.without(promise(value)),
        "only" => expect.only(value.split_whitespace().map(promise)),
        _ => panic!("nothing like {what} can be expected"),
    }
}

fn promise(name: &str) -> Promise {
    let known = Promise::ALL.into_iter();
    let mut named = known.filter(|promise| promise.to_string() == name.trim());
    named
        .next()
        .unwrap_or_else(|| panic!("no promise is called {name}"))
}

fn event(line: &str) -> Option<Event> {
    let mut words = line.split_whitespace();
    let at_us = micros(words.next()?)?;
    let process = process(words.next()?)?;
    let verb = words.next()?;
    let rest: Vec<_> = words.collect();
    Some(Event::new(at_us, process, what(verb, &rest)?))
}

fn what(verb: &str, rest: &[&str]) -> Option<What> {
    let claim = rest.first().and_then(|number| number.parse().ok());
    let target = rest.get(1).and_then(|number| process(number));
    Some(match verb {
        "started" => What::Started,
        "ended" => What::Ended { crashed: false },
        "crashed" => What::Ended { crashed: true },
        "asks" => asks(rest)?,
        "queued" => What::Queued { claim: claim? },
        "granted" => What::Granted {
            claim: claim?,
            fence: rest.get(1).and_then(|text| fence(text)),
        },
        "refused" => What::Refused { claim: claim? },
        "unknown" => What::Unknown {
            claim: claim?,
            error: rest[1..].join(" "),
        },
        "lost" => What::Lost { claim: claim? },
        "excused" => What::Excused {
            claim: claim?,
            until_us: micros(rest.get(1)?)?,
        },
        "releasing" => What::Releasing { claim: claim? },
        "freed" => released(claim?, Freed::Freed),
        "lowered" => released(claim?, Freed::Lowered),
        "not-held" => released(claim?, Freed::NotHeld),
        "unsure" => released(claim?, Freed::Unknown),
        "wrote" => wrote(claim?, rest, Written::Accepted)?,
        "stale" => wrote(claim?, rest, Written::Stale)?,
        "fault" => What::Fault {
            kind: (*rest.first()?).to_owned(),
            target,
        },
        "over" => What::Over {
            kind: (*rest.first()?).to_owned(),
            target,
        },
        "healed" => What::Healed,
        "left" => What::Left {
            found: rest.join(" "),
        },
        _ => return None,
    })
}

fn asks(rest: &[&str]) -> Option<What> {
    let [claim, name, "as", owner, mode @ ..] = rest else {
        return None;
    };
    let mode = match mode {
        [] => Mode::Exclusive,
        ["shared"] => Mode::Shared,
        ["permits", share] => {
            let (take, of) = share.split_once('/')?;
            Mode::Permits {
                take: take.parse().ok()?,
                of: of.parse().ok()?,
            }
        }
        _ => return None,
    };
    Some(What::Asked {
        claim: claim.parse().ok()?,
        name: (*name).to_owned(),
        mode,
        owner: (*owner).to_owned(),
    })
}

fn released(claim: u64, freed: Freed) -> What {
    What::Released { claim, freed }
}

fn wrote(claim: u64, rest: &[&str], outcome: Written) -> Option<What> {
    let (read, version) = rest.get(2)?.split_once('>')?;
    Some(What::Wrote {
        claim,
        name: (*rest.get(1)?).to_owned(),
        fence: rest.get(3).and_then(|text| fence(text)),
        read: read.parse().ok()?,
        version: version.parse().ok()?,
        outcome,
    })
}

fn fence(text: &str) -> Option<u64> {
    text.strip_prefix('#')?.parse().ok()
}

fn process(text: &str) -> Option<u32> {
    text.strip_prefix('p')?.parse().ok()
}

/// Parses milliseconds with up to three decimals.
fn micros(text: &str) -> Option<u64> {
    let (ms, part) = text.split_once('.').unwrap_or((text, ""));
    let us: u64 = format!("{part:0<3}").parse().ok()?;
    Some(ms.parse::<u64>().ok()? * 1_000 + us)
}
