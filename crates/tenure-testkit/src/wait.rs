//! One way to wait for a server: ask again until a deadline.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Asks until `probe` returns `Ok`, for [`PATIENCE`] at the longest; the `Err` says what is there instead.
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

/// Long enough for a loaded machine with a failover under way, shorter than a test may hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Between the first two questions.
const SHORTEST: Duration = Duration::from_millis(1);

/// Between two questions.
const LONGEST: Duration = Duration::from_millis(10);
