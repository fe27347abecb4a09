//! The embedded store. It has no servers, so faults can only hit its clients.

use super::{TortureStore, WITHOUT_SERVERS};

pub(super) const STORE: TortureStore = TortureStore {
    schemes: &["local"],
    ..WITHOUT_SERVERS
};
