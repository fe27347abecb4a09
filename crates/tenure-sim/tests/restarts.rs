//! Claims that wait while servers that vote restart are served once those servers vote again.

use tenure_sim::plan::{
    ByHand, ClientPlan, End, Fault, FaultKind, How, LockSpec, ModeSpec, NameKind, NodeClock,
    OwnerSpec, Plan, Setting, Step, StorePlan, Take, TaskPlan,
};
use tenure_sim::{judge, run};

#[test]
fn a_lease_by_hand_that_waits_through_a_restart_is_granted() {
    let by_hand = |lock| {
        Step::ByHand(ByHand {
            lock,
            how: How::Lock,
            renew_after_ms: Vec::new(),
            hold_ms: 10,
            release: true,
        })
    };
    are_served(|| {
        vec![
            client(take(OwnerSpec::None)),
            client(by_hand(lock(OwnerSpec::None))),
        ]
    });
}

#[test]
fn claims_of_one_owner_that_wait_through_a_restart_are_granted() {
    are_served(|| {
        vec![
            client(take(OwnerSpec::None)),
            client(take(OwnerSpec::Named(0))),
            client(take(OwnerSpec::Named(0))),
        ]
    });
}

/// Runs clients that wait behind a holder when all nodes restart, with their data, at different
/// latencies.
fn are_served(waiting: impl Fn() -> Vec<ClientPlan>) {
    let mut broken = Vec::new();
    for seed in 0..SEEDS {
        let mut clients = waiting();
        clients.insert(0, holder());
        let plan = Plan {
            seed,
            store: StorePlan::Redlock {
                nodes: vec![
                    NodeClock {
                        ahead_ms: 0,
                        ppm: 0
                    };
                    3
                ],
                restart_delay_ms: Some(1500),
                hand_over_ms: 300,
            },
            setting: Setting {
                fastest_ms: 1,
                slowest_ms: 15,
                timeout_ms: 300,
                sees_ends_after_ms: None,
                store_ppm: 0,
            },
            names: vec![NameKind::Lock],
            clients,
            faults: vec![Fault {
                at_ms: 150,
                what: FaultKind::StoreDown {
                    nodes: Vec::new(),
                    for_ms: 20,
                    forgets: false,
                },
            }],
            messages: Vec::new(),
        };
        let (findings, _) = judge(&plan, &run(&plan, None, false));
        broken.extend(findings.first().map(|found| (seed, found.sentence.clone())));
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn holder() -> ClientPlan {
    let mut holder = client(take(OwnerSpec::None));
    holder.tasks[0].start_ms = 0;
    if let Step::Take(take) = &mut holder.tasks[0].steps[0] {
        take.hold_ms = 140;
    }
    holder
}

fn client(step: Step) -> ClientPlan {
    ClientPlan {
        ppm: 0,
        order: vec![0, 1, 2],
        unreachable: Vec::new(),
        tasks: vec![TaskPlan {
            start_ms: 60,
            steps: vec![step],
        }],
        after_restart: Vec::new(),
    }
}

fn take(owner: OwnerSpec) -> Step {
    Step::Take(Take {
        lock: lock(owner),
        how: How::Lock,
        cut: None,
        hold_ms: 10,
        inner: None,
        end: End::Release,
    })
}

fn lock(owner: OwnerSpec) -> LockSpec {
    LockSpec {
        name: 0,
        mode: ModeSpec::Exclusive,
        owner,
        ttl_ms: 1000,
        at_least_ms: 0,
        max_hold_ms: None,
        keep_ms: 0,
    }
}

const SEEDS: u64 = 40;
