//! The connection on which a client is told that its turn has come.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until, timeout};

use crate::name::Name;
use crate::store::ledger::Session;
use crate::store::postgres::connect::PostgresSession;
use crate::store::postgres::fault;
use crate::store::sql::database::{Bell, Letter};
use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::sql::record::client_text;

/// Hears what others tell this client, and shows that it is there.
#[derive(Debug)]
pub(crate) struct Listener {
    session: PostgresSession,
    /// How long an answer may take.
    timeout: Duration,
    /// When the rows are looked at, whatever is heard until then.
    look: Instant,
}

impl Listener {
    /// Listens on the channel of a client, and takes the lock by which others know that it is there.
    ///
    /// That lock may still be had by the connection before, if the server does not know yet that it is gone.
    pub(super) async fn start(
        connected: PostgresSession,
        session: Session,
        timeout: Duration,
    ) -> Outcome<Self> {
        let statements = format!(
            "SELECT set_config(name, '0', false) FROM pg_settings \
             WHERE name IN ('idle_session_timeout', 'statement_timeout'); \
             SET lock_timeout = '1s'; LISTEN {}; SELECT pg_advisory_lock({})",
            channel(session),
            presence_key(session),
        );
        let listened = connected.client.batch_execute(&statements).await;
        listened.map_err(fault::of)?;
        Ok(Self {
            session: connected,
            timeout,
            look: Instant::now() + LOOK_AGAIN,
        })
    }
}

#[async_trait]
impl Bell for Listener {
    async fn heard(&mut self, _watched: &[(Name, i64)]) -> Outcome<Option<Letter>> {
        loop {
            let heard = tokio::select! {
                biased;
                () = sleep_until(self.look) => None,
                heard = self.session.notifications.recv() => Some(heard),
            };
            match heard {
                Some(Some(text)) => {
                    // What is no letter was not sent by us.
                    if let Ok(letter) = serde_json::from_str(&text) {
                        return Ok(Some(letter));
                    }
                }
                Some(None) => {
                    return Err(Fault::new(FaultKind::Unknown, "the connection was closed"));
                }
                None => {
                    let beat = self.session.client.simple_query("SELECT 1");
                    let beat = timeout(self.timeout, beat).await;
                    let beat = beat.map_err(|late| Fault::new(FaultKind::Unknown, late))?;
                    beat.map_err(fault::of)?;
                    self.look = Instant::now() + LOOK_AGAIN;
                    return Ok(None);
                }
            }
        }
    }
}

/// The channel on which a client listens.
pub(super) fn channel(session: Session) -> String {
    format!("tenure_{}", client_text(session))
}

/// The key of the advisory lock that a client holds while it listens: the upper half of its number.
pub(super) fn presence_key(session: Session) -> i64 {
    let upper = u64::try_from(session >> 64).unwrap_or_default();
    upper.cast_signed()
}

/// After how long the connection is tried and the rows are looked at, also if other things are heard.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
