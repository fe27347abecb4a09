//! The embedded store: no servers, so only its clients can be broken.

use super::{TortureStore, WITHOUT_SERVERS};

pub(super) const STORE: TortureStore = TortureStore {
    schemes: &["local"],
    ..WITHOUT_SERVERS
};
