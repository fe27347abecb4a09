//! A directory that is deleted, moved or replaced while a client holds locks in it.

use super::*;

#[tokio::test]
async fn a_client_whose_folder_was_deleted_holds_nothing() {
    let folder = folder();
    let ann = open(&folder).await;
    let hers = claim("a", Wait::No);
    granted(&ann, &hers).await;
    fs::remove_dir_all(folder.path()).unwrap();
    is_lost(&ann, ann.release(&release(&hers)).await.map(drop)).await;
}

#[tokio::test]
async fn a_client_whose_folder_was_deleted_and_made_again_holds_nothing() {
    let folder = folder();
    let ann = open(&folder).await;
    let hers = claim("a", Wait::No);
    granted(&ann, &hers).await;
    fs::remove_dir_all(folder.path()).unwrap();
    let mut other = child(&folder, "hold a");
    is_lost(&ann, ann.release(&release(&hers)).await.map(drop)).await;
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn a_client_whose_files_were_replaced_one_by_one_holds_nothing() {
    for kept in ["lock", "state-"] {
        let folder = folder();
        let ann = open(&folder).await;
        let hers = claim("a", Wait::No);
        granted(&ann, &hers).await;
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let name = file.file_name().into_string().unwrap();
            if name == "clients" {
                fs::remove_dir_all(file.path()).unwrap();
            } else if !name.starts_with(kept) && !["fence", "format"].contains(&name.as_str()) {
                fs::remove_file(file.path()).unwrap();
            }
        }
        let mut other = child(&folder, "hold b");
        is_lost(&ann, ann.release(&release(&hers)).await.map(drop)).await;
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

#[tokio::test]
async fn a_client_whose_folder_was_moved_is_told_when_it_renews() {
    let whole = folder();
    let (path, elsewhere) = (whole.path().join("locks"), whole.path().join("elsewhere"));
    let ann = Local::open(Some(&path)).await.unwrap();
    let hers = claim("a", Wait::No);
    let renewal = Renewal::new(hers.name.clone(), hers.id.clone(), Life::Client, TTL)
        .with_fence(granted(&ann, &hers).await);
    let renewed = ann.renew(std::slice::from_ref(&renewal)).await.unwrap();
    assert!(
        matches!(renewed[..], [Renewed::Extended { .. }]),
        "{renewed:?}"
    );
    fs::rename(&path, &elsewhere).unwrap();
    // Leases are not lost as long as the path leads to the directory.
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let renewed = ann.renew(std::slice::from_ref(&renewal)).await.unwrap();
    assert!(
        matches!(renewed[..], [Renewed::Extended { .. }]),
        "{renewed:?}"
    );
    fs::remove_file(&path).unwrap();
    is_lost(&ann, ann.renew(&[renewal]).await.map(drop)).await;
}

#[tokio::test]
async fn a_guard_whose_folder_was_deleted_is_lost_at_the_next_renewal() {
    let folder = folder();
    let url = format!("local:{}", folder.path().display());
    let locks = crate::open(&url).await.unwrap();
    let lock = locks.mutex("a").ttl(Duration::from_secs(20));
    let guard = lock.lock().await.unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let lost = timeout(Duration::from_secs(15), guard.lost()).await;
    assert_eq!(lost, Ok(Loss::Gone));
    let outcome = guard.release().await.unwrap();
    assert_eq!(outcome, crate::Outcome::NotHeld(Loss::Gone));
    let error = locks.mutex("b").lock().await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
}

#[tokio::test]
async fn a_state_that_is_cut_short_ends_no_process() {
    let folder = folder();
    let ann = open(&folder).await;
    granted(&ann, &claim("a", Wait::No)).await;
    let state = fs::File::options().write(true).open(state_file(&folder));
    state.unwrap().set_len(0).unwrap();
    let error = ann.acquire(&claim("b", Wait::No)).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
}

/// Fails unless the answer reports that the directory is gone, and the client is told of its loss
/// exactly once.
async fn is_lost(local: &Local, answer: Result<()>) {
    let Err(Error::Damaged { source, .. }) = answer else {
        panic!("{answer:?}");
    };
    let said = source.to_string();
    assert!(said.contains("was deleted or replaced"), "{said}");
    assert_eq!(next(local).await, News::SessionLost(Loss::Gone));
    let error = local.acquire(&claim("b", Wait::No)).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    let more = timeout(Duration::from_millis(50), local.news()).await;
    assert!(more.is_err(), "{more:?}");
}
