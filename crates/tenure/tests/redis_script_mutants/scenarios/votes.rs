//! Servers that vote: proposed numbers, and numbers that have won.

use super::scenarios;
use crate::conformance::party::{Party, cast};
use crate::driver::{Answer, Claim, Driver as _, Life, Mode, Renewal, Renewed, Wait};
use crate::name::Fence;
use crate::store::redis::hash::Hash;
use crate::store::redis::mutants::lab::Lab;
use crate::store::vote::Number;

scenarios![
    a_vote_takes_the_number_that_is_proposed,
    a_vote_keeps_to_larger_numbers_of_the_node,
    a_vote_says_what_the_clock_is,
    a_vote_may_wait_or_not,
    a_number_that_won_is_written_down,
    a_number_that_won_lowers_nothing,
    a_lease_is_given_back_unless_others_had_the_name,
    a_lease_that_is_given_back_does_not_wait,
    what_was_handed_over_is_numbered_anew,
    a_lease_of_no_client_keeps_its_number,
    what_claims_of_an_owner_share_keeps_its_number,
    what_claims_of_an_owner_share_has_the_number_that_one_has_won,
    a_number_that_won_leaves_other_claims_of_the_owner_alone,
];

const MODES: [Mode; 2] = [Mode::Exclusive, Mode::Shared];

/// Returns one client that votes at the lab's server.
async fn voter(lab: &Lab) -> Hash {
    let voter = lab.voter();
    voter.link.next_try().await.unwrap();
    voter
}

/// Returns a claim on a party's name, for three fences.
fn claim(party: &Party, mode: Mode, wait: Wait) -> Claim {
    party.claim().with_mode(mode).with_wait(wait).with_fences(3)
}

async fn fence(voter: &Hash, claim: &Claim, number: Number) -> u64 {
    match voter.vote(claim, number).await.unwrap().answer {
        Answer::Granted(grant) => grant.fence.get(),
        other => panic!("expected a grant, got {other:?}"),
    }
}

fn exactly(number: u64) -> Number {
    Number::Exactly(Fence::new(number).unwrap())
}

/// A little less than the largest number that a script counts exactly.
const AHEAD: u64 = 4_000_000_000_000_000;

async fn a_vote_takes_the_number_that_is_proposed(lab: &Lab) {
    let voter = voter(lab).await;
    for mode in MODES {
        let [ann, bob] = cast(lab).await;
        let (one, other) = (claim(&ann, mode, Wait::No), claim(&bob, mode, Wait::No));
        assert_eq!(fence(&voter, &one, Number::AtLeast(AHEAD)).await, AHEAD);
        voter.withdraw(&one).await.unwrap();
        let next = fence(&voter, &other, Number::AtLeast(AHEAD + 2)).await;
        assert_eq!(next, AHEAD + 3, "three were set aside");
    }
}

async fn a_vote_keeps_to_larger_numbers_of_the_node(lab: &Lab) {
    let voter = voter(lab).await;
    for mode in MODES {
        let [ann] = cast(lab).await;
        let claim = claim(&ann, mode, Wait::No);
        let by_clock = fence(&voter, &claim, Number::AtLeast(7)).await;
        assert!(by_clock > 1_500_000_000_000_000, "a time, not {by_clock}");
        voter.withdraw(&claim).await.unwrap();
        lab.cli(&["SET", &lab.key(&ann, ":fence"), &AHEAD.to_string()]);
        let by_last = fence(&voter, &claim, Number::AtLeast(AHEAD)).await;
        assert_eq!(by_last, AHEAD + 1);
    }
}

async fn a_vote_says_what_the_clock_is(lab: &Lab) {
    let voter = voter(lab).await;
    let now = || {
        let time = lab.cli(&["TIME"]);
        let (seconds, micros) = time.split_once('\n').unwrap();
        let [seconds, micros] = [seconds, micros].map(|text| text.trim().parse::<u64>().unwrap());
        seconds * 1_000_000 + micros
    };
    for mode in MODES {
        let [ann] = cast(lab).await;
        let claim = claim(&ann, mode, Wait::No);
        // A new grant, and an existing one.
        for number in [Number::AtLeast(AHEAD), exactly(AHEAD)] {
            let before = now();
            let vote = voter.vote(&claim, number).await.unwrap();
            let clock = vote.clock_us.unwrap();
            assert!((before..=now()).contains(&clock), "{clock}");
            assert!(vote.started.is_some());
        }
    }
}

async fn a_vote_may_wait_or_not(lab: &Lab) {
    let voter = voter(lab).await;
    let [ann, bob] = cast(lab).await;
    let holder = claim(&ann, Mode::Exclusive, Wait::No);
    fence(&voter, &holder, Number::AtLeast(0)).await;
    for mode in MODES {
        let [tries, waits] = [Wait::No, Wait::InLine].map(|wait| claim(&bob, mode, wait));
        let vote = voter.vote(&tries, Number::AtLeast(0)).await.unwrap();
        assert_eq!(vote.answer, Answer::Busy);
        let vote = voter.vote(&waits, Number::AtLeast(0)).await.unwrap();
        assert!(matches!(vote.answer, Answer::Queued { .. }), "{vote:?}");
        voter.withdraw(&waits).await.unwrap();
    }
}

async fn a_number_that_won_is_written_down(lab: &Lab) {
    let voter = voter(lab).await;
    for mode in MODES {
        let [ann, bob] = cast(lab).await;
        let (one, other) = (claim(&ann, mode, Wait::No), claim(&bob, mode, Wait::No));
        fence(&voter, &one, Number::AtLeast(AHEAD)).await;
        assert_eq!(fence(&voter, &one, exactly(AHEAD + 50)).await, AHEAD + 50);
        let listed = voter.list(Some(&one.name)).await.unwrap();
        assert_eq!(listed[0].holders[0].fence.get(), AHEAD + 50);
        voter.withdraw(&one).await.unwrap();
        let next = fence(&voter, &other, Number::AtLeast(0)).await;
        assert_eq!(next, AHEAD + 53, "three were set aside");
    }
}

/// A client that knows a smaller number does not know this grant: others may have had the name in
/// between.
async fn a_number_that_won_lowers_nothing(lab: &Lab) {
    let voter = voter(lab).await;
    for mode in MODES {
        let [ann] = cast(lab).await;
        let one = claim(&ann, mode, Wait::No);
        fence(&voter, &one, Number::AtLeast(AHEAD + 50)).await;
        let vote = voter.vote(&one, exactly(AHEAD + 49)).await.unwrap();
        assert_eq!(vote.answer, Answer::Busy);
        let listed = voter.list(Some(&one.name)).await.unwrap();
        assert_eq!(listed[0].holders[0].fence.get(), AHEAD + 50);
        assert_eq!(fence(&voter, &one, exactly(AHEAD + 50)).await, AHEAD + 50);
        // What was already reserved is not reduced.
        lab.cli(&["SET", &lab.key(&ann, ":fence"), &(AHEAD + 90).to_string()]);
        fence(&voter, &one, exactly(AHEAD + 51)).await;
        let last = lab.cli(&["GET", &lab.key(&ann, ":fence")]);
        assert_eq!(last.parse::<u64>(), Ok(AHEAD + 90));
    }
}

async fn a_lease_is_given_back_unless_others_had_the_name(lab: &Lab) {
    let voter = voter(lab).await;
    for mode in MODES {
        let [ann, bob] = cast(lab).await;
        let (one, other) = (claim(&ann, mode, Wait::No), claim(&bob, mode, Wait::No));
        fence(&voter, &one, Number::AtLeast(AHEAD)).await;
        // A node that forgot everything, or that has never granted such a large number.
        for last in [None, Some(AHEAD - 1)] {
            lab.cli(&["DEL", &lab.key(&ann, "")]);
            let key = lab.key(&ann, ":fence");
            match last {
                None => lab.cli(&["DEL", &key]),
                Some(last) => lab.cli(&["SET", &key, &last.to_string()]),
            };
            assert_eq!(fence(&voter, &one, exactly(AHEAD)).await, AHEAD);
            let last = lab.cli(&["GET", &key]);
            assert_eq!(last.parse::<u64>(), Ok(AHEAD + 2));
        }
        // What somebody else wrote there is not a number.
        lab.cli(&["DEL", &lab.key(&ann, "")]);
        lab.cli(&["SET", &lab.key(&ann, ":fence"), "what"]);
        assert_eq!(fence(&voter, &one, exactly(AHEAD)).await, AHEAD);
        // However long ago it was won.
        lab.cli(&["DEL", &lab.key(&ann, ""), &lab.key(&ann, ":fence")]);
        assert_eq!(fence(&voter, &one, exactly(7)).await, 7);
        // Another claim had the name, or may have had it with this very number.
        lab.cli(&["DEL", &lab.key(&ann, "")]);
        fence(&voter, &other, Number::AtLeast(0)).await;
        voter.withdraw(&other).await.unwrap();
        for last in [AHEAD + 5, AHEAD] {
            lab.cli(&["SET", &lab.key(&ann, ":fence"), &last.to_string()]);
            let revived = voter.vote(&one, exactly(AHEAD)).await.unwrap();
            assert_eq!(revived.answer, Answer::Busy);
        }
    }
}

/// A free name that others wait for goes to them.
async fn a_lease_that_is_given_back_does_not_wait(lab: &Lab) {
    let voter = voter(lab).await;
    let [ann, bob] = cast(lab).await;
    let one = claim(&ann, Mode::Exclusive, Wait::No);
    fence(&voter, &one, Number::AtLeast(AHEAD)).await;
    let waits = claim(&bob, Mode::Exclusive, Wait::InLine);
    voter.vote(&waits, Number::AtLeast(0)).await.unwrap();
    lab.expire(&ann);
    let late = voter.vote(&one, exactly(AHEAD)).await.unwrap();
    assert_eq!(late.answer, Answer::Busy);
    fence(&voter, &waits, Number::AtLeast(0)).await;
}

async fn what_was_handed_over_is_numbered_anew(lab: &Lab) {
    for mode in MODES {
        let (voter, waiter) = (voter(lab).await, voter(lab).await);
        let [ann, bob] = cast(lab).await;
        let holder = claim(&ann, Mode::Exclusive, Wait::No);
        fence(&voter, &holder, Number::AtLeast(0)).await;
        let waits = claim(&bob, mode, Wait::InLine);
        waiter.vote(&waits, Number::AtLeast(0)).await.unwrap();
        voter.withdraw(&holder).await.unwrap();
        let number = fence(&waiter, &waits, Number::AtLeast(AHEAD)).await;
        assert_eq!(number, AHEAD);
        let listed = voter.list(Some(&waits.name)).await.unwrap();
        assert_eq!(listed[0].holders[0].fence.get(), AHEAD);
        // Others were numbered meanwhile, so it comes after them.
        let number = fence(&waiter, &waits, Number::AtLeast(AHEAD)).await;
        assert_eq!(number, AHEAD + 3);
    }
}

/// Whoever knows the claim may ask for it again, and does not know whether it has won.
async fn a_lease_of_no_client_keeps_its_number(lab: &Lab) {
    let (one, heir) = (voter(lab).await, voter(lab).await);
    for mode in MODES {
        let [ann] = cast(lab).await;
        for ann in [&ann.named(), &ann] {
            let claim = claim(&ann.life(Life::Ttl).nested(), mode, Wait::No);
            let number = fence(&one, &claim, Number::AtLeast(AHEAD)).await;
            for client in [&one, &heir] {
                let again = fence(client, &claim, Number::AtLeast(AHEAD)).await;
                assert_eq!(again, number);
            }
            heir.withdraw(&claim).await.unwrap();
        }
    }
}

/// Claims of one owner share a number, and some of them may have been reported with it.
async fn what_claims_of_an_owner_share_keeps_its_number(lab: &Lab) {
    let (one, other) = (voter(lab).await, voter(lab).await);
    for mode in MODES {
        let [ann] = cast(lab).await;
        let ann = ann.named();
        let (first, second) = (
            claim(&ann, mode, Wait::No),
            claim(&ann.nested(), mode, Wait::No),
        );
        let number = fence(&one, &first, Number::AtLeast(0)).await;
        let joined = other.vote(&second, Number::AtLeast(AHEAD)).await.unwrap();
        assert!(joined.joins);
        for (client, claim) in [(&other, &second), (&one, &first)] {
            assert_eq!(fence(client, claim, Number::AtLeast(AHEAD)).await, number);
        }
        one.withdraw(&first).await.unwrap();
        let alone = fence(&other, &second, Number::AtLeast(AHEAD)).await;
        assert_eq!(alone, AHEAD, "nobody else has reported it");
    }
}

async fn what_claims_of_an_owner_share_has_the_number_that_one_has_won(lab: &Lab) {
    let voter = voter(lab).await;
    for mode in MODES {
        let [ann] = cast(lab).await;
        let ann = ann.named();
        let [first, second] = [&ann, &ann.nested()].map(|party| claim(party, mode, Wait::No));
        fence(&voter, &first, Number::AtLeast(0)).await;
        fence(&voter, &second, Number::AtLeast(0)).await;
        fence(&voter, &first, exactly(AHEAD)).await;
        assert_eq!(fence(&voter, &second, Number::AtLeast(0)).await, AHEAD);
        let listed = voter.list(Some(&ann.claim().name)).await.unwrap();
        let fences = listed[0].holders.iter().map(|holder| holder.fence.get());
        assert_eq!(fences.collect::<Vec<_>>(), [AHEAD, AHEAD]);
    }
}

/// A number that one claim has won does not apply to another claim of its owner, which has its own;
/// but the next claim joins with it.
async fn a_number_that_won_leaves_other_claims_of_the_owner_alone(lab: &Lab) {
    let voter = voter(lab).await;
    for mode in MODES {
        let [ann, bob] = cast(lab).await;
        let ann = ann.named();
        let [first, second, third] =
            [&ann, &ann.nested(), &ann.nested()].map(|party| claim(party, mode, Wait::No));
        let older = fence(&voter, &first, Number::AtLeast(AHEAD)).await;
        assert_eq!(
            fence(&voter, &second, exactly(AHEAD + 50)).await,
            AHEAD + 50
        );
        let renewal = |claim: &Claim, number| Renewal::of(claim).with_fence(Fence::new(number));
        let renewals = [renewal(&first, older), renewal(&second, AHEAD + 50)];
        let renewed = voter.renew(&renewals).await.unwrap();
        let is_kept = |renewed: &Renewed| matches!(renewed, Renewed::Extended { .. });
        assert!(renewed.iter().all(is_kept), "{renewed:?}");
        assert_eq!(fence(&voter, &third, Number::AtLeast(0)).await, AHEAD + 50);
        // What the first one knows is not lowered for the others either.
        assert_eq!(fence(&voter, &first, exactly(older)).await, older);
        let fourth = claim(&ann.nested(), mode, Wait::No);
        assert_eq!(fence(&voter, &fourth, Number::AtLeast(0)).await, AHEAD + 50);
        let late = claim(&ann.nested(), mode, Wait::No);
        let refused = voter.vote(&late, exactly(AHEAD + 49)).await.unwrap();
        assert_eq!(refused.answer, Answer::Busy, "the owner has a larger one");
        for claim in [&first, &second, &third, &fourth] {
            voter.withdraw(claim).await.unwrap();
        }
        bob.locks().await;
    }
}
