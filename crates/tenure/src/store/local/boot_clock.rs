//! The machine's boot time, the same number in every process of the machine.
//!
//! A time namespace shifts `CLOCK_BOOTTIME` for the processes in it. The kernel shows the offset
//! from the machine's own clock, and nobody can change it once a process has entered the
//! namespace.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::time::{ClockId, clock_gettime};

use crate::error::Result;
use crate::store::ledger::Nanos;
use crate::store::local::fault;

/// The clock for leases; it advances while the machine is suspended.
#[derive(Debug)]
pub(super) struct BootClock {
    /// How far this process's boot time is ahead of the machine's, in nanoseconds.
    offset: i128,
}

impl BootClock {
    /// Determines the offset of this process's clock.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::Error::Unavailable) if the offset is unknown: without it, a running lease
    /// could look expired.
    pub(super) fn find() -> Result<Self> {
        let unknown = |why: &dyn std::fmt::Display| {
            fault::unavailable(format!(
                "the time namespace of this process is unknown ({why}): start the program inside \
                 its time namespace, with /proc mounted"
            ))
        };
        let offsets = match fs::read_to_string("/proc/self/timens_offsets") {
            Ok(offsets) => offsets,
            // A kernel without time namespaces.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { offset: 0 }),
            Err(error) => return Err(unknown(&error)),
        };
        // The file is about the namespace of future children, which differs from ours in a process that
        // has unshared it and not yet executed another program.
        let namespace = |file: &str| fs::metadata(file).map(|found| found.ino());
        let ours = namespace("/proc/self/ns/time").map_err(|error| unknown(&error))?;
        let children = namespace("/proc/self/ns/time_for_children");
        if children.map_err(|error| unknown(&error))? != ours {
            return Err(unknown(&"that of its children is another one"));
        }
        let offset = boot_offset(&offsets);
        let offset = offset.ok_or_else(|| unknown(&"its offsets cannot be read"))?;
        Ok(Self { offset })
    }

    /// Returns the time since the machine was booted.
    pub(super) fn now(&self) -> Nanos {
        let now = clock_gettime(ClockId::Boottime);
        let now = i128::from(now.tv_sec) * SECOND + i128::from(now.tv_nsec) - self.offset;
        Nanos::try_from(now).unwrap_or(0)
    }
}

const SECOND: i128 = 1_000_000_000;

/// Reads the line `boottime <seconds> <nanoseconds>`.
fn boot_offset(offsets: &str) -> Option<i128> {
    let mut lines = offsets.lines().map(str::split_whitespace);
    let mut words = lines.find_map(|mut words| (words.next()? == "boottime").then_some(words))?;
    let seconds: i128 = words.next()?.parse().ok()?;
    let nanos: i128 = words.next()?.parse().ok()?;
    Some(seconds * SECOND + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_boot_time_is_read() {
        let offsets = "monotonic           5         0\nboottime        -3600 500000000\n";
        assert_eq!(boot_offset(offsets), Some(-3_599_500_000_000));
        assert_eq!(boot_offset("monotonic           0         0\n"), None);
        assert_eq!(boot_offset("boottime           x         0\n"), None);
    }

    #[test]
    fn outside_a_time_namespace_it_is_the_kernels_boot_time() {
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        if boot_offset(&offsets).unwrap_or(0) != 0 {
            eprintln!("skipped: this process is in a time namespace");
            return;
        }
        let kernels = || BootClock { offset: 0 }.now();
        let clock = BootClock::find().unwrap();
        let (before, now, after) = (kernels(), clock.now(), kernels());
        assert!(before <= now && now <= after, "{before} {now} {after}");
    }
}
