//! The stock in a local file.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};
use tenure_checker::Written;

use super::{Kind, Means, Stock, failed};
use crate::demo::flash_sale::record::Counted;
use tenure_cli::Result;

pub(super) const KIND: Kind = Kind {
    schemes: &["local", "memory"],
    server: |store| match store.scheme {
        "memory" => Err("memory: is for one process, and the copies are several; try local:"),
        _ => Ok(store.clone()),
    },
    means: Means::Nothing,
    open: |at| Box::pin(async move { Ok(Box::new(File::open(&at.folder.join("stock"))?) as _) }),
};

/// Four numbers in a file, which writers lock.
///
/// The file lock only makes the comparison of the fence and the write atomic. It is held for some
/// microseconds, and does not protect what was read before.
#[derive(Debug)]
struct File(fs::File);

impl File {
    fn open(path: &Path) -> Result<Self> {
        let mut options = fs::File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        Ok(Self(file.open(path).map_err(|error| failed(&error))?))
    }

    fn numbers(&self) -> Result<Numbers> {
        let mut bytes = [[0; 8]; 4];
        let read = self.0.read_exact_at(bytes.as_flattened_mut(), 0);
        read.map_err(|error| failed(&error))?;
        let [left, accepted, refused, fence] = bytes.map(u64::from_le_bytes);
        let counted = Counted {
            left,
            accepted,
            refused,
        };
        Ok(Numbers { counted, fence })
    }

    /// Replaces the numbers in one write.
    fn put(&self, Numbers { counted, fence }: Numbers) -> Result<()> {
        let numbers = [counted.left, counted.accepted, counted.refused, fence];
        let bytes = numbers.map(u64::to_le_bytes);
        let written = self.0.write_all_at(bytes.as_flattened(), 0);
        written.map_err(|error| failed(&error))
    }

    fn write_locked(&self, left: u64, fence: Option<u64>) -> Result<Written> {
        let mut numbers = self.numbers()?;
        if fence.is_some_and(|fence| fence < numbers.fence) {
            numbers.counted.refused += 1;
            self.put(numbers)?;
            return Ok(Written::Stale);
        }
        numbers.counted.left = left;
        numbers.counted.accepted += 1;
        numbers.fence = fence.unwrap_or(numbers.fence);
        self.put(numbers)?;
        Ok(Written::Accepted)
    }
}

#[async_trait]
impl Stock for File {
    async fn fill(&self, left: u64) -> Result<()> {
        let counted = Counted {
            left,
            ..Counted::default()
        };
        self.put(Numbers { counted, fence: 0 })
    }

    async fn read(&self) -> Result<u64> {
        Ok(self.numbers()?.counted.left)
    }

    async fn write(&self, left: u64, fence: Option<u64>) -> Result<Written> {
        flock(&self.0, FlockOperation::LockExclusive).map_err(|error| failed(&error))?;
        let written = self.write_locked(left, fence);
        flock(&self.0, FlockOperation::Unlock).map_err(|error| failed(&error))?;
        written
    }

    async fn counted(&self) -> Result<Counted> {
        Ok(self.numbers()?.counted)
    }

    /// Does nothing: the file is removed with its directory.
    async fn remove(&self, _lock: &str) -> Result<()> {
        Ok(())
    }
}

/// The content of the file.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    counted: Counted,
    /// The largest fence seen so far.
    fence: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_smaller_fence_is_refused_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let stock = File::open(&folder.path().join("stock")).unwrap();
        stock.fill(10).await.unwrap();
        assert_eq!(stock.write(9, Some(7)).await.unwrap(), Written::Accepted);
        assert_eq!(stock.write(8, Some(7)).await.unwrap(), Written::Accepted);
        assert_eq!(stock.write(9, Some(6)).await.unwrap(), Written::Stale);
        assert_eq!(stock.read().await.unwrap(), 8);
        assert_eq!(stock.write(9, None).await.unwrap(), Written::Accepted);
        let counted = stock.counted().await.unwrap();
        assert_eq!((counted.left, counted.accepted, counted.refused), (9, 3, 1));
        assert_eq!(stock.write(8, Some(6)).await.unwrap(), Written::Stale);
        stock.fill(5).await.unwrap();
        assert_eq!(stock.write(4, Some(1)).await.unwrap(), Written::Accepted);
    }
}
