//! The one way to wait for a server: retry until a deadline.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Retries until `probe` returns `Ok`, for at most [`PATIENCE`]; its `Err` describes the state
/// instead.
pub(crate) fn until<T>(
    what: impl Into<String>,
    mut probe: impl FnMut() -> Result<T, String>,
) -> Result<T> {
    let start = Instant::now();
    let mut pause = SHORTEST;
    loop {
        let last = match probe() {
            Ok(found) => return Ok(found),
            Err(last) => last,
        };
        if start.elapsed() >= PATIENCE {
            return Err(Error::TimedOut {
                what: what.into(),
                waited: PATIENCE,
                last,
            });
        }
        thread::sleep(pause);
        pause = LONGEST.min(pause * 2);
    }
}

/// Long enough for a busy machine during a failover, shorter than the timeout of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The pause between the first two attempts.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_millis(10);
