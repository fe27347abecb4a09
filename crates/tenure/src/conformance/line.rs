//! Rules for the line: first come, first served.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Fixture;
use super::modes::permits;
use super::needs::{Need, lacks, sees_clients_end};
use super::party::{TOLERANCE, cast, until};
use crate::driver::{Answer, Life, Mode, News, Released, Wait};

/// A release hands the name over to the next in line and tells it; the list shows it as the holder.
pub async fn a_release_hands_over_to_the_next(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let fence = ann.locks().await;
    let asked = Instant::now();
    bob.stands().await;
    let stood = Instant::now();
    sleep(TOLERANCE * 2).await;
    let at_least = stood.elapsed();
    ann.frees().await;
    let turn = bob.turn().await;
    let at_most = asked.elapsed();
    assert!(turn.fence > fence);
    if let Some(after) = turn.after {
        assert!(
            after + TOLERANCE >= at_least && after <= at_most + TOLERANCE,
            "stood for {at_least:?} to {at_most:?}, the store says {after:?}"
        );
    }
    let entry = ann.entry().await;
    assert!(entry.waiters.is_empty());
    assert_eq!(entry.holders.len(), 1);
    assert_eq!(entry.holders[0].owner, bob.owner());
    assert_eq!(entry.holders[0].fence, turn.fence);
    assert_eq!(
        bob.locks().await,
        turn.fence,
        "asking again changes nothing"
    );
    bob.frees().await;
}

/// Waiters are granted the name one after the other in the order of arrival, whichever client they
/// use.
pub async fn the_line_is_first_come_first_served(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let waiters = [
        bob.neighbour(),
        eve.neighbour(),
        bob.neighbour(),
        ann.neighbour(),
        eve.neighbour(),
    ];
    let mut fence = ann.locks().await;
    for waiter in &waiters {
        waiter.stands().await;
    }
    let expected: Vec<_> = waiters.iter().collect();
    let mut holder = &ann;
    for (index, waiter) in waiters.iter().enumerate() {
        ann.is_waited_for_by(&expected[index..]).await;
        holder.frees().await;
        let turn = waiter.turn().await;
        assert!(turn.fence > fence);
        waiter.is_held_by(&[waiter]).await;
        (holder, fence) = (waiter, turn.fence);
    }
}

/// Asking again while in line keeps the place, and creates no second one.
pub async fn asking_again_keeps_the_place(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    bob.stands().await;
    ann.is_waited_for_by(&[&bob, &eve]).await;
    ann.frees().await;
    bob.turn().await;
    bob.frees().await;
    eve.turn().await;
    eve.frees().await;
    assert!(ann.entry().await.holders.is_empty());
}

/// A withdrawn claim leaves the line, and the one behind it is next.
pub async fn a_withdrawn_claim_leaves_the_line(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    bob.withdraws().await;
    bob.withdraws().await;
    ann.is_waited_for_by(&[&eve]).await;
    ann.frees().await;
    eve.turn().await;
    eve.is_held_by(&[&eve]).await;
}

/// When the first in line leaves, those behind it that fit are granted the name at once.
pub async fn leaving_the_line_lets_those_behind_in(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared, Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve, dan] = cast(fixture).await;
    let (ann, eve) = (ann.mode(Mode::Shared), eve.mode(Mode::Shared));
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    bob.withdraws().await;
    eve.turn().await;
    ann.is_held_by(&[&ann, &eve]).await;
    if !sees_clients_end(fixture).await {
        return;
    }
    let reader = eve.neighbour();
    dan.stands().await;
    reader.stands().await;
    drop(dan);
    reader.turn().await;
}

/// A release that names its fence hands over as any other does, and leaves the rest of the line
/// unchanged.
pub async fn a_release_by_fence_hands_over_to_the_next(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let mut fence = ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    for (holder, next) in [(&ann, &bob), (&bob, &eve)] {
        let released = holder.releases_with(|release| release.fence = Some(fence));
        assert_eq!(released.await, Released::Freed { left: 0 });
        let turn = next.turn().await;
        assert!(turn.fence > fence);
        next.is_held_by(&[next]).await;
        fence = turn.fence;
    }
    let released = eve.releases_with(|release| release.fence = Some(fence));
    assert_eq!(released.await, Released::Freed { left: 0 });
    ann.locks().await;
}

/// A claim that does not wait is refused while others wait in line, so it does not pass them.
pub async fn a_try_does_not_jump_the_line(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared, Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let ann = ann.mode(Mode::Shared);
    ann.locks().await;
    bob.stands().await;
    eve.is_refused().await;
    eve.mode(Mode::Shared).is_refused().await;
    ann.is_waited_for_by(&[&bob]).await;
    ann.frees().await;
    bob.turn().await;
}

/// Readers that arrive later do not pass a writer that waits in line.
pub async fn a_waiting_writer_is_not_passed_by_later_readers(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared, Need::FirstCome]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let (ann, eve) = (ann.mode(Mode::Shared), eve.mode(Mode::Shared));
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    ann.is_held_by(&[&ann]).await;
    ann.frees().await;
    bob.turn().await;
    bob.is_held_by(&[&bob]).await;
    bob.frees().await;
    eve.turn().await;
}

/// Adjacent readers in line are granted the name together, up to the next writer.
pub async fn readers_that_stand_together_go_in_together(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared, Need::FirstCome]).await {
        return;
    }
    let [ann, bob, dan, eve] = cast(fixture).await;
    let (bob, dan) = (bob.mode(Mode::Shared), dan.mode(Mode::Shared));
    let later = bob.neighbour();
    ann.locks().await;
    bob.stands().await;
    dan.stands().await;
    eve.stands().await;
    later.stands().await;
    ann.frees().await;
    let (first, second) = (bob.turn().await.fence, dan.turn().await.fence);
    assert!(first < second);
    ann.is_held_by(&[&bob, &dan]).await;
    ann.is_waited_for_by(&[&eve, &later]).await;
    bob.frees().await;
    dan.frees().await;
    eve.turn().await;
    eve.is_held_by(&[&eve]).await;
}

/// A claim for many permits at the head of the line is not starved by smaller ones behind it.
pub async fn a_large_take_at_the_head_is_not_starved(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Permits]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let (ann, bob, eve) = (
        permits(&ann, 1, 3),
        permits(&bob, 3, 3),
        permits(&eve, 1, 3),
    );
    ann.locks().await;
    bob.stands().await;
    eve.is_refused().await;
    eve.stands().await;
    ann.is_held_by(&[&ann]).await;
    ann.frees().await;
    bob.turn().await;
    bob.is_held_by(&[&bob]).await;
    bob.frees().await;
    eve.turn().await;
}

/// A claim that is handed over has the life that it asked for.
pub async fn a_handed_over_lease_is_what_was_asked_for(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::ByHand]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let bob = bob.life(Life::Ttl);
    ann.locks().await;
    bob.stands().await;
    ann.frees().await;
    bob.turn().await;
    ann.is_held_by(&[&bob]).await;
    let heir = bob.through(&ann);
    drop(bob);
    eve.is_refused().await;
    heir.frees().await;
    eve.locks().await;
}

/// A cancelled wait for news loses no news.
pub async fn news_is_not_lost_when_a_wait_is_given_up(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    ann.locks().await;
    bob.stands().await;
    let give_up = || timeout(Duration::from_millis(1), bob.driver().news());
    assert!(
        !matches!(give_up().await, Ok(News::Granted { .. })),
        "granted while another holds the name"
    );
    ann.frees().await;
    until("the grant to be told in many short waits", || async {
        match give_up().await {
            Ok(News::Granted { claim, .. }) => claim == bob.claim().id,
            Ok(News::AskAgain(_)) => {
                let answer = bob.asks(Wait::InLine).await;
                matches!(answer, Ok(Answer::Granted(_)))
            }
            Ok(other) => panic!("unexpected news: {other:?}"),
            Err(_) => false,
        }
    })
    .await;
}
