//! Starts this program again as another process.

use std::io;
use std::path::PathBuf;

/// Returns the running program, even if its file was replaced in the meantime.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe()
    }
}
