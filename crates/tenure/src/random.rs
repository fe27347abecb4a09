//! Randomness: from the operating system, or from a seed in a repeatable simulation.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// Returns 128 bits from the operating system, or from a seeded generator if the system has none.
pub(crate) fn random_u128() -> u128 {
    #[cfg(feature = "simulation")]
    if seeded::is_on() {
        return fastrand::u128(..);
    }
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_le_bytes(bytes),
        Err(_) => fastrand::u128(..),
    }
}

/// A hash map whose iteration order follows from the seed of the thread's generator.
pub(crate) type SeededMap<K, V> = HashMap<K, V, SeededHash>;

/// Hashes with a separate key for each map, so that nobody can choose names that collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeededHash(u64);

impl Default for SeededHash {
    fn default() -> Self {
        Self(fastrand::u64(..))
    }
}

impl BuildHasher for SeededHash {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

#[cfg(feature = "simulation")]
pub(crate) mod seeded {
    use std::cell::Cell;

    thread_local! {
        static IS_ON: Cell<bool> = const { Cell::new(false) };
    }

    pub(crate) fn is_on() -> bool {
        IS_ON.get()
    }

    /// Makes all random choices of tenure on this thread follow from `seed`.
    ///
    /// Ids that come from a seed can be guessed, so this is only for simulations.
    pub fn seed(seed: u64) {
        IS_ON.set(true);
        fastrand::seed(seed);
    }
}
