//! The rules that every driver must keep, as tests that the author of a driver can run.
//!
//! Each rule is a function whose name is the sentence that it proves. It opens as many clients of
//! one store as it needs, and panics if the store breaks the rule. [`conformance!`] makes one test
//! of each. Each rule uses its own names, so that all of them can run at once on one server. Rules
//! wait for events rather than for a time to pass.
//!
//! [`conformance!`]: crate::conformance!
//!
//! # Examples
//!
//! A driver's test file defines how to open another client of the store, and calls the macro. Here
//! the store is the memory store. A real one starts its server in `open` and keeps it in the
//! fixture, so that it stops with the test.
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use tenure::conformance::Fixture;
//! use tenure::driver::Driver;
//! use tenure::store::memory::Memory;
//!
//! mod rules {
//!     tenure::conformance!(super::open());
//! }
//!
//! struct Store(Memory);
//!
//! #[async_trait]
//! impl Fixture for Store {
//!     async fn client(&self) -> Arc<dyn Driver> {
//!         Arc::new(self.0.another())
//!     }
//! }
//!
//! async fn open() -> Store {
//!     Store(Memory::new())
//! }
//! # fn main() {}
//! ```
//!
//! The test crate needs `tenure` with the feature `conformance`, `async-trait`, and `tokio` with
//! `macros`, `rt` and `time`.

mod call_backs;
mod claims;
mod ends;
pub mod faults;
mod fences;
mod line;
mod lists;
pub(crate) mod modes;
mod needs;
pub(crate) mod party;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};

use crate::driver::Driver;

pub use call_backs::*;
pub use claims::*;
pub use ends::*;
pub use fences::*;
pub use line::*;
pub use lists::*;
pub use modes::*;

/// One store, for which the rules open clients.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Opens another client of the same store, as another process would.
    ///
    /// Dropping the last `Arc` ends the client, as the end of its process would.
    async fn client(&self) -> Arc<dyn Driver>;

    /// Returns a ttl short enough to wait for its end: 300 ms, or more for a store that counts in
    /// seconds.
    fn short(&self) -> Duration {
        Duration::from_millis(300)
    }
}

/// Checks every [rule](mod@crate::conformance) on one store, a few at a time, inside one test.
///
/// For stores that take long to start; [`conformance!`](crate::conformance!) makes one test per
/// rule.
///
/// # Panics
///
/// If any rules are broken, with the names of all of them.
pub async fn every_rule(fixture: impl Fixture + 'static) {
    let fixture: Arc<dyn Fixture> = Arc::new(fixture);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut running: Vec<(&str, JoinHandle<()>)> = Vec::new();
    macro_rules! start {
        ($($rule:ident,)+) => {$({
            let (fixture, turns) = (Arc::clone(&fixture), Arc::clone(&turns));
            running.push((stringify!($rule), tokio::spawn(async move {
                let _turn = turns.acquire().await;
                $rule(&*fixture).await;
            })));
        })+};
    }
    crate::conformance!(@rules [start!] []);
    let (count, mut broken) = (running.len(), Vec::new());
    for (rule, ended) in running {
        if let Err(error) = ended.await {
            broken.push(format!("{rule}: {}", why(error)));
        }
    }
    assert!(
        broken.is_empty(),
        "{} of {count} rules are broken:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

/// Returns the message with which a rule failed.
fn why(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "it did not end".to_owned();
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "it failed without a word".to_owned(),
        },
    }
}

/// How many rules run at once. They wait most of the time, and measure some of it.
const AT_ONCE: usize = 6;

/// Makes one test per rule of [the suite](mod@crate::conformance) for the [`Fixture`] that `$open`
/// resolves to.
///
/// [`every_rule`](crate::conformance::every_rule) checks all of them in one test. A store need not
/// do what it lacks by its [capabilities](crate::driver::Capabilities); such a rule then checks
/// that the engine refuses it. If rules follow `$open`, only those are checked.
///
/// [`Fixture`]: crate::conformance::Fixture
#[macro_export]
macro_rules! conformance {
    ($open:expr) => {
        $crate::conformance!(@rules [$crate::conformance!] [$open;]);
    };
    ($open:expr; $($rule:ident,)+) => {$(
        #[tokio::test]
        async fn $rule() {
            let fixture = $open.await;
            $crate::conformance::$rule(&fixture).await;
        }
    )+};
    (@rules [$($call:tt)+] [$($before:tt)*]) => {
        $($call)+ {
            $($before)*
            a_busy_claim_changes_nothing,
            a_claim_from_elsewhere_calls_a_lease_back,
            a_handed_over_lease_is_what_was_asked_for,
            a_grant_lasts_for_as_long_as_the_store_says,
            a_name_that_stays_taken_goes_to_the_next_in_time,
            a_name_that_stays_taken_is_nobodys_and_then_free,
            a_name_that_stays_taken_outlives_its_client,
            a_large_take_at_the_head_is_not_starved,
            a_lease_by_client_ends_with_its_client,
            a_lease_by_ttl_expires,
            a_lease_by_ttl_outlives_its_client,
            a_lease_is_called_back_once,
            a_lease_lasts_for_its_ttl,
            a_lease_that_others_stand_in_line_for_is_called_back_at_once,
            a_mode_that_is_not_covered_is_a_conflict,
            a_place_in_line_ends_with_its_client,
            a_refused_try_calls_back_too,
            a_release_by_fence_hands_over_to_the_next,
            a_release_hands_over_to_the_next,
            a_release_frees_one_claim_of_its_owner,
            a_renewal_after_expiry_does_not_revive_the_lease,
            a_renewal_extends_the_lease,
            a_second_release_says_gone,
            a_short_lease_after_a_long_one_lets_the_next_in,
            a_strangers_release_changes_nothing,
            a_strangers_renewal_changes_nothing,
            a_strangers_withdrawal_changes_nothing,
            a_try_does_not_jump_the_line,
            a_waiting_writer_is_not_passed_by_later_readers,
            a_withdrawn_claim_leaves_the_line,
            a_writer_excludes_readers,
            all_of_the_largest_number_of_permits_exclude_others,
            an_eviction_moves_the_fence_on,
            an_eviction_takes_the_name_from_every_holder,
            an_eviction_tells_the_holder_and_lets_the_next_in,
            an_exclusive_lock_refuses_a_second_owner,
            an_expired_lease_frees_the_name,
            an_expired_lease_lets_the_next_in,
            an_old_fence_changes_nothing,
            asking_again_keeps_the_place,
            asking_again_restarts_the_lease,
            evicting_a_free_name_returns_nothing,
            exclusive_and_permits_exclude_each_other,
            fences_grow_whatever_ended_the_lease_before,
            fences_leave_room_for_the_block_that_was_reserved,
            leaving_the_line_lets_those_behind_in,
            names_used_once_leave_nothing_in_the_list,
            news_is_not_lost_when_a_wait_is_given_up,
            nobody_is_told_to_wait_past_the_lease,
            one_of_many_claims_at_once_is_granted,
            only_a_claim_from_elsewhere_calls_back,
            only_who_asked_for_it_is_called_back,
            other_permits_of_an_owner_wait_until_it_is_out,
            permits_are_granted_up_to_their_number,
            permits_cover_no_other_mode,
            permits_keep_to_the_smallest_number,
            re_entry_does_not_wait_in_line,
            re_entry_is_one_more_claim_of_the_owner,
            requests_about_an_old_claim_leave_a_new_one_of_its_owner_alone,
            readers_that_stand_together_go_in_together,
            reading_under_a_write_lock_is_re_entry,
            renewals_are_answered_in_their_order,
            shared_and_permits_exclude_each_other,
            shared_holders_go_together_and_exclude_a_writer,
            shared_holders_have_a_fence_each,
            the_line_is_first_come_first_served,
            the_list_is_sorted_and_filtered_by_name,
            the_list_shows_a_lease_by_ttl,
            the_list_shows_waiters_in_order,
            the_list_shows_who_holds_and_why,
            the_same_claim_asked_twice_is_granted_once,
            two_clients_of_one_owner_go_in_together,
            two_clients_of_one_owner_share_its_permits,
            two_clients_share_an_owner,
            two_places_of_one_owner_are_two_claims,
            unusual_names_are_distinct_locks,
            withdrawing_a_granted_claim_lets_the_next_in,
            withdrawing_one_claim_leaves_the_others_of_its_owner,
            withdrawing_what_never_was_changes_nothing,
        }
    };
}
