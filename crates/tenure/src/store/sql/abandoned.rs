//! Connections that were abandoned while a statement may still be in flight on them.
//!
//! The server may execute such a statement late: after the client has repeated it on another connection, and has released what it
//! was granted there. It would then grant a lease that nobody renews or releases. So the client ends these connections
//! at the server before it sends anything else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::store::sql::database::Connection;
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::sync::Mutex;

/// The connections to end.
#[derive(Debug)]
pub(super) struct Abandoned<C: Connection> {
    ids: Mutex<Vec<C::Id>>,
    /// Held by whoever ends them.
    ending: tokio::sync::Mutex<()>,
    /// Whether the log says already that the server refuses to end connections.
    warned: AtomicBool,
}

impl<C: Connection> Default for Abandoned<C> {
    fn default() -> Self {
        Self {
            ids: Mutex::default(),
            ending: tokio::sync::Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }
}

impl<C: Connection> Abandoned<C> {
    /// Notes a connection on which a statement may be in flight; of many, the last ones are kept.
    pub(super) fn add(&self, connection: &C) {
        let Some(id) = connection.id() else {
            return;
        };
        let mut ids = self.ids.lock();
        if ids.len() == MOST {
            ids.remove(0);
        }
        ids.push(id);
    }

    /// Ends all of them over another connection, and waits until they are over, for half of `patience` at most.
    ///
    /// Best effort: one that hangs has then been told to end, and does so before it reads another statement. Those that the
    /// server refuses to end are forgotten: asking again would be refused again, and nothing else could be sent.
    ///
    /// # Errors
    ///
    /// If the other connection is broken or does not answer within `patience`. It must not be used again.
    pub(super) async fn end(&self, connection: &mut C, patience: Duration) -> Outcome<()> {
        if self.ids.lock().is_empty() {
            return Ok(());
        }
        match timeout(patience, self.end_in_turn(connection, patience / 2)).await {
            Ok(ended) => ended,
            Err(_) => {
                let why = format!("no answer in {patience:?}");
                Err(Fault::new(FaultKind::Refused, why))
            }
        }
    }

    async fn end_in_turn(&self, connection: &mut C, longest: Duration) -> Outcome<()> {
        // Others wait too: what they are about to send must not overtake the end either.
        let _turn = self.ending.lock().await;
        let ids = self.ids.lock().clone();
        let begun = Instant::now();
        while !ids.is_empty() {
            match connection.end(&ids).await {
                Ok(0) => break,
                Ok(_) if begun.elapsed() >= longest => break,
                Ok(_) => sleep(PAUSE).await,
                Err(fault) if fault.kind == FaultKind::Unknown || connection.is_closed() => {
                    return Err(fault);
                }
                Err(fault) => {
                    self.warn(&fault);
                    break;
                }
            }
        }
        self.ids.lock().retain(|id| !ids.contains(id));
        Ok(())
    }

    /// Reports a refusal once: it is mostly due to a missing right, and then comes again each time.
    fn warn(&self, fault: &Fault) {
        if self.warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(error = %fault.source, "abandoned connections are not ended");
            return;
        }
        tracing::warn!(
            error = %fault.source,
            "the server refuses to end abandoned connections: a late statement may leave a lease until its ttl ends"
        );
    }
}

/// How many are kept: as many as a client may have connections.
const MOST: usize = 1000;

/// How long the server has for the end of a connection before it is asked again.
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::stub::{Ends, StubConnection};

    const PATIENCE: Duration = Duration::from_secs(2);

    fn connection(id: u32, ends: Ends) -> StubConnection {
        StubConnection {
            id,
            ends,
            ..StubConnection::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_ended_once() {
        let abandoned = Abandoned::default();
        abandoned.add(&connection(1, Ends::AtOnce));
        let mut other = connection(2, Ends::AtOnce);
        abandoned.end(&mut other, PATIENCE).await.unwrap();
        abandoned.end(&mut other, PATIENCE).await.unwrap();
        assert_eq!(other.told, [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_end_is_waited_for_in_vain_once() {
        let abandoned = Abandoned::default();
        abandoned.add(&connection(1, Ends::AtOnce));
        let mut other = connection(2, Ends::Never);
        let begun = Instant::now();
        abandoned.end(&mut other, PATIENCE).await.unwrap();
        assert!(begun.elapsed() < PATIENCE);
        let begun = Instant::now();
        abandoned.end(&mut other, PATIENCE).await.unwrap();
        assert!(begun.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_asked_again_by_the_next() {
        let abandoned = Abandoned::default();
        abandoned.add(&connection(1, Ends::AtOnce));
        let mut frozen = connection(2, Ends::Unanswered);
        let begun = Instant::now();
        let fault = abandoned.end(&mut frozen, PATIENCE).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Refused);
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
        let mut next = connection(3, Ends::AtOnce);
        abandoned.end(&mut next, PATIENCE).await.unwrap();
        assert_eq!(next.told, [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_refuses_is_asked_once() {
        let abandoned = Abandoned::default();
        abandoned.add(&connection(1, Ends::AtOnce));
        let mut other = connection(2, Ends::Refused);
        abandoned.end(&mut other, PATIENCE).await.unwrap();
        abandoned.end(&mut other, PATIENCE).await.unwrap();
        assert_eq!(other.told, [1]);
    }
}
