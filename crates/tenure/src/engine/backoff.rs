//! Exponential backoff with jitter.

use std::time::Duration;

/// How long to wait before the next try.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    /// Returns the next pause: between 50 % and 100 % of a delay that doubles up to one second.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.0.max(SHORTEST);
        self.0 = (pause * 2).min(LONGEST);
        pause.mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..12).map(|_| backoff.pause()).collect();
        assert!(pauses[0] <= SHORTEST);
        assert!(
            pauses
                .iter()
                .all(|pause| *pause >= SHORTEST / 2 && *pause <= LONGEST)
        );
        assert!(pauses[11] >= LONGEST / 2);
    }
}
