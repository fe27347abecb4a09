//! A server's wall clock that tests can move.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::process;

/// The files of a server's clock: a library for the server, and the clock's offset.
#[derive(Debug)]
pub(crate) struct MovableClock {
    folder: PathBuf,
}

impl MovableClock {
    /// Builds the library in `folder`, with the C compiler that Rust uses for linking.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let compiler = process::find("cc", "gcc")?;
        let clock = Self {
            folder: folder.to_owned(),
        };
        fs::write(folder.join(SOURCE), include_str!("clock.c"))
            .map_err(Error::io("write the source of a clock"))?;
        clock.set(0)?;
        let made = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-o", LIBRARY, SOURCE])
            .current_dir(folder)
            .output()
            .map_err(Error::io("run cc"))?;
        if !made.status.success() {
            return Err(Error::Program {
                program: "cc".into(),
                log: String::from_utf8_lossy(&made.stderr).into_owned(),
            });
        }
        Ok(clock)
    }

    /// Sets by how many microseconds the clock is ahead.
    pub(crate) fn set(&self, off_us: i64) -> Result<()> {
        // Written in place, because the server has mapped the file.
        let path = self.folder.join(OFF);
        let file = fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let written = file.and_then(|file| {
            std::os::unix::fs::FileExt::write_all_at(&file, &off_us.to_ne_bytes(), 0)
        });
        written.map_err(Error::io("move a clock"))
    }

    /// Returns the environment variables of a server in `folder`.
    pub(crate) fn environment(folder: &Path) -> [String; 2] {
        let path = |name| folder.join(name).display().to_string();
        [
            format!("LD_PRELOAD={}", path(LIBRARY)),
            format!("TENURE_CLOCK={}", path(OFF)),
        ]
    }
}

const SOURCE: &str = "clock.c";
const LIBRARY: &str = "clock.so";
const OFF: &str = "clock.off";
