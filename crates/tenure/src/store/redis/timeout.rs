//! A timeout that does not expire merely because the process was suspended.

use std::pin::pin;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// Waits for a reply in slices of the timeout.
///
/// If this process is suspended for long, only one slice is over when it resumes. So it still receives
/// a reply that arrived in the meantime, or arrives now because the whole machine was suspended.
pub(crate) async fn in_time<T>(
    patience: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut answer = pin!(answer);
    for _ in 1..SLICES {
        if let Ok(answer) = timeout(patience / SLICES, &mut answer).await {
            return Ok(answer);
        }
    }
    timeout(patience / SLICES, answer).await
}

const SLICES: u32 = 4;

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{Instant, advance, sleep};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let begun = Instant::now();
        assert!(in_time(PATIENCE, pending::<()>()).await.is_err());
        let waited = begun.elapsed();
        // Timers fire a little late.
        assert!(waited >= PATIENCE && waited < 2 * PATIENCE, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_the_last_share_is_in_time() {
        assert!(in_time(PATIENCE, sleep(PATIENCE * 9 / 10)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_stood_still_hears_what_comes_right_after() {
        let stall = async {
            advance(10 * PATIENCE).await;
            sleep(PATIENCE / 10).await;
        };
        assert!(in_time(PATIENCE, stall).await.is_ok());
    }
}
