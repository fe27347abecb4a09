//! A durable upper bound of fences, so that they grow across reboots without a sync per grant.
//!
//! The next fence is in the state, which a power cut may destroy. The upper bound (ceiling) is on
//! disk: it is raised, and synced, before a fence at or above it is issued. If the state is lost,
//! fences continue from the ceiling.

use crate::error::Result;
use crate::store::local::fault;
use crate::store::local::folder::Folder;

/// The ceiling's file in the store's directory.
pub(super) const FILE: &str = "fence";

/// How far the ceiling is raised each time: one sync for this many fences.
const STEP: u64 = 1 << 24;

/// Reads the ceiling; `None` if there is none yet.
pub(super) fn read(folder: &Folder) -> Result<Option<u64>> {
    let Some(text) = folder.read(FILE)? else {
        return Ok(None);
    };
    let ceiling = str::from_utf8(&text).ok().and_then(parse);
    ceiling.map(Some).ok_or_else(|| lost(folder, "is damaged"))
}

/// Raises the ceiling above `next`, durably, and returns it.
pub(super) fn raise(folder: &Folder, next: u64) -> Result<u64> {
    let ceiling = next.saturating_add(STEP);
    let written = folder.replace(FILE, &write(ceiling));
    written.map_err(|error| fault::io(&folder.path().join(FILE), &error))?;
    Ok(ceiling)
}

/// Returns the error for a lost ceiling: without it, nobody knows which fences were issued.
pub(super) fn lost(folder: &Folder, what: &str) -> crate::Error {
    let path = folder.path();
    let file = path.join(FILE);
    fault::damaged(format!(
        "{} {what}: put it back from a backup; or, if nothing checks fences, stop the programs \
         that use {} and delete that directory",
        file.display(),
        path.display()
    ))
}

fn write(ceiling: u64) -> String {
    format!("{ceiling} {:016x}\n", checksum(ceiling))
}

fn parse(text: &str) -> Option<u64> {
    let (ceiling, _) = text.split_once(' ')?;
    let ceiling = ceiling.parse().ok()?;
    (text == write(ceiling)).then_some(ceiling)
}

/// Returns an FNV-1a checksum, which is enough to detect a torn or mistyped number.
fn checksum(number: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let bytes = number.to_le_bytes();
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_comes_back_as_it_was_written() {
        for ceiling in [1, STEP, u64::MAX] {
            assert_eq!(parse(&write(ceiling)), Some(ceiling));
        }
    }

    #[test]
    fn a_changed_or_cut_ceiling_is_noticed() {
        let text = write(1_048_576);
        assert_eq!(parse(&text.replace("1048576", "1048577")), None);
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), None, "{end}");
        }
    }
}
