//! The embedded store, compared with `flock(2)` and bare write transactions of LMDB on the same
//! disk.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use heed::{Env, WithoutTls};

use super::lmdb_file::{self, Table};
use super::prelude::*;

pub(super) const KIND: Kind = Kind {
    schemes: &["local"],
    plain: &[],
    look: |opened| Ok(Box::new(Local::look(&opened.url.path)?)),
    bare_locks: &[FLOCK, LMDB],
    open_bare: |lock, places| Box::pin(async move { Ok(open_bare(&lock, &places)) }),
};

/// `local:`, and the place for its bare locks, inside its directory.
#[derive(Debug)]
struct Local {
    folder: PathBuf,
    /// An unnamed file, so that nothing is left behind, whatever happens.
    file: File,
}

impl Local {
    /// Inspects the directory of an open store.
    fn look(folder: &str) -> Result<Self> {
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
            Failure::unavailable(sentence)
        })
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

impl BenchStore for Local {
    fn rows(&self) -> Vec<Row> {
        ROWS.to_vec()
    }

    fn subject(&self, label: &'static str, workload: Workload) -> Subject {
        let bare = |place: String| Subject::bare(label, workload, Who::bare_at(label, vec![place]));
        match label {
            LMDB => bare(self.folder.display().to_string()),
            FLOCK => {
                let (process, file) = (std::process::id(), self.file.as_raw_fd());
                bare(format!("/proc/{process}/fd/{file}"))
            }
            // Without a pause, a process that releases takes the lock again before the next one
            // wakes up, so the lock rarely changes hands. With a pause it is as fair as tenure.
            FLOCK_IN_TURN => Subject {
                label,
                rest: REST,
                ..self.subject(FLOCK, workload)
            },
            _ => Subject::tenure(workload),
        }
    }

    fn is_blocked(&self, process: u32) -> Result<bool> {
        Ok(waits_for_a_file(process))
    }

    /// Returns the number of LMDB's latest transaction. Two pages at the start of the file store it
    /// alternately.
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

/// Opens bare locks: `flock(2)` on a file, or write transactions of LMDB in a directory.
fn open_bare(lock: &str, places: &[String]) -> BareLocks {
    let place = PathBuf::from(places.first().map_or("", String::as_str));
    match lock {
        FLOCK => Box::new(move |_| {
            let file = File::open(&place).map_err(|error| bare_failed(&error))?;
            Ok(Box::new(Flock(file)))
        }),
        _ => Box::new(move |name| Ok(Box::new(Lmdb::open(&place, name)?))),
    }
}

/// The lock that the kernel keeps for an open file.
#[derive(Debug)]
struct Flock(File);

impl BareLock for Flock {
    fn acquire(&mut self) -> Attempt<'_> {
        Attempt::Done(self.0.lock().map_err(|error| bare_failed(&error)))
    }

    fn release(&mut self) -> Attempt<'_> {
        Attempt::Done(self.0.unlock().map_err(|error| bare_failed(&error)))
    }
}

/// The minimum cost of a lock in LMDB: a transaction that puts a record, and one that deletes it.
#[derive(Debug)]
struct Lmdb {
    env: Env<WithoutTls>,
    table: Table,
    key: Vec<u8>,
}

impl Lmdb {
    /// Opens a new file in a directory. Its name is removed at once, so that nothing is left
    /// behind.
    fn open(folder: &Path, name: &str) -> Result<Self> {
        let builder = tempfile::Builder::new().prefix("bench-").tempdir_in(folder);
        let place = builder.map_err(|error| bare_failed(&error))?;
        let opened = lmdb_file::open(place.path());
        let (env, table) = opened.map_err(|error| bare_failed(&error))?;
        Ok(Self {
            env,
            table,
            key: name.as_bytes().to_vec(),
        })
    }

    fn change(
        &self,
        change: impl FnOnce(Table, &mut heed::RwTxn<'_>) -> heed::Result<()>,
    ) -> Attempt<'_> {
        let changed = self.env.write_txn().and_then(|mut transaction| {
            change(self.table, &mut transaction)?;
            transaction.commit()
        });
        Attempt::Done(changed.map_err(|error| bare_failed(&error)))
    }
}

impl BareLock for Lmdb {
    fn acquire(&mut self) -> Attempt<'_> {
        self.change(|table, transaction| table.put(transaction, &self.key, &RECORD))
    }

    fn release(&mut self) -> Attempt<'_> {
        self.change(|table, transaction| table.delete(transaction, &self.key).map(drop))
    }
}

/// Returns whether a process is blocked by a file lock; the kernel marks these with an arrow.
fn waits_for_a_file(process: u32) -> bool {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let process = process.to_string();
    let mut blocked = locks.lines().filter(|line| line.contains("->"));
    blocked.any(|line| line.split_whitespace().any(|word| word == process))
}

/// Returns the directory of `local:` without a path, by the XDG base directories.
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

/// About as large as the record of a lock.
const RECORD: [u8; 160] = [b'x'; 160];

/// Longer than it takes to wake a process, and much shorter than the turns of the others.
const REST: Duration = Duration::from_millis(1);

/// Where LMDB 0.9 stores the number of a transaction: after the page's header (16 bytes), magic and
/// version (8), address and size of the mapping (16), two tables (96) and the last page (8).
const NUMBER_IN_PAGE: u64 = 144;

/// Less than one tick of the kernel (usually 10 ms) in the 5 s of the workload.
const NO_MEASURABLE_CPU: f64 = 0.2;

#[rustfmt::skip] // A table: one row of the report in each line.
const ROWS: [Row; 23] = [
    row(Pair, "pair_us", "lock + release", Micros, Some(LMDB), RatioAtMost(2.0)),
    row(Pair, "pair_us", "lock + release", Micros, Some(FLOCK), Aim::None),
    row(Pair, "p50_us", "p50", Micros, Some(LMDB), Aim::None),
    row(Pair, "p99_us", "p99", Micros, Some(LMDB), Aim::None),
    row(Parallel, "per_second", "64 tasks, 64 names", PerSecond, Some(OWN_PAIR), RatioAtLeast(1.0)),
    row(Handover, "p50_us", "release to grant, p50", Micros, Some(FLOCK), RatioAtMost(3.0)),
    row(Handover, "p99_us", "release to grant, p99", Micros, Some(FLOCK), Aim::None),
    row(Hot, "per_second", "64 tasks, one name", PerSecond, None, AtLeast(300_000.0)),
    row(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond, Some(FLOCK), RatioAtLeast(0.97)),
    row(Crowd, "per_second", "8 processes, 1 ms inside", PerSecond, Some(FLOCK_IN_TURN), Aim::None),
    row(Crowd, "fairness", "Jain's index", Number, Some(FLOCK), AtLeast(0.99)),
    row(Crowd, "longest_wait_ms", "longest wait", Millis, Some(FLOCK), Aim::None),
    row(Crash, "p50_ms", "kill -9 to grant, p50", Millis, Some(FLOCK), AtMost(10.0)),
    row(Crash, "worst_ms", "kill -9 to grant, worst", Millis, Some(FLOCK), AtMost(10.0)),
    row(Idle, "cpu_percent", "200 waiters, of a core", Percent, None, AtMost(NO_MEASURABLE_CPU)),
    row(Idle, "wakeups_per_second", "wake-ups", PerSecond, None, Aim::None),
    row(Idle, "changes", "changes of the store", Number, None, AtMost(0.0)),
    row(Many, "cpu_percent", "renewals, of a core", Percent, None, AtMost(5.0)),
    row(Many, "renewal_us", "one renewal", Micros, None, Aim::None),
    row(Many, "bytes_per_lease", "memory per lease", Bytes, None, AtMost(1024.0)),
    row(Many, "p50_us", "a pair afterwards, p50", Micros, Some(OWN_PAIR), Aim::None),
    row(Many, "leases", "leases held", Number, None, Aim::None),
    row(Many, "lost", "leases lost", Number, None, AtMost(0.0)),
];
