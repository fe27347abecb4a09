//! Waiting for an answer, but not for ever.

use std::pin::pin;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// Waits for an answer in shares of the time that it may take.
///
/// If this process stands still for long, only one share is over when it goes on, and what has come
/// meanwhile, or comes now because the whole machine stood still, is heard.
pub(crate) async fn in_time<T>(
    patience: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut answer = pin!(answer);
    for _ in 1..SHARES {
        if let Ok(answer) = timeout(patience / SHARES, &mut answer).await {
            return Ok(answer);
        }
    }
    timeout(patience / SHARES, answer).await
}

const SHARES: u32 = 4;

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
        // Timers are a little late.
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
