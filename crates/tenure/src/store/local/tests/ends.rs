//! Clients and processes that end, and what they leave behind.

use super::*;

#[tokio::test]
async fn a_client_that_is_dropped_frees_its_leases() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let his = claim("a", Wait::InLine);
    granted(&ann, &claim("a", Wait::No)).await;
    queued(&bob, &his).await;
    drop(ann);
    told_granted(&bob, &his).await;
    let files = fs::read_dir(folder.path().join("clients")).unwrap().count();
    assert_eq!(files, 2, "the files of one client are left");
}

#[tokio::test]
async fn a_killed_holder_frees_its_lease_for_the_waiter_at_once() {
    let folder = folder();
    let mut holder = child(&folder, "hold a");
    let bob = open(&folder).await;
    let his = claim("a", Wait::InLine);
    queued(&bob, &his).await;
    holder.kill().unwrap();
    told_granted(&bob, &his).await;
    holder.wait().unwrap();
}

#[tokio::test]
async fn a_holder_killed_between_its_release_and_the_message_leaves_nobody_waiting() {
    let folder = folder();
    let mut holder = child(&folder, "release-unsaid a");
    let bob = open(&folder).await;
    let his = claim("a", Wait::InLine);
    queued(&bob, &his).await;
    // It dies by itself after its release, before it tells anybody.
    holder.wait().unwrap();
    assert_eq!(next(&bob).await, News::AskAgain(Some(his.name.clone())));
    granted(&bob, &his).await;
}

#[tokio::test]
async fn a_holder_that_was_killed_before_is_found_out_by_a_claim() {
    let folder = folder();
    let bob = open(&folder).await;
    let mut holder = child(&folder, "hold a");
    assert_eq!(
        bob.acquire(&claim("a", Wait::No)).await.unwrap(),
        Answer::Busy
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
    granted(&bob, &claim("a", Wait::No)).await;
}

#[tokio::test]
async fn a_killed_waiter_is_passed_over() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let (hers, his) = (claim("a", Wait::No), claim("a", Wait::InLine));
    granted(&ann, &hers).await;
    let mut waiter = child(&folder, "wait a");
    queued(&bob, &his).await;
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    ann.release(&release(&hers)).await.unwrap();
    told_granted(&bob, &his).await;
}

#[tokio::test]
async fn a_grant_to_the_dead_is_taken_back() {
    let folder = folder();
    let ann = open(&folder).await;
    let hers = claim("a", Wait::No);
    granted(&ann, &hers).await;
    let mut waiter = child(&folder, "wait a");
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    ann.release(&release(&hers)).await.unwrap();
    assert_eq!(ann.list(None).await.unwrap(), []);
}

#[tokio::test]
async fn opening_forgets_the_dead() {
    let folder = folder();
    let mut holder = child(&folder, "hold a");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let bob = open(&folder).await;
    assert_eq!(bob.list(None).await.unwrap(), []);
    let files = fs::read_dir(folder.path().join("clients")).unwrap().count();
    assert_eq!(files, 2, "only bob's");
}

#[tokio::test]
async fn killed_in_the_midst_of_changes_leaves_a_whole_state() {
    let folder = folder();
    let bob = open(&folder).await;
    for _ in 0..10 {
        let mut busy = child(&folder, "busy a");
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..20)));
        busy.kill().unwrap();
        busy.wait().unwrap();
        let mine = claim("a", Wait::No);
        granted(&bob, &mine).await;
        bob.release(&release(&mine)).await.unwrap();
        let path = state_file(&folder);
        lmdb_check::whole(&fs::File::open(&path).unwrap(), &path).unwrap();
    }
}

#[tokio::test]
async fn fences_grow_through_a_reboot() {
    let folder = folder();
    let ann = open(&folder).await;
    let before = granted(&ann, &claim("a", Wait::No)).await;
    drop(ann);
    let other_boot = folder.path().join("state-0.mdb");
    fs::rename(state_file(&folder), &other_boot).unwrap();
    let bob = open(&folder).await;
    let after = granted(&bob, &claim("a", Wait::No)).await;
    assert!(before < after);
    assert!(!other_boot.exists());
}

#[tokio::test]
async fn the_ceiling_is_raised_before_it_is_reached() {
    let folder = folder();
    let ann = open(&folder).await;
    let mut large = claim("a", Wait::No);
    large.fences = u32::MAX;
    let fence = granted(&ann, &large).await.get();
    let ceiling = fence::read(&ann.state.folder).unwrap().unwrap();
    assert!(fence + u64::from(u32::MAX) <= ceiling);
}
