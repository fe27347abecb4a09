//! What only the scripts do: if no rule of the suite detects a change, one of these does.

mod calls;
mod damage;
mod entries;
mod fences;
mod hand_over;
mod lease;
mod line;
mod permits;
mod string;
mod told;
mod twins;
mod votes;

use std::time::Duration;

use tokio::time::timeout;

use super::Test;
use crate::conformance::party::{Party, until};
use crate::driver::{Grant, News, Released};
use crate::name::Fence;

/// Returns all scenarios by name.
pub(super) fn all() -> impl Iterator<Item = &'static (&'static str, Test)> {
    let topics = [
        calls::ALL,
        damage::ALL,
        entries::ALL,
        fences::ALL,
        hand_over::ALL,
        lease::ALL,
        line::ALL,
        permits::ALL,
        string::ALL,
        told::ALL,
        twins::ALL,
        votes::ALL,
    ];
    topics.into_iter().flatten()
}

/// Lists the scenarios of a file, and generates a test of each with the original scripts.
macro_rules! scenarios {
    ($($name:ident,)+) => {
        pub(super) const ALL: &[(&str, $crate::store::redis::mutants::Test)] =
            &[$((stringify!($name), |lab| Box::pin($name(lab)))),+];

        mod passes {$(
            #[tokio::test]
            async fn $name() {
                super::$name(&super::Lab::start()).await;
            }
        )+}
    };
}

use scenarios;

/// Releases a lease with its fence.
async fn frees(party: &Party, fence: Fence) {
    let released = party.releases_with(|release| release.fence = Some(fence));
    assert_eq!(released.await, Released::Freed { left: 0 });
}

/// Waits until exactly these parties are listed in line: a dead client is missing only after the
/// server has noticed its end.
async fn until_waited_for_by(party: &Party, waiters: &[&Party]) {
    let expected: Vec<_> = waiters.iter().map(|waiter| waiter.claim().id).collect();
    until("the dead to be passed over", || async {
        let found = party.entry().await.waiters.into_iter();
        found.map(|waiter| waiter.claim).collect::<Vec<_>>() == expected
    })
    .await;
}

/// Waits for the message that a claim was granted.
async fn is_told_of_a_grant(party: &Party) -> Grant {
    loop {
        match is_told(party).await {
            News::Granted { claim, grant, .. } if claim == party.claim().id => return grant,
            _ => {}
        }
    }
}

/// Waits for the next news of a client.
async fn is_told(party: &Party) -> News {
    let told = timeout(Duration::from_secs(20), party.driver().news()).await;
    told.expect("somebody is told something")
}

/// Fails if a client gets any news.
async fn hears_nothing(party: &Party) {
    let news = timeout(Duration::from_millis(100), party.driver().news()).await;
    assert!(news.is_err(), "told {news:?}");
}
