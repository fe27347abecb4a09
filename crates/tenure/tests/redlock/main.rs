//! Redlock: the contract on one to five real servers, and what only a vote can do.
#![cfg(target_os = "linux")]

mod clocks;
mod doctor;
mod majority;
mod minority;
mod nodes;
mod processes;
mod replies;
#[path = "../redis/resource.rs"]
#[expect(dead_code, reason = "the tests of the redis store do more with it")]
mod resource;
mod restarts;
mod sizes;
mod storm;
mod urls;
mod votes;
#[path = "../processes/worker.rs"]
#[expect(dead_code, reason = "the tests of the local store do more with it")]
mod worker;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tenure::{Client, Error, Guard, Health};
use tokio::task::JoinHandle;

mod three {
    crate::rules!(crate::nodes::Nodes::start(3));
}

/// Not a test: a process that does what it is told, one order after the other.
#[test]
fn hand() {
    worker::play(processes::hand);
}

/// All rules of the contract but those of permits, which a vote cannot count.
#[macro_export]
macro_rules! rules {
    ($nodes:expr) => {
        tenure::conformance! {
            std::future::ready($nodes);
            a_busy_claim_changes_nothing,
            a_claim_from_elsewhere_calls_a_lease_back,
            a_handed_over_lease_is_what_was_asked_for,
            a_kept_name_goes_to_the_next_in_time,
            a_kept_name_is_nobodys_and_then_free,
            a_kept_name_outlives_its_client,
            a_lease_by_client_ends_with_its_client,
            a_lease_by_ttl_expires,
            a_lease_by_ttl_outlives_its_client,
            a_lease_is_called_back_once,
            a_lease_lasts_for_its_ttl,
            a_lease_that_others_stand_in_line_for_is_called_back_at_once,
            a_place_in_line_ends_with_its_client,
            a_refused_try_calls_back_too,
            a_release_by_fence_hands_over_to_the_next,
            a_release_hands_over_to_the_next,
            a_release_lowers_to_the_depth_asked_for,
            a_renewal_after_expiry_does_not_revive_the_lease,
            a_renewal_extends_the_lease,
            a_second_release_says_gone,
            a_short_lease_after_a_long_one_lets_the_next_in,
            a_strangers_release_changes_nothing,
            a_strangers_renewal_changes_nothing,
            a_strangers_withdrawal_changes_nothing,
            a_try_beside_the_own_place_is_busy,
            a_try_does_not_jump_the_line,
            a_waiting_writer_is_not_passed_by_later_readers,
            a_withdrawn_claim_leaves_the_line,
            a_writer_excludes_readers,
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
            fences_grow_whatever_ended_the_lease_before,
            fences_leave_room_for_the_block_that_was_reserved,
            leaving_the_line_lets_those_behind_in,
            names_used_once_leave_nothing_in_the_list,
            news_is_not_lost_when_a_wait_is_given_up,
            nobody_is_told_to_wait_past_the_lease,
            one_of_many_claims_at_once_is_granted,
            only_a_claim_from_elsewhere_calls_back,
            only_who_asked_for_it_is_called_back,
            re_entry_does_not_wait_in_line,
            re_entry_has_the_depth_that_was_asked_for,
            readers_that_stand_together_go_in_together,
            reading_under_a_write_lock_is_re_entry,
            renewals_are_answered_in_their_order,
            shared_holders_go_together_and_exclude_a_writer,
            shared_holders_have_a_fence_each,
            the_line_is_first_come_first_served,
            the_list_is_sorted_and_filtered_by_name,
            the_list_shows_a_lease_by_ttl,
            the_list_shows_waiters_in_order,
            the_same_claim_asked_twice_is_granted_once,
            two_clients_of_one_owner_go_in_together,
            two_clients_share_an_owner,
            unusual_names_are_distinct_locks,
            withdrawing_a_granted_claim_lets_the_next_in,
            withdrawing_re_entry_only_lowers_it,
            withdrawing_what_never_was_changes_nothing,
        }
    };
}

async fn open(url: &str) -> Client {
    let opened = tenure::open(url).await;
    opened.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Two clients take turns: one is granted the name, the other waits for it in line.
async fn take_turns(ann: &Client, bob: &Client, name: &str) {
    let hers = lock(ann, name).await;
    let waiting = bob.mutex(name).ttl(STEADY);
    let waiting = tokio::spawn(async move { waiting.lock_timeout(PATIENCE).await });
    until_waiting(ann, name, 1).await;
    assert!(is_held(&hers));
    let fence = hers.fence();
    hers.release().await.unwrap();
    let his = waiting.await.unwrap();
    let his = his.unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
    assert!(fence < his.fence(), "{name}");
    his.release().await.unwrap();
}

/// Gets a free name, however often the store has to be asked.
async fn lock(client: &Client, name: &str) -> Guard {
    let begun = Instant::now();
    loop {
        match client.mutex(name).ttl(STEADY).lock().await {
            Ok(guard) => return guard,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{name}: {}", chain(&error)),
        }
    }
}

/// Waits until a lease is renewed.
async fn until_renewed(guard: &Guard) {
    let left = guard.time_left();
    let end = Instant::now() + left;
    until("a renewal", async || {
        Instant::now() + guard.time_left() > end
    })
    .await;
}

/// Waits until somebody stands in line for a name, or has got it.
///
/// For a wait behind a short lease, which is over if the machine stands still.
async fn until_waiting_or_granted<T>(client: &Client, name: &str, waiting: &JoinHandle<T>) {
    let only = name.parse().unwrap();
    until(&format!("a place in line for {name}"), async || {
        let listed = client.list(Some(&only)).await.unwrap_or_default();
        waiting.is_finished() || listed.iter().any(|entry| entry.waiters.len() == 1)
    })
    .await;
}

fn is_held(guard: &Guard) -> bool {
    !matches!(guard.health(), Health::Lost(_))
}

/// Waits until so many stand in line for a name.
async fn until_waiting(client: &Client, name: &str, count: usize) {
    let only = name.parse().unwrap();
    until(&format!("{count} in line for {name}"), async || {
        // Asked again after a fault: the servers may just be away.
        let listed = client.list(Some(&only)).await.unwrap_or_default();
        let waiters = listed.iter().map(|entry| entry.waiters.len());
        waiters.sum::<usize>() == count
    })
    .await;
}

/// Asks until the answer is yes.
async fn until(what: &str, mut found: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !found().await {
        assert!(
            begun.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for: {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// An error with all its sources, as a program prints it.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The clock that all processes of a machine share, in nanoseconds.
fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How long a test waits for what has to happen before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lease that outlives every test, so that its end explains nothing.
const LONG: Duration = Duration::from_secs(1000);

/// A lease that is renewed before long, also by a machine that stands still for some seconds.
const STEADY: Duration = Duration::from_secs(9);

/// A lease that ends soon.
const SHORT: Duration = Duration::from_millis(1500);
