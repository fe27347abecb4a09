//! One change of a name at a time in each client: its others would only make each other read the row again.
//!
//! Without turns, the requests of one client for one name cost as many statements as the square of their number, and
//! one of them may lose against newcomers for as long as these come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::name::Name;
use crate::sync::Mutex;

/// Whose turn it is to change a name.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<Name, Arc<tokio::sync::Mutex<()>>>>);

/// The turn of one change, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    name: Name,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for its turn, first come first served; goes ahead without one after `patience`, because nothing
    /// depends on it but speed. Returns also whether it had to wait.
    pub(super) async fn wait(&self, name: &Name, patience: Duration) -> (Turn<'_>, bool) {
        let lock = Arc::clone(self.0.lock().entry(name.clone()).or_default());
        // From before it waits, so that it leaves nothing behind if it is dropped.
        let mut turn = Turn {
            turns: self,
            name: name.clone(),
            held: None,
        };
        let at_once = Arc::clone(&lock).try_lock_owned();
        let has_waited = at_once.is_err();
        turn.held = match at_once {
            Ok(held) => Some(held),
            Err(_) => timeout(patience, lock.lock_owned()).await.ok(),
        };
        (turn, has_waited)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.held.take());
        let mut turns = self.turns.0.lock();
        // Whoever holds it or waits for it has a copy.
        if turns
            .get(&self.name)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            turns.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn changes_of_a_name_take_turns_and_leave_nothing_behind() {
        let (turns, name) = (Turns::default(), Name::new("a").unwrap());
        let (first, has_waited) = turns.wait(&name, SHORT).await;
        assert!(!has_waited && first.held.is_some());
        let (ahead, has_waited) = turns.wait(&name, SHORT).await;
        assert!(has_waited && ahead.held.is_none());
        let mut next = Box::pin(turns.wait(&name, SHORT));
        tokio::select! {
            biased;
            _ = &mut next => panic!("two had their turn"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        let (next, has_waited) = next.await;
        assert!(has_waited && next.held.is_some());
        drop((ahead, next));
        assert!(turns.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_dropped_leaves_nothing_behind() {
        let (turns, name) = (Turns::default(), Name::new("a").unwrap());
        let (first, _) = turns.wait(&name, SHORT).await;
        let mut dropped = Box::pin(turns.wait(&name, SHORT));
        tokio::select! {
            biased;
            _ = &mut dropped => panic!("two had their turn"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        drop(dropped);
        assert!(turns.0.lock().is_empty());
    }
}
