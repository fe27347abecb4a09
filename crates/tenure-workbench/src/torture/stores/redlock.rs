//! Redis servers that vote.

use super::redis::{self, start_servers};
use super::{Order, OwnServers, TortureStore};

pub(super) const STORE: TortureStore = TortureStore {
    schemes: &["redlock", "redlocks"],
    // They promise an order only as seen by a majority, and none after a split vote.
    order: Order::Never,
    votes: true,
    own: Some(OwnServers {
        name: "redlock",
        help: "Three of them, which vote",
        start: || {
            let (servers, addresses) = start_servers(3)?;
            Ok((servers, format!("redlock://{addresses}?restart_delay=off")))
        },
    }),
    ..redis::STORE
};
