//! The cached entry: a file that all copies share, and a log of its rebuilds.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::Seen;

use crate::clock::{micros, now_us};

/// The cached value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Its number, from 1; each rebuild increments it.
    pub(super) generation: u64,
    /// When it was built, by the clock that all processes of the machine share.
    built_us: u64,
    /// The fence that it was written with.
    fence: Option<u64>,
}

/// A rebuild of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rebuild {
    /// The entry that had expired.
    pub(super) expired: u64,
    /// The copy that rebuilt it, from 1.
    pub(super) copy: u32,
}

/// The directory of the entry.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: PathBuf,
    fresh: Duration,
}

impl Cache {
    /// Opens the cache in a directory; an entry expires after `fresh`.
    pub(super) fn new(folder: &Path, fresh: Duration) -> Self {
        Self {
            folder: folder.to_owned(),
            fresh,
        }
    }

    /// Returns the entry, and whether it is still fresh.
    pub(super) fn look(&self) -> io::Result<Seen<Entry>> {
        let Some(entry) = self.entry()? else {
            return Ok(Seen::Missing);
        };
        Ok(
            if now_us().saturating_sub(entry.built_us) < micros(self.fresh) {
                Seen::Fresh(entry)
            } else {
                Seen::Stale(entry)
            },
        )
    }

    /// Rebuilds the entry, which takes `time`.
    pub(super) async fn rebuild(
        &self,
        copy: u32,
        fence: Option<u64>,
        time: Duration,
    ) -> io::Result<Entry> {
        let expired = self.entry()?.map_or(0, |entry| entry.generation);
        self.note(Rebuild { expired, copy })?;
        tokio::time::sleep(time).await;
        let entry = Entry {
            generation: expired + 1,
            built_us: now_us(),
            fence,
        };
        self.put(entry)?;
        Ok(entry)
    }

    /// Returns all rebuilds, in order.
    pub(super) fn rebuilds(&self) -> io::Result<Vec<Rebuild>> {
        let log = self.read(REBUILDS)?.unwrap_or_default();
        let lines = serde_json::Deserializer::from_slice(&log).into_iter();
        lines.map(|line| Ok(line?)).collect()
    }

    fn entry(&self) -> io::Result<Option<Entry>> {
        let entry = self.read(ENTRY)?;
        let entry = entry.map(|text| serde_json::from_slice(&text)).transpose();
        Ok(entry?)
    }

    fn read(&self, file: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.folder.join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Replaces the entry, unless the existing one has a larger fence.
    fn put(&self, entry: Entry) -> io::Result<()> {
        let gate = File::create(self.folder.join(GATE))?;
        gate.lock()?;
        if self.entry()?.is_some_and(|now| now.fence > entry.fence) {
            return Ok(());
        }
        let new = self.folder.join(NEW);
        fs::write(&new, serde_json::to_vec(&entry)?)?;
        fs::rename(new, self.folder.join(ENTRY))
    }

    fn note(&self, rebuild: Rebuild) -> io::Result<()> {
        let mut list = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(REBUILDS))?;
        // A single call, so that lines of several processes do not mix.
        list.write_all(format!("{}\n", serde_json::to_string(&rebuild)?).as_bytes())
    }
}

const ENTRY: &str = "entry.json";
const NEW: &str = "entry.new";
const GATE: &str = "gate";
const REBUILDS: &str = "rebuilds.jsonl";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_fresh_for_a_while_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), Duration::from_secs(1000));
        assert_eq!(cache.look().unwrap(), Seen::Missing);
        let first = cache.rebuild(1, Some(5), Duration::ZERO).await.unwrap();
        assert_eq!(cache.look().unwrap(), Seen::Fresh(first));
        let expired = Cache::new(folder.path(), Duration::ZERO);
        assert_eq!(expired.look().unwrap(), Seen::Stale(first));
        let second = cache.rebuild(2, Some(6), Duration::ZERO).await.unwrap();
        assert_eq!(cache.look().unwrap(), Seen::Fresh(second));
        assert_eq!((first.generation, second.generation), (1, 2));
        let copies: Vec<_> = cache
            .rebuilds()
            .unwrap()
            .iter()
            .map(|one| one.copy)
            .collect();
        assert_eq!(copies, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_smaller_fence_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), Duration::from_secs(1000));
        let newer = cache.rebuild(1, Some(6), Duration::ZERO).await.unwrap();
        cache.rebuild(2, Some(5), Duration::ZERO).await.unwrap();
        assert_eq!(cache.look().unwrap(), Seen::Fresh(newer));
    }
}
