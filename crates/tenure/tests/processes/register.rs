//! A resource outside the lock: a number that refuses fences smaller than the largest it has seen.
//!
//! It is one file of lines. Each line has the whole state after one request, so that a process that
//! is killed at any point leaves a request either done or not done. The register does not compare a
//! write with the value that it was based on: [`check`] finds out whether an update was lost.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The register of a directory.
#[derive(Debug)]
pub(crate) struct Register(PathBuf);

/// A request and its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Read by a holder; `contended` if it had to wait for the lock.
    Read { contended: bool },
    /// Written, based on a value that was read before.
    Wrote { base: u64 },
    /// Refused: the fence was too small.
    Refused { fence: u64 },
}

/// A line of the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// The largest fence seen.
    pub(crate) largest: u64,
    pub(crate) value: u64,
    pub(crate) pid: u32,
    pub(crate) what: What,
}

impl Register {
    pub(crate) fn open(folder: &Path) -> Self {
        Self(folder.join("register"))
    }

    /// Reads the value, which counts as a use of the fence; returns `None` if the fence is too
    /// small.
    pub(crate) fn read(&self, fence: u64, contended: bool) -> Option<u64> {
        self.access(fence, |line| Line {
            what: What::Read { contended },
            ..line
        })
    }

    /// Writes `base` plus one; returns whether the fence was large enough.
    pub(crate) fn write(&self, fence: u64, base: u64) -> bool {
        let written = self.access(fence, |line| Line {
            value: base + 1,
            what: What::Wrote { base },
            ..line
        });
        written.is_some()
    }

    /// Returns every request so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut file = File::open(&self.0).expect("the register can be opened");
        // Otherwise a line that is being written would be seen in part.
        file.lock_shared().expect("the register can be locked");
        let mut text = String::new();
        file.read_to_string(&mut text)
            .expect("the register can be read");
        text.lines().map(parse).collect()
    }

    fn access(&self, fence: u64, change: impl FnOnce(Line) -> Line) -> Option<u64> {
        let options = File::options()
            .read(true)
            .append(true)
            .create(true)
            .to_owned();
        let mut file = options.open(&self.0).expect("the register can be opened");
        file.lock().expect("the register can be locked");
        let last = last_whole(&file);
        let known = last.map_or((0, 0), |line| (line.largest, line.value));
        let (largest, value) = known;
        let pid = std::process::id();
        let what = What::Refused { fence };
        let refused = Line {
            largest,
            value,
            pid,
            what,
        };
        let line = match fence < largest {
            true => refused,
            false => change(Line {
                largest: fence,
                ..refused
            }),
        };
        let written = file.write_all(format(&line).as_bytes());
        written.expect("the register can be written");
        (!matches!(line.what, What::Refused { .. })).then_some(line.value)
    }
}

/// Returns the last line, after removing an incomplete line of a killed writer.
fn last_whole(file: &File) -> Option<Line> {
    let length = file.metadata().expect("the register has a length").len();
    let from = length.saturating_sub(500);
    let mut tail = vec![0; usize::try_from(length - from).expect("at most 500")];
    let read = file.read_exact_at(&mut tail, from);
    read.expect("the register can be read");
    let whole = tail
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let cut = file.set_len(from + whole as u64);
    cut.expect("the register can be cut");
    let text = str::from_utf8(&tail[..whole]).expect("the register is text");
    text.lines().last().map(parse)
}

fn format(line: &Line) -> String {
    let Line {
        largest,
        value,
        pid,
        what,
    } = line;
    let (kind, detail) = match *what {
        What::Read { contended } => ("read", u64::from(contended)),
        What::Wrote { base } => ("wrote", base),
        What::Refused { fence } => ("refused", fence),
    };
    format!("{largest} {value} {pid} {kind} {detail}\n")
}

fn parse(line: &str) -> Line {
    let words: Vec<_> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    Line {
        largest: number(0),
        value: number(1),
        pid: words[2].parse().expect("a process"),
        what: match words[3] {
            "read" => What::Read {
                contended: number(4) == 1,
            },
            "wrote" => What::Wrote { base: number(4) },
            _ => What::Refused { fence: number(4) },
        },
    }
}

/// The counts of a register.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many grants have used it.
    pub(crate) grants: usize,
    /// How many of them had to wait.
    pub(crate) contended: usize,
    pub(crate) written: u64,
    /// How many reads and writes came too late.
    pub(crate) refused: usize,
}

/// Fails if an update was lost or two grants had the same fence.
pub(crate) fn check(lines: &[Line]) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let (mut largest, mut value, mut pid) = (0, 0, 0);
    for line in lines {
        let (fence_before, value_before) = (largest, value);
        let wrong = move |what: &str| {
            let before = format!("fence {fence_before}, value {value_before}");
            Err(format!("{what}: {line:?} after {before}"))
        };
        match line.what {
            What::Refused { fence } if fence >= largest => return wrong("refused for nothing"),
            What::Refused { .. } => {
                tally.refused += 1;
                continue;
            }
            What::Read { contended } => {
                if line.largest <= largest {
                    return wrong("the fence has not grown");
                }
                (largest, pid) = (line.largest, line.pid);
                tally.grants += 1;
                tally.contended += usize::from(contended);
            }
            What::Wrote { base } => {
                if (line.largest, line.pid) != (largest, pid) {
                    return wrong("written without a read");
                }
                if base != value {
                    return wrong("an update is lost");
                }
                value = base + 1;
                tally.written += 1;
            }
        }
        if line.value != value {
            return wrong("the value has changed by itself");
        }
    }
    match tally.written == value {
        true => Ok(tally),
        false => Err(format!("{} writes make {value}", tally.written)),
    }
}

#[test]
fn the_register_keeps_out_smaller_fences() {
    let folder = crate::folder();
    let register = Register::open(folder.path());
    assert_eq!(register.read(5, true), Some(0));
    assert!(register.write(5, 0));
    assert_eq!(register.read(7, false), Some(1));
    assert!(!register.write(5, 1), "7 has been seen");
    assert!(register.write(7, 1));
    let tally = Tally {
        grants: 2,
        contended: 1,
        written: 2,
        refused: 1,
    };
    assert_eq!(check(&register.lines()), Ok(tally));
}

#[test]
fn half_a_line_of_a_killed_writer_counts_for_nothing() {
    let folder = crate::folder();
    let register = Register::open(folder.path());
    assert_eq!(register.read(5, false), Some(0));
    let mut file = File::options()
        .append(true)
        .open(folder.path().join("register"))
        .unwrap();
    file.write_all(b"5 1 77 wro").unwrap();
    assert!(register.write(5, 0));
    assert_eq!(register.lines().len(), 2);
}

#[test]
fn a_lost_update_is_found() {
    let line = |largest, value, what| Line {
        largest,
        value,
        pid: 1,
        what,
    };
    let read = What::Read { contended: false };
    let late = [
        line(1, 0, read),
        line(2, 0, read),
        line(2, 1, What::Wrote { base: 0 }),
        line(3, 1, read),
        line(3, 1, What::Wrote { base: 0 }),
    ];
    let same_fence = [line(1, 0, read), line(1, 0, read)];
    let back = [line(2, 0, read), line(1, 0, read)];
    let unread = [line(1, 1, What::Wrote { base: 0 })];
    for (lines, found) in [
        (&late[..], "an update is lost"),
        (&same_fence, "the fence has not grown"),
        (&back, "the fence has not grown"),
        (&unread, "written without a read"),
    ] {
        let wrong = check(lines).unwrap_err();
        assert!(wrong.starts_with(found), "{wrong}");
    }
}
