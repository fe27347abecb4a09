//! The stock in a file of this machine.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};

use super::{Stock, Written, failed};
use crate::demo::flash_sale::record::Counted;
use tenure_cli::error::Result;

/// Four numbers in a file; who writes has locked the file.
///
/// That lock only makes the comparison of the fence and the write one step. It is held for some
/// microseconds, and says nothing about what was read before.
#[derive(Debug)]
pub(super) struct File(fs::File);

impl File {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut options = fs::File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        Ok(Self(file.open(path).map_err(|error| failed(&error))?))
    }

    fn numbers(&self) -> Result<Numbers> {
        let mut bytes = [0; Numbers::LENGTH];
        let read = self.0.read_exact_at(&mut bytes, 0);
        read.map_err(|error| failed(&error))?;
        Ok(Numbers::from_bytes(bytes))
    }

    fn put(&self, numbers: &Numbers) -> Result<()> {
        let written = self.0.write_all_at(&numbers.to_bytes(), 0);
        written.map_err(|error| failed(&error))
    }

    fn write_locked(&self, left: u64, fence: Option<u64>) -> Result<Written> {
        let mut numbers = self.numbers()?;
        if fence.is_some_and(|fence| fence < numbers.fence) {
            numbers.refused += 1;
            self.put(&numbers)?;
            return Ok(Written::Stale);
        }
        numbers.left = left;
        numbers.accepted += 1;
        numbers.fence = fence.unwrap_or(numbers.fence);
        self.put(&numbers)?;
        Ok(Written::Accepted)
    }
}

#[async_trait]
impl Stock for File {
    async fn fill(&self, left: u64) -> Result<()> {
        let numbers = Numbers {
            left,
            ..Numbers::default()
        };
        self.put(&numbers)
    }

    async fn read(&self) -> Result<u64> {
        Ok(self.numbers()?.left)
    }

    async fn write(&self, left: u64, fence: Option<u64>) -> Result<Written> {
        flock(&self.0, FlockOperation::LockExclusive).map_err(|error| failed(&error))?;
        let written = self.write_locked(left, fence);
        flock(&self.0, FlockOperation::Unlock).map_err(|error| failed(&error))?;
        written
    }

    async fn counted(&self) -> Result<Counted> {
        let numbers = self.numbers()?;
        Ok(Counted {
            left: numbers.left,
            accepted: numbers.accepted,
            refused: numbers.refused,
        })
    }

    /// It goes with its folder.
    async fn remove(&self, _lock: &str) -> Result<()> {
        Ok(())
    }
}

/// What stands in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Numbers {
    left: u64,
    accepted: u64,
    refused: u64,
    /// The largest that was seen.
    fence: u64,
}

impl Numbers {
    const LENGTH: usize = 32;

    fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let numbers = [self.left, self.accepted, self.refused, self.fence];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        let mut numbers = bytes.chunks_exact(8).map(|eight| {
            let number = eight.try_into().map(u64::from_le_bytes);
            number.unwrap_or_default()
        });
        let mut next = || numbers.next().unwrap_or_default();
        Self {
            left: next(),
            accepted: next(),
            refused: next(),
            fence: next(),
        }
    }
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
