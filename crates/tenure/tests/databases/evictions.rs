//! Evictions that meet something else.

use std::time::Duration;

use tenure::driver::{Answer, Claim, Loss, Renewal, Renewed, Wait};

use crate::databases::{LONG, patient, until};
use crate::{open_driver, shared_url};

/// The lease before is over, and nobody has noticed yet: the eviction lets the next one in and takes the name away from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_let_in_and_evicted_at_once_is_told_why() {
    let url = patient(&shared_url());
    let (ann, bob) = (
        open_driver(&url).await.unwrap(),
        open_driver(&url).await.unwrap(),
    );
    let (name, next) = loop {
        let name: tenure::Name = format!("evicted at once {}", tenure::Owner::unique())
            .parse()
            .unwrap();
        let short = Claim::new(name.clone(), Duration::from_millis(300));
        ann.acquire(&short).await.unwrap();
        let next = Claim::new(name.clone(), LONG).with_wait(Wait::InLine);
        // On a busy machine the first lease may be over by then.
        if let Answer::Queued { .. } = bob.acquire(&next).await.unwrap() {
            break (name, next);
        }
    };
    until(
        "the first lease to be over by the server's clock",
        async || {
            let listed = ann.list(Some(&name)).await.unwrap();
            listed.iter().all(|entry| entry.holders.is_empty())
        },
    )
    .await;
    let evicted = ann.evict(&name).await.unwrap();
    assert_eq!(evicted.len(), 1);
    assert_eq!(evicted[0].claim, next.id);
    let renewal = Renewal::of(&next).with_fence(evicted[0].fence);
    let renewed = bob.renew(&[renewal]).await.unwrap();
    assert_eq!(renewed, [Renewed::Lost(Loss::Evicted)]);
}
