//! The embedded store, beside `flock(2)` and bare write transactions of LMDB on the same disk.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::kind::{Counter, Kind, OWN_PAIR, Subject};
use crate::bench::line::Aim::{AtLeast, AtMost, RatioAtLeast, RatioAtMost};
use crate::bench::line::Line;
use crate::bench::line::Unit::{Bytes, Micros, Millis, Number, PerSecond, Percent};
use crate::bench::wire::Who;
use crate::bench::workload::Workload::{
    self, Crash, Crowd, Handover, Hot, Idle, Many, Pair, Parallel,
};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

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
            ..self.flock(Crowd)
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
    fn lines(&self) -> Vec<Line> {
        LINES.to_vec()
    }

    fn subjects(&self, workload: Workload) -> Vec<Subject> {
        let floors = match workload {
            Pair => vec![self.lmdb(workload), self.flock(workload)],
            Parallel | Many => vec![Subject::own_pair()],
            Crowd => vec![self.flock(workload), self.flock_in_turn()],
            Handover | Crash => vec![self.flock(workload)],
            _ => Vec::new(),
        };
        let own = std::iter::once(Subject::tenure(workload));
        own.chain(floors).collect()
    }

    fn prepare(&self, _who: &Who, _name: &str) -> Result<()> {
        Ok(())
    }

    fn is_blocked(&self, process: u32) -> Result<bool> {
        Ok(waits_for_a_file(process))
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

    fn counter(&self) -> Result<Option<Box<dyn Counter>>> {
        Ok(None)
    }

    fn server_time(&self) -> Option<Duration> {
        None
    }

    fn missing(&self) -> Option<&str> {
        None
    }
}

/// Whether a process is blocked by a file lock; the kernel marks those with an arrow.
fn waits_for_a_file(process: u32) -> bool {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let process = process.to_string();
    let mut blocked = locks.lines().filter(|line| line.contains("->"));
    blocked.any(|line| line.split_whitespace().any(|word| word == process))
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
    Line::new(Pair, "pair_us", "lock + release", Micros)
        .beside(LMDB)
        .aims(RatioAtMost(2.0)),
    Line::new(Pair, "pair_us", "lock + release", Micros).beside(FLOCK),
    Line::new(Pair, "p50_us", "p50", Micros).beside(LMDB),
    Line::new(Pair, "p99_us", "p99", Micros).beside(LMDB),
    Line::new(Parallel, "per_second", "64 tasks, 64 names", PerSecond)
        .beside(OWN_PAIR)
        .aims(RatioAtLeast(1.0)),
    Line::new(Handover, "p50_us", "release to grant, p50", Micros)
        .beside(FLOCK)
        .aims(RatioAtMost(3.0)),
    Line::new(Handover, "p99_us", "release to grant, p99", Micros).beside(FLOCK),
    Line::new(Hot, "per_second", "64 tasks, one name", PerSecond).aims(AtLeast(300_000.0)),
    Line::new(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond)
        .beside(FLOCK)
        .aims(RatioAtLeast(0.97)),
    Line::new(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond).beside(FLOCK_IN_TURN),
    Line::new(Crowd, "fairness", "Jain's index", Number)
        .beside(FLOCK)
        .aims(AtLeast(0.99)),
    Line::new(Crowd, "longest_wait_ms", "longest wait", Millis).beside(FLOCK),
    Line::new(Crash, "p50_ms", "kill -9 to grant, p50", Millis)
        .beside(FLOCK)
        .aims(AtMost(10.0)),
    Line::new(Crash, "worst_ms", "kill -9 to grant, worst", Millis)
        .beside(FLOCK)
        .aims(AtMost(10.0)),
    Line::new(Idle, "cpu_percent", "200 waiters, of a core", Percent)
        .aims(AtMost(NO_MEASURABLE_CPU)),
    Line::new(Idle, "wakeups_per_second", "wake-ups", PerSecond),
    Line::new(Idle, "changes", "changes of the store", Number).aims(AtMost(0.0)),
    Line::new(Many, "cpu_percent", "renewals, of a core", Percent).aims(AtMost(5.0)),
    Line::new(Many, "renewal_us", "one renewal", Micros),
    Line::new(Many, "bytes_per_lease", "memory per lease", Bytes).aims(AtMost(1024.0)),
    Line::new(Many, "p50_us", "a pair afterwards, p50", Micros).beside(OWN_PAIR),
    Line::new(Many, "leases", "leases held", Number),
    Line::new(Many, "lost", "leases lost", Number).aims(AtMost(0.0)),
];
