//! Numbers of nodes other than three: five with all rules, and some unusual ones with a few.

mod five {
    tenure::conformance!(std::future::ready(crate::nodes::Shared::nodes(5)));
}

macro_rules! some_rules {
    ($count:expr) => {
        tenure::conformance! {
            std::future::ready(crate::nodes::Shared::nodes($count));
            a_lease_by_ttl_expires,
            a_release_hands_over_to_the_next,
            a_renewal_after_expiry_does_not_revive_the_lease,
            a_renewal_extends_the_lease,
            an_eviction_tells_the_holder_and_lets_the_next_in,
            an_exclusive_lock_refuses_a_second_owner,
            fences_grow_whatever_ended_the_lease_before,
            one_of_many_claims_at_once_is_granted,
            shared_holders_go_together_and_exclude_a_writer,
            the_line_is_first_come_first_served,
            the_same_claim_asked_twice_is_granted_once,
        }
    };
}

mod one {
    some_rules!(1);
}

mod two {
    some_rules!(2);
}

mod four {
    some_rules!(4);
}
