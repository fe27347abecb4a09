//! How leases end: by their ttl, with their client, by an operator; and names that stay taken after a
//! release.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::Fixture;
use super::needs::{Need, lacks, sees_clients_end, tells_evictions};
use super::party::{TOLERANCE, TTL, cast, fresh_name, until};
use crate::driver::{Answer, Life, Loss, Mode, Released, Renewed};

/// A lease that is not renewed expires, and the name is free.
pub async fn an_expired_lease_frees_the_name(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let older = ann.ttl(fixture.short()).locks().await;
    until("the lease to end", || async {
        ann.entry().await.holders.is_empty()
    })
    .await;
    let newer = bob.locks().await;
    assert!(older < newer);
    bob.is_held_by(&[&bob]).await;
    assert_eq!(ann.releases().await, Released::NotHeld(Loss::TakenOver));
    bob.is_held_by(&[&bob]).await;
}

/// A grant and a renewal report how long they are valid: no longer than the lease lasts, and not just for a
/// moment.
pub async fn a_grant_lasts_for_as_long_as_the_store_says(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    let asked = Instant::now();
    let grant = ann.is_granted().await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(
        grant.valid <= left + asked.elapsed() + TOLERANCE,
        "{left:?} left of {grant:?}"
    );
    assert!(grant.valid > TTL / 2, "asked for {TTL:?}, got {grant:?}");
    assert!(grant.fences >= 1);
    let asked = Instant::now();
    let Renewed::Extended { valid, .. } = ann.ttl(TTL * 2).renews(None).await else {
        panic!("the lease has just been granted");
    };
    let left = ann.entry().await.holders[0].expires_in;
    assert!(
        valid <= left + asked.elapsed() + TOLERANCE,
        "{left:?} left of {valid:?}"
    );
    assert!(valid > TTL, "renewed for {:?}, got {valid:?}", TTL * 2);
}

/// A lease lasts for its ttl, which starts no earlier than the request.
pub async fn a_lease_lasts_for_its_ttl(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let asked = Instant::now();
    ann.ttl(fixture.short()).locks().await;
    bob.locks_in_time().await;
    let lasted = asked.elapsed();
    assert!(
        lasted + TOLERANCE >= fixture.short(),
        "over after {lasted:?}"
    );
}

/// A renewal makes the lease last for its ttl from then on.
pub async fn a_renewal_extends_the_lease(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let first_ttl = fixture.short() * 4;
    let (fence, past_first_end) = loop {
        let asked = Instant::now();
        let fence = ann.ttl(first_ttl).locks().await;
        let past_first_end = Instant::now() + first_ttl + TOLERANCE;
        match ann.renews(Some(fence)).await {
            Renewed::Extended { fence: found, .. } if found == fence => {
                break (fence, past_first_end);
            }
            // The machine was stalled for that long.
            Renewed::Lost(_) if asked.elapsed() + TOLERANCE >= first_ttl => {}
            other => panic!("expected to extend {fence}, got {other:?}"),
        }
    };
    ann.extends(fence).await;
    let left = ann.entry().await.holders[0].expires_in;
    assert!(left > TTL / 2 && left <= TTL, "renewed for {left:?}");
    sleep_until(past_first_end).await;
    bob.is_refused().await;
    ann.is_held_by(&[&ann]).await;
}

/// A renewal after the end reports that the lease is lost, and does not revive it.
pub async fn a_renewal_after_expiry_does_not_revive_the_lease(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let fence = ann.ttl(fixture.short()).locks().await;
    until("the lease to end", || async {
        ann.entry().await.holders.is_empty()
    })
    .await;
    for named in [Some(fence), None] {
        assert!(matches!(ann.renews(named).await, Renewed::Lost(_)));
    }
    assert!(ann.entry().await.holders.is_empty(), "it was revived");
    bob.locks().await;
    for named in [Some(fence), None] {
        assert_eq!(ann.renews(named).await, Renewed::Lost(Loss::TakenOver));
    }
    bob.is_held_by(&[&bob]).await;
}

/// Renewals sent together are answered individually and in order.
pub async fn renewals_are_answered_in_their_order(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let parties = [0, 1, 2, 3, 4].map(|_| ann.at(fresh_name()));
    let mut renewals = Vec::new();
    let mut expected = Vec::new();
    for (index, party) in parties.iter().enumerate() {
        if index % 2 == 0 {
            let fence = party.locks().await;
            renewals.push(party.renewal(Some(fence)));
            let valid = TTL;
            expected.push(Renewed::Extended { fence, valid });
        } else {
            bob.at(party.claim().name).locks().await;
            renewals.push(party.renewal(None));
            expected.push(Renewed::Lost(Loss::TakenOver));
        }
    }
    let answers = ann.driver().renew(&renewals).await;
    let whatever_its_time = |renewed: Renewed| match renewed {
        Renewed::Extended { fence, .. } => Renewed::Extended { fence, valid: TTL },
        other => other,
    };
    let answers = answers.expect("the store answers").into_iter();
    assert_eq!(answers.map(whatever_its_time).collect::<Vec<_>>(), expected);
    let none = ann.driver().renew(&[]).await;
    assert_eq!(none.expect("the store answers"), []);
}

/// A lease of life `Ttl` outlives its client; anyone who knows its claim can renew and release it from
/// another client.
pub async fn a_lease_by_ttl_outlives_its_client(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::ByHand]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let ann = ann.life(Life::Ttl);
    let heir = ann.through(&bob);
    let fence = ann.locks().await;
    drop(ann);
    bob.is_refused().await;
    assert_eq!(heir.locks().await, fence, "asking again goes on with it");
    bob.is_held_by(&[&heir]).await;
    heir.extends(fence).await;
    let next_heir = heir.through(&eve);
    drop((bob, heir));
    eve.is_refused().await;
    let released = next_heir.releases_with(|release| release.fence = Some(fence));
    assert_eq!(released.await, Released::Freed { left: 0 });
    eve.locks().await;
}

/// A lease of life `Ttl` expires by its ttl.
pub async fn a_lease_by_ttl_expires(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::ByHand]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    ann.life(Life::Ttl).ttl(fixture.short()).locks().await;
    bob.locks_in_time().await;
}

/// A lease of life `Client` ends with its client, and the next in line is granted the name.
pub async fn a_lease_by_client_ends_with_its_client(fixture: &dyn Fixture) {
    let [mut ann, mut bob, eve] = cast(fixture).await;
    if !sees_clients_end(fixture).await {
        ann = ann.ttl(fixture.short());
        bob = bob.ttl(fixture.short());
    }
    let older = ann.locks().await;
    let entered = bob.stands_or_enters().await;
    drop(ann);
    let newer = match entered {
        Some(fence) => fence,
        None => bob.turn().await.fence,
    };
    assert!(older < newer);
    if sees_clients_end(fixture).await {
        assert_eq!(entered, None, "she was there");
        bob.is_held_by(&[&bob]).await;
    }
    drop(bob);
    eve.locks_in_time().await;
}

/// A place in line ends with its client, whatever the life of the requested lease.
pub async fn a_place_in_line_ends_with_its_client(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::ByHand, Need::FirstCome]).await {
        return;
    }
    let [ann, bob, dan, eve] = cast(fixture).await;
    ann.locks().await;
    bob.stands().await;
    dan.life(Life::Ttl).stands().await;
    eve.stands().await;
    drop(bob);
    drop(dan);
    until("the dead to leave the line", || async {
        // Live clients ask again, which is how some stores know that they are alive.
        assert_eq!(eve.asks_if_called().await, None);
        let line = ann.entry().await.waiters;
        line.len() == 1 && line[0].claim == eve.claim().id
    })
    .await;
    ann.frees().await;
    eve.turn().await;
    eve.is_held_by(&[&eve]).await;
}

/// A name that stays taken after its release is held by nobody, not even its last owner, and then becomes
/// free.
pub async fn a_name_that_stays_taken_is_nobodys_and_then_free(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::StaysTaken, Need::ByHand]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    for life in [Life::Client, Life::Ttl] {
        // Once for longer than the rule runs, and once so short that the rule can wait for the end.
        for stays_taken in [TTL, fixture.short()] {
            let name = fresh_name();
            let (ann, bob) = (ann.life(life).at(name.clone()), bob.at(name));
            let older = ann.locks().await;
            let releases = Instant::now();
            let released = ann.releases_with(|release| release.stays_taken = stays_taken);
            assert_eq!(released.await, Released::Freed { left: 0 });
            if stays_taken == TTL {
                bob.is_refused().await;
                ann.is_refused().await;
            }
            assert!(matches!(ann.renews(None).await, Renewed::Lost(_)));
            assert!(matches!(ann.releases().await, Released::NotHeld(_)));
            ann.withdraws().await;
            if stays_taken == TTL {
                bob.is_refused().await;
                continue;
            }
            let newer = bob.locks_in_time().await;
            let lasted = releases.elapsed();
            assert!(lasted + TOLERANCE >= stays_taken, "free after {lasted:?}");
            assert!(older < newer);
            bob.frees().await;
        }
    }
}

/// A name that stays taken does so even if the client that released it ends.
pub async fn a_name_that_stays_taken_outlives_its_client(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::StaysTaken]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    ann.locks().await;
    let released = ann.releases_with(|release| release.stays_taken = TTL);
    assert_eq!(released.await, Released::Freed { left: 0 });
    drop(ann);
    sleep(TOLERANCE).await;
    bob.is_refused().await;
}

/// A waiter is granted the name when the time for which it stayed taken is over, although the lease would
/// have lasted longer; also if the first in line leaves meanwhile.
pub async fn a_name_that_stays_taken_goes_to_the_next_in_time(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::StaysTaken]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    ann.locks().await;
    bob.stands().await;
    eve.stands().await;
    let released = ann.releases_with(|release| release.stays_taken = fixture.short());
    assert_eq!(released.await, Released::Freed { left: 0 });
    bob.withdraws().await;
    eve.turn().await;
    eve.is_held_by(&[&eve]).await;
}

/// A waiter is never told to wait longer than the first lease ahead of it lasts.
pub async fn nobody_is_told_to_wait_past_the_lease(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared]).await {
        return;
    }
    let [ann, bob, eve, dan] = cast(fixture).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    ann.locks().await;
    let (left, told) = (ann.entry().await.holders[0].expires_in, eve.stands().await);
    let Some(told) = told else {
        // The store is certain to report the end.
        return;
    };
    assert!(told <= left + TOLERANCE, "{left:?} left, told {told:?}");
    assert!(told > Duration::ZERO, "asking at once is polling");
    eve.withdraws().await;
    bob.ttl(TTL / 4).locks().await;
    for waiter in [&eve, &dan, &eve] {
        let told = waiter.stands().await.unwrap_or_default();
        assert!(told <= TTL / 4 + TOLERANCE, "told {told:?}");
    }
}

/// A waiter is granted the name when the lease ahead of it expires.
pub async fn an_expired_lease_lets_the_next_in(fixture: &dyn Fixture) {
    let [ann, bob] = cast(fixture).await;
    let older = ann.ttl(fixture.short()).locks().await;
    let newer = match bob.stands_or_enters().await {
        Some(fence) => fence,
        None => bob.turn().await.fence,
    };
    assert!(older < newer);
    bob.is_held_by(&[&bob]).await;
}

/// A short lease that is handed over and never renewed does not delay those behind it until the end of the
/// long lease that they first waited for.
pub async fn a_short_lease_after_a_long_one_lets_the_next_in(fixture: &dyn Fixture) {
    let [ann, bob, eve] = cast(fixture).await;
    ann.locks().await;
    let bob = bob.ttl(fixture.short());
    bob.stands().await;
    eve.stands().await;
    ann.frees().await;
    eve.turn().await;
    eve.is_held_by(&[&eve]).await;
}

/// An eviction takes the name from its holder, tells the holder, returns it, and grants the name to the next.
pub async fn an_eviction_tells_the_holder_and_lets_the_next_in(fixture: &dyn Fixture) {
    let [ann, bob, eve] = cast(fixture).await;
    let fence = ann.locks().await;
    bob.stands().await;
    let evicted = eve.evicts().await;
    assert_eq!(evicted.len(), 1, "{evicted:?}");
    assert_eq!(evicted[0].owner, ann.owner());
    assert_eq!(evicted[0].fence, fence);
    assert_eq!(evicted[0].claim, ann.claim().id);
    assert_eq!(evicted[0].depth, 1);
    let loss = match tells_evictions(fixture).await {
        true => {
            assert_eq!(ann.loses().await, (fence, Loss::Evicted));
            Loss::TakenOver
        }
        false => Loss::Evicted,
    };
    assert!(bob.turn().await.fence > fence);
    bob.is_held_by(&[&bob]).await;
    assert_eq!(ann.renews(Some(fence)).await, Renewed::Lost(loss));
    let released = ann.releases_with(|release| release.fence = Some(fence));
    assert_eq!(released.await, Released::NotHeld(loss));
}

/// An eviction takes the name from all its holders, including those without a client.
pub async fn an_eviction_takes_the_name_from_every_holder(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared, Need::ByHand]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    let (ann, bob) = (ann.mode(Mode::Shared), bob.mode(Mode::Shared));
    let bob = bob.life(Life::Ttl);
    ann.locks().await;
    bob.locks().await;
    assert_eq!(eve.evicts().await.len(), 2);
    assert!(eve.entry().await.holders.is_empty());
    if tells_evictions(fixture).await {
        ann.loses().await;
    }
    eve.locks().await;
    for party in [&ann, &bob] {
        assert_eq!(party.renews(None).await, Renewed::Lost(Loss::TakenOver));
    }
}

/// Evicting a free name evicts nobody.
pub async fn evicting_a_free_name_returns_nothing(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    assert!(ann.evicts().await.is_empty());
    assert!(ann.entry().await.holders.is_empty());
    assert!(matches!(ann.tries().await, Answer::Granted(_)));
}
