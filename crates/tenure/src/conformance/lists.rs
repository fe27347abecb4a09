//! What listings show, and what is left of locks that nobody uses.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Fixture;
use super::needs::{Need, lacks};
use super::party::{TOLERANCE, TTL, cast, fresh_name, name};
use crate::driver::{Answer, Claim, Driver, Life, Mode, Release, Released};

/// The list is sorted by name, and contains one name or all of them.
pub async fn the_list_is_sorted_and_filtered_by_name(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    let base = fresh_name();
    let tails = ["b", "a", "ä", "B", "a/b", "*", "c"];
    let mut names = tails.map(|tail| name(&format!("{base}/{tail}")));
    for name in &names {
        ann.at(name.clone()).locks().await;
    }
    let all = ann.driver().list(None).await.expect("the store answers");
    assert!(all.is_sorted_by(|a, b| a.name < b.name), "not sorted");
    let mine: Vec<_> = all.into_iter().map(|entry| entry.name).collect();
    names.sort();
    for name in &names {
        assert!(mine.contains(name), "{name} is missing");
        let only = ann.driver().list(Some(name)).await;
        let only = only.expect("the store answers");
        assert!(
            matches!(&only[..], [entry] if entry.name == *name),
            "asked for {name}, listed {only:?}"
        );
    }
    let none = ann.driver().list(Some(&base)).await;
    assert_eq!(none.expect("the store answers"), []);
}

/// The list shows who holds a name, how, why, since when, until when, and from where.
pub async fn the_list_shows_who_holds_and_why(fixture: &dyn Fixture) {
    let mode = match lacks(fixture, &[Need::Permits]).await {
        true => Mode::Exclusive,
        false => Mode::Permits { take: 2, of: 5 },
    };
    let [ann, bob] = cast(fixture).await;
    let ann = ann.mode(mode).but(|claim| {
        claim.about.reason = Some("größer 🔒 '\"\\".into());
        claim.about.host = "a.example".into();
        claim.about.pid = 4711;
    });
    let asked = Instant::now();
    let fence = ann.locks().await;
    let granted = Instant::now();
    sleep(TOLERANCE * 2).await;
    let at_least = granted.elapsed();
    let entry = bob.entry().await;
    let at_most = asked.elapsed();
    assert_eq!(entry.name, ann.claim().name);
    assert_eq!(entry.holders.len(), 1);
    let holder = &entry.holders[0];
    assert_eq!(holder.claim, ann.claim().id);
    assert_eq!(holder.owner, ann.owner());
    assert_eq!(holder.life, Life::Client);
    assert_eq!(holder.mode, ann.claim().mode);
    assert_eq!(holder.fence, fence);
    assert_eq!(holder.depth, 1);
    assert_eq!(holder.about, ann.claim().about);
    assert_close(holder.held, at_least, at_most);
    let (soonest, latest) = (TTL - at_most, TTL - at_least);
    assert_close(holder.expires_in, soonest, latest);
}

/// A holder without a reason, of life `Ttl`, is listed like any other.
pub async fn the_list_shows_a_lease_by_ttl(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::ByHand]).await {
        return;
    }
    let [ann, bob] = cast(fixture).await;
    let ann = ann.life(Life::Ttl).but(|claim| claim.about.reason = None);
    ann.locks().await;
    let entry = bob.entry().await;
    assert_eq!(entry.holders.len(), 1);
    assert_eq!(entry.holders[0].about, ann.claim().about);
    assert_eq!(entry.holders[0].life, Life::Ttl);
}

/// The list shows the line, first to last: who waits, for which mode, and since when.
pub async fn the_list_shows_waiters_in_order(fixture: &dyn Fixture) {
    if lacks(fixture, &[Need::Shared]).await {
        return;
    }
    let [ann, bob, eve] = cast(fixture).await;
    ann.locks().await;
    let asked = Instant::now();
    let bob = bob.mode(Mode::Shared).but(|claim| {
        claim.about.reason = Some("to read".into());
        claim.about.pid = 4711;
    });
    bob.stands().await;
    let stood = Instant::now();
    sleep(TOLERANCE * 2).await;
    eve.stands().await;
    let at_least = stood.elapsed();
    let waiters = ann.entry().await.waiters;
    let at_most = asked.elapsed();
    assert_eq!(waiters.len(), 2);
    assert_eq!(waiters[0].claim, bob.claim().id);
    assert_eq!(waiters[0].owner, bob.owner());
    assert_eq!(waiters[0].mode, Mode::Shared);
    assert_eq!(waiters[0].about, bob.claim().about);
    assert_close(waiters[0].waited, at_least, at_most);
    assert_eq!(waiters[1].owner, eve.owner());
    assert_eq!(waiters[1].mode, Mode::Exclusive);
    assert!(waiters[1].waited <= waiters[0].waited);
}

/// Two thousand names that were each used once leave nothing in the list.
pub async fn names_used_once_leave_nothing_in_the_list(fixture: &dyn Fixture) {
    let [ann] = cast(fixture).await;
    let mut users = JoinSet::new();
    for user in 0..100 {
        let driver = Arc::clone(ann.driver());
        let claim = ann.claim();
        users.spawn(use_up(driver, claim, user));
    }
    users.join_all().await;
    let listed = ann.driver().list(None).await.expect("the store answers");
    let prefix = ann.claim().name;
    let mut left = listed.iter().map(|entry| &entry.name);
    let left = left.find(|name| name.as_str().starts_with(prefix.as_str()));
    assert_eq!(left, None, "left in the list");
}

/// Takes and releases twenty names, one after the other.
async fn use_up(driver: Arc<dyn Driver>, claim: Claim, user: u32) {
    for round in 0..20 {
        let used_once = name(&format!("{}/{user}/{round}", claim.name));
        let claim = Claim::new(used_once, claim.ttl);
        let answer = driver.acquire(&claim).await.expect("the store answers");
        let Answer::Granted(grant) = answer else {
            panic!("a fresh name is not free: {answer:?}");
        };
        let release = Release::of(&claim).with_fence(grant.fence);
        let released = driver.release(&release).await;
        let released = released.expect("the store answers");
        assert_eq!(released, Released::Freed { left: 0 });
    }
}

fn assert_close(found: Duration, at_least: Duration, at_most: Duration) {
    assert!(
        found + TOLERANCE >= at_least && found <= at_most + TOLERANCE,
        "expected {at_least:?} to {at_most:?}, the store says {found:?}"
    );
}
