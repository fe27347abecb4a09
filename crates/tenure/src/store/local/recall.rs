//! Names to ask about again, because a process that has ended may not have sent its messages.
//!
//! A process that is killed between a change and its messages leaves a client that holds a lock
//! without knowing it. So a client that waits behind a process asks again when that process ends.

use std::collections::BTreeSet;

use tokio::sync::Notify;

use crate::driver::News;
use crate::name::Name;
use crate::sync::Mutex;

/// How many names are remembered individually; beyond that, all names count.
const MOST: usize = 1_000;

/// A set of names; `None` in it stands for all.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<BTreeSet<Option<Name>>>);

impl Names {
    pub(super) fn add(&self, name: Option<Name>) {
        let mut names = self.0.lock();
        if names.len() == MOST && !names.contains(&name) {
            names.clear();
            names.insert(None);
        } else {
            names.insert(name);
        }
    }

    fn pop(&self) -> Option<Option<Name>> {
        self.0.lock().pop_first()
    }
}

/// The names that one client has to ask about again.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    names: Names,
    rung: Notify,
}

impl Recalls {
    /// Adds all names that waited behind a session that has ended.
    pub(super) fn call(&self, names: &Names) {
        while let Some(name) = names.pop() {
            self.names.add(name);
        }
        self.rung.notify_one();
    }

    /// Removes and returns the next call.
    pub(super) fn next(&self) -> Option<News> {
        self.names.pop().map(News::AskAgain)
    }

    /// Waits until there may be a call.
    pub(super) async fn rung(&self) {
        self.rung.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_names_become_all() {
        let (names, recalls) = (Names::default(), Recalls::default());
        for count in 0..=MOST {
            names.add(Some(format!("name-{count}").parse().unwrap()));
        }
        recalls.call(&names);
        assert_eq!(recalls.next(), Some(News::AskAgain(None)));
        assert_eq!(recalls.next(), None);
    }
}
