//! The embedded store, beside `flock(2)` and bare write transactions of LMDB on the same disk.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::kind::{Kind, OWN_PAIR, Subject};
use crate::bench::line::{Aim, Line, Unit};
use crate::bench::wire::Who;
use crate::bench::workload::Workload;
use crate::error::{Failure, Result};
use crate::exit_code;

/// `local:` and the place for its floors, inside its folder.
#[derive(Debug)]
pub(super) struct Local {
    folder: PathBuf,
    /// A file without a name, so that nothing is left of it, whatever happens.
    file: File,
}

impl Local {
    /// Looks at the folder of a store that was opened.
    pub(super) fn look(folder: &str) -> Result<Self> {
        let folder = match folder {
            "" => default_folder(),
            named => PathBuf::from(named),
        };
        let opened = fs::canonicalize(folder).and_then(|folder| {
            let file = tempfile::tempfile_in(&folder)?;
            Ok(Self { folder, file })
        });
        opened.map_err(|error| {
            let sentence = format!("no file to compare with can be made in the store: {error}");
            Failure::new(exit_code::UNAVAILABLE, sentence)
        })
    }

    fn flock(&self, workload: Workload) -> Subject {
        let (process, file) = (std::process::id(), self.file.as_raw_fd());
        Subject {
            label: FLOCK,
            who: Who::Flock(format!("/proc/{process}/fd/{file}").into()),
            ..Subject::tenure(workload)
        }
    }

    /// Without a rest, whoever releases takes the lock again before the next one is awake, so
    /// that it rarely changes hands. With one, it is as fair as ours.
    fn flock_in_turn(&self) -> Subject {
        Subject {
            label: FLOCK_IN_TURN,
            rest: REST,
            ..self.flock(Workload::Crowd)
        }
    }

    fn lmdb(&self, workload: Workload) -> Subject {
        Subject {
            label: LMDB,
            who: Who::Lmdb(self.folder.clone()),
            ..Subject::tenure(workload)
        }
    }

    fn state(&self) -> Option<PathBuf> {
        let is_state = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("state-") && name.ends_with(".mdb")
        };
        let entries = fs::read_dir(&self.folder).ok()?.flatten();
        let mut paths = entries.map(|entry| entry.path());
        paths.find(|path| is_state(path))
    }
}

impl Kind for Local {
    fn lines(&self) -> &'static [Line] {
        &LINES
    }

    fn floors(&self, workload: Workload) -> Vec<Subject> {
        match workload {
            Workload::Pair => vec![self.lmdb(workload), self.flock(workload)],
            Workload::Parallel | Workload::Many => vec![Subject::own_pair()],
            Workload::Crowd => vec![self.flock(workload), self.flock_in_turn()],
            Workload::Handover | Workload::Crash => vec![self.flock(workload)],
            Workload::Hot | Workload::Idle => Vec::new(),
        }
    }

    /// The number of LMDB's latest transaction, read from the two pages at the start of the file
    /// that take turns in keeping it.
    fn changes(&self) -> Option<u64> {
        let file = File::open(self.state()?).ok()?;
        let read = |page: u64| {
            let mut number = [0; 8];
            let at = page * rustix::param::page_size() as u64 + NUMBER_IN_PAGE;
            file.read_exact_at(&mut number, at).ok()?;
            Some(u64::from_le_bytes(number))
        };
        Some(read(0)?.max(read(1)?))
    }
}

/// The folder of `local:` without a path, by the XDG base directories.
fn default_folder() -> PathBuf {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let state = absolute("XDG_STATE_HOME").or_else(home);
    state.unwrap_or_default().join("tenure")
}

const FLOCK: &str = "flock";
const FLOCK_IN_TURN: &str = "flock in turn";
const LMDB: &str = "lmdb";

/// Longer than it takes to wake a process, and much shorter than the others' turns.
const REST: Duration = Duration::from_millis(1);

/// Where LMDB 0.9 keeps the number of a transaction: behind the page's header (16 bytes), magic
/// and version (8), address and size of the mapping (16), two tables (96) and the last page (8).
const NUMBER_IN_PAGE: u64 = 144;

/// Less than one tick of the kernel's usual 10 ms in the 5 s of the workload.
const NO_MEASURABLE_CPU: f64 = 0.2;

const LINES: [Line; 23] = [
    Line {
        workload: Workload::Pair,
        figure: "pair_us",
        what: "lock + release",
        unit: Unit::Micros,
        floor: Some(LMDB),
        aim: Some(Aim::RatioAtMost(2.0)),
    },
    Line {
        workload: Workload::Pair,
        figure: "pair_us",
        what: "lock + release",
        unit: Unit::Micros,
        floor: Some(FLOCK),
        aim: None,
    },
    Line {
        workload: Workload::Pair,
        figure: "p50_us",
        what: "p50",
        unit: Unit::Micros,
        floor: Some(LMDB),
        aim: None,
    },
    Line {
        workload: Workload::Pair,
        figure: "p99_us",
        what: "p99",
        unit: Unit::Micros,
        floor: Some(LMDB),
        aim: None,
    },
    Line {
        workload: Workload::Parallel,
        figure: "per_second",
        what: "64 tasks, 64 names",
        unit: Unit::PerSecond,
        floor: Some(OWN_PAIR),
        aim: Some(Aim::RatioAtLeast(1.0)),
    },
    Line {
        workload: Workload::Handover,
        figure: "p50_us",
        what: "release to grant, p50",
        unit: Unit::Micros,
        floor: Some(FLOCK),
        aim: Some(Aim::RatioAtMost(3.0)),
    },
    Line {
        workload: Workload::Handover,
        figure: "p99_us",
        what: "release to grant, p99",
        unit: Unit::Micros,
        floor: Some(FLOCK),
        aim: None,
    },
    Line {
        workload: Workload::Hot,
        figure: "per_second",
        what: "64 tasks, one name",
        unit: Unit::PerSecond,
        floor: None,
        aim: Some(Aim::AtLeast(300_000.0)),
    },
    Line {
        workload: Workload::Crowd,
        figure: "per_second",
        what: "8 processes, 1 ms inside",
        unit: Unit::PerSecond,
        floor: Some(FLOCK),
        aim: Some(Aim::RatioAtLeast(0.97)),
    },
    Line {
        workload: Workload::Crowd,
        figure: "per_second",
        what: "8 processes, 1 ms inside",
        unit: Unit::PerSecond,
        floor: Some(FLOCK_IN_TURN),
        aim: None,
    },
    Line {
        workload: Workload::Crowd,
        figure: "fairness",
        what: "Jain's index",
        unit: Unit::Number,
        floor: Some(FLOCK),
        aim: Some(Aim::AtLeast(0.99)),
    },
    Line {
        workload: Workload::Crowd,
        figure: "longest_wait_ms",
        what: "longest wait",
        unit: Unit::Millis,
        floor: Some(FLOCK),
        aim: None,
    },
    Line {
        workload: Workload::Crash,
        figure: "p50_ms",
        what: "kill -9 to grant, p50",
        unit: Unit::Millis,
        floor: Some(FLOCK),
        aim: Some(Aim::AtMost(10.0)),
    },
    Line {
        workload: Workload::Crash,
        figure: "worst_ms",
        what: "kill -9 to grant, worst",
        unit: Unit::Millis,
        floor: Some(FLOCK),
        aim: Some(Aim::AtMost(10.0)),
    },
    Line {
        workload: Workload::Idle,
        figure: "cpu_percent",
        what: "200 waiters, of a core",
        unit: Unit::Percent,
        floor: None,
        aim: Some(Aim::AtMost(NO_MEASURABLE_CPU)),
    },
    Line {
        workload: Workload::Idle,
        figure: "wakeups_per_second",
        what: "wake-ups",
        unit: Unit::PerSecond,
        floor: None,
        aim: None,
    },
    Line {
        workload: Workload::Idle,
        figure: "changes",
        what: "changes of the store",
        unit: Unit::Number,
        floor: None,
        aim: Some(Aim::AtMost(0.0)),
    },
    Line {
        workload: Workload::Many,
        figure: "cpu_percent",
        what: "renewals, of a core",
        unit: Unit::Percent,
        floor: None,
        aim: Some(Aim::AtMost(5.0)),
    },
    Line {
        workload: Workload::Many,
        figure: "renewal_us",
        what: "one renewal",
        unit: Unit::Micros,
        floor: None,
        aim: None,
    },
    Line {
        workload: Workload::Many,
        figure: "bytes_per_lease",
        what: "memory per lease",
        unit: Unit::Bytes,
        floor: None,
        aim: Some(Aim::AtMost(1024.0)),
    },
    Line {
        workload: Workload::Many,
        figure: "p50_us",
        what: "a pair afterwards, p50",
        unit: Unit::Micros,
        floor: Some(OWN_PAIR),
        aim: None,
    },
    Line {
        workload: Workload::Many,
        figure: "leases",
        what: "leases held",
        unit: Unit::Number,
        floor: None,
        aim: None,
    },
    Line {
        workload: Workload::Many,
        figure: "lost",
        what: "leases lost",
        unit: Unit::Number,
        floor: None,
        aim: Some(Aim::AtMost(0.0)),
    },
];
