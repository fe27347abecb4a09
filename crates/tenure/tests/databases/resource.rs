//! What locks protect: whoever is in is written down, and nobody else may be.

use std::collections::HashMap;
use std::sync::Mutex;

use tenure::Guard;

/// Who is in at the moment, by name, and the largest fence of each name.
#[derive(Debug, Default)]
pub(crate) struct Register(Mutex<HashMap<String, Inside>>);

#[derive(Debug, Default)]
struct Inside {
    readers: usize,
    writers: usize,
    largest: u64,
    grants: u64,
}

impl Register {
    /// Goes in with a guard that was just granted.
    ///
    /// # Panics
    ///
    /// If somebody is in who must not be, or the fence of a writer is not the largest.
    pub(crate) fn enter(&self, guard: &Guard, is_writer: bool) {
        let mut names = self.0.lock().unwrap();
        let inside = names.entry(guard.name().to_string()).or_default();
        let fence = guard.fence().get();
        assert_eq!(inside.writers, 0, "{guard:?} beside a writer: {inside:?}");
        if is_writer {
            assert_eq!(inside.readers, 0, "{guard:?} beside a reader: {inside:?}");
            assert!(fence > inside.largest, "{guard:?}: {inside:?}");
            inside.writers += 1;
        } else {
            inside.readers += 1;
        }
        inside.largest = inside.largest.max(fence);
        inside.grants += 1;
    }

    /// Leaves, before the guard is released.
    pub(crate) fn leave(&self, guard: &Guard, is_writer: bool) {
        let mut names = self.0.lock().unwrap();
        let inside = names.get_mut(guard.name().as_str()).unwrap();
        match is_writer {
            true => inside.writers -= 1,
            false => inside.readers -= 1,
        }
    }

    /// How often somebody was let in.
    pub(crate) fn grants(&self) -> u64 {
        let names = self.0.lock().unwrap();
        names.values().map(|inside| inside.grants).sum()
    }
}
