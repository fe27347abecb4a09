//! Observes the store's lines while the clients work, so that the history shows who was seen
//! waiting.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Client, Name};
use tenure_checker::{Event, What};

use super::recorder::Recorder;
use crate::clock::{micros, now_us};

/// Lists the lines repeatedly, for as long as it is polled.
pub(super) async fn watch(
    client: &Client,
    names: &[Name],
    ttl: Duration,
    recorder: &Arc<Recorder>,
) {
    loop {
        for name in names {
            let begun_us = now_us();
            // A store that is down shows nothing.
            if let Ok(entries) = client.list(Some(name)).await {
                // Taken after the reply: everybody in that line was in line at some time before
                // now.
                let at_us = now_us();
                if at_us - begun_us > micros(ttl) / 4 {
                    recorder.stood_still(begun_us, at_us);
                }
                let waiters = entries.iter().flat_map(|entry| &entry.waiters);
                for waiter in waiters {
                    if let Some(claim) = recorder.seen_in_line(waiter.owner.as_str()) {
                        recorder.note(Event {
                            at_us,
                            process: 0,
                            what: What::Queued { claim },
                        });
                    }
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// The interval between two lists: short enough to see most waiters, and long enough to cost the
/// store nothing.
const EVERY: Duration = Duration::from_millis(20);
