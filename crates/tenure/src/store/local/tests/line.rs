//! Who is granted, who waits, and who is told.

use super::*;

#[tokio::test]
async fn two_clients_exclude_each_other() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let (hers, his) = (claim("a", Wait::No), claim("a", Wait::No));
    granted(&ann, &hers).await;
    assert_eq!(bob.acquire(&his).await.unwrap(), Answer::Busy);
    assert_eq!(
        ann.release(&release(&hers)).await.unwrap(),
        Released::Freed { left: 0 }
    );
    granted(&bob, &his).await;
}

#[tokio::test]
async fn the_line_is_served_in_order_and_told() {
    let folder = folder();
    let (ann, bob, cid) = (
        open(&folder).await,
        open(&folder).await,
        open(&folder).await,
    );
    let [first, second, third] = [0; 3].map(|_| claim("a", Wait::InLine));
    let fence = granted(&ann, &first).await;
    queued(&bob, &second).await;
    queued(&cid, &third).await;
    ann.release(&release(&first)).await.unwrap();
    let next = told_granted(&bob, &second).await;
    assert!(fence < next);
    bob.release(&release(&second)).await.unwrap();
    assert!(next < told_granted(&cid, &third).await);
}

#[tokio::test]
async fn an_inbox_that_overflows_says_ask_again() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    hand_over(&ann, &bob, 30).await;
    let (mut grants, mut ask_again) = (0, 0);
    while let Ok(news) = timeout(Duration::from_millis(100), bob.news()).await {
        match news {
            News::AskAgain(None) => ask_again += 1,
            News::Granted { .. } => grants += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!((1..30).contains(&grants), "{grants} fit into the queue");
    assert_eq!(ask_again, 1);
}

#[tokio::test]
async fn those_who_do_not_read_keep_no_news_from_others() {
    let folder = folder();
    let ann = open(&folder).await;
    let mut deaf = Vec::new();
    for _ in 0..40 {
        let other = open(&folder).await;
        hand_over(&ann, &other, 15).await;
        deaf.push(other);
    }
    // The sender's buffer is now full of unread messages, and bob already waits for news.
    let bob = open(&folder).await;
    tokio::join!(next(&bob), hand_over(&ann, &bob, 1));
}

#[tokio::test]
async fn expired_leases_are_swept_away() {
    let folder = folder();
    let ann = open(&folder).await;
    for count in 0..300 {
        let mut short = claim(&format!("short-{count}"), Wait::No);
        short.ttl = Duration::from_nanos(1);
        granted(&ann, &short).await;
    }
    let kept = claim("kept", Wait::No);
    granted(&ann, &kept).await;
    for _ in 0..3 {
        let section = ann.state.enter().await.unwrap();
        let swept = ann
            .state
            .change(section, ann.session, |change| change.sweep());
        swept.unwrap();
    }
    let section = ann.state.enter().await.unwrap();
    let change = Transaction::begin(&ann.state, &section, ann.session).unwrap();
    let page = change.page(None, usize::MAX, |_| true).unwrap();
    let names: Vec<_> = page.found.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [kept.name]);
}

#[tokio::test]
async fn many_renewals_are_answered_in_their_order() {
    let folder = folder();
    let ann = open(&folder).await;
    let mut renewals = Vec::new();
    let mut expected = Vec::new();
    for count in 0..2_500 {
        let held = claim(&format!("name-{}", (count * 7_919) % 2_500), Wait::No);
        let fence = match count % 3 {
            0 => None,
            _ => Some(granted(&ann, &held).await),
        };
        expected.push(match fence {
            Some(fence) => Renewed::Extended { fence, valid: TTL },
            None => Renewed::Lost(Loss::Gone),
        });
        renewals.push(Renewal::new(held.name, held.id, Life::Client, TTL).with_fence(fence));
    }
    assert_eq!(ann.renew(&renewals).await.unwrap(), expected);
    let listed = ann.list(None).await.unwrap();
    assert_eq!(listed.len(), 2_500 - 834);
    assert!(listed.is_sorted_by(|one, other| one.name < other.name));
}

#[tokio::test]
async fn an_evicted_holder_is_told() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let hers = claim("a", Wait::No);
    let fence = granted(&ann, &hers).await;
    let evicted = bob.evict(&hers.name).await.unwrap();
    assert_eq!(evicted.len(), 1);
    let loss = Loss::Evicted;
    let (name, claim) = (hers.name, hers.id);
    let lost = News::Lost {
        name,
        claim,
        fence,
        loss,
    };
    assert_eq!(next(&ann).await, lost);
}

/// Time is paused, so that the wait for a stopped process takes no time.
#[tokio::test(start_paused = true)]
async fn a_process_that_stands_still_makes_the_store_unavailable() {
    let folder = folder();
    let ann = open(&folder).await;
    let other = fs::File::open(folder.path().join("lock")).unwrap();
    other.lock().unwrap();
    let begun = tokio::time::Instant::now();
    let error = ann.acquire(&claim("a", Wait::No)).await.unwrap_err();
    let Error::Unavailable { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(source.to_string().contains("is stopped"), "{source}");
    assert!(begun.elapsed() < 2 * gate::PATIENCE);
    drop(other);
    // The thread that still waits for the lock returns it.
    tokio::time::resume();
    granted(&ann, &claim("a", Wait::No)).await;
}
