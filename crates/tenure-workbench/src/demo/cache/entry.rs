//! The cached entry: a file that all copies share, and a list of those who made it anew.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::Seen;

use crate::bench::now_ns;

/// What is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Which one it is, from 1: each is made out of the one before.
    pub(super) generation: u64,
    /// When it was made, by the machine's clock.
    made_ns: u64,
    /// The fence that it was written with.
    fence: Option<u64>,
}

/// One who made an entry anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rebuild {
    /// The entry that had expired.
    pub(super) expired: u64,
    /// The copy that did it, from 1.
    pub(super) copy: u32,
}

/// A folder with the entry.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: PathBuf,
    fresh: Duration,
}

impl Cache {
    /// Opens the cache in a folder; its entry is fresh for so long.
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
        let age = Duration::from_nanos(now_ns().saturating_sub(entry.made_ns));
        Ok(if age < self.fresh {
            Seen::Fresh(entry)
        } else {
            Seen::Stale(entry)
        })
    }

    /// Makes the entry anew, which takes `time`.
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
            made_ns: now_ns(),
            fence,
        };
        self.put(entry)?;
        Ok(entry)
    }

    /// Returns all who made an entry anew, in order.
    pub(super) fn rebuilds(&self) -> io::Result<Vec<Rebuild>> {
        match fs::read_to_string(self.folder.join(REBUILDS)) {
            Ok(text) => text
                .lines()
                .map(|line| serde_json::from_str(line).map_err(io::Error::from))
                .collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn entry(&self) -> io::Result<Option<Entry>> {
        match fs::read(self.folder.join(ENTRY)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the entry, unless one with a larger fence is there.
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
        // One call, so that lines of several processes do not mix.
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
