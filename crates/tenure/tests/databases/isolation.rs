//! Servers whose transactions are isolated otherwise than statements here want it.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::conformance::Fixture;
use tenure::driver::Driver;

use crate::Server;
use crate::databases::Store;

/// A server of its own for each rule.
struct Isolated {
    store: Store,
    _server: Server,
}

#[async_trait]
impl Fixture for Isolated {
    async fn client(&self) -> Arc<dyn Driver> {
        self.store.client().await
    }
}

fn isolated(level: &str) -> Isolated {
    let server = Server::builder().isolation(level).start().unwrap();
    Isolated {
        store: Store::of(&server.url()),
        _server: server,
    }
}

macro_rules! rules {
    ($level:literal) => {
        tenure::conformance!(
            std::future::ready(super::isolated($level));
            a_release_hands_over_to_the_next,
            an_expired_lease_lets_the_next_in,
            fences_grow_whatever_ended_the_lease_before,
            one_of_many_claims_at_once_is_granted,
            renewals_are_answered_in_their_order,
            the_line_is_first_come_first_served,
        );
    };
}

mod repeatable_read {
    rules!("REPEATABLE-READ");
}

mod serializable {
    rules!("SERIALIZABLE");
}
