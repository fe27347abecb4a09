//! The store of one process, which a torture run with several processes cannot use.

use super::{TortureStore, WITHOUT_SERVERS};

pub(super) const STORE: TortureStore = TortureStore {
    schemes: &["memory"],
    refuses: |_| {
        Some("memory: is a store of one process alone, and a torture needs several; use local:")
    },
    ..WITHOUT_SERVERS
};
