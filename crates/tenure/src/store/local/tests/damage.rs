//! Files that are damaged, missing or removed.

use super::*;

#[tokio::test]
async fn a_state_file_that_is_no_state_is_damaged() {
    let folder = used_folder().await;
    let path = state_file(&folder);
    let page = u32::try_from(rustix::param::page_size()).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut other_page_size = whole.clone();
    other_page_size[40..44].copy_from_slice(&(2 * page).to_ne_bytes());
    let wrong = [
        b"".to_vec(),
        b"garbage".to_vec(),
        vec![0xff; 65536],
        other_page_size,
    ];
    for content in wrong {
        fs::write(&path, &content).unwrap();
        let error = Local::open(Some(folder.path())).await.unwrap_err();
        let Error::Damaged { source, .. } = error else {
            panic!("{error:?}");
        };
        assert!(source.to_string().contains("delete it"), "{source}");
    }
    fs::write(&path, &whole).unwrap();
    open(&folder).await;
}

#[tokio::test]
async fn a_state_file_that_is_cut_short_is_damaged_or_whole() {
    let folder = used_folder().await;
    let path = state_file(&folder);
    let whole = fs::read(&path).unwrap();
    let mut damaged = 0;
    for length in (0..whole.len()).step_by(1000) {
        fs::write(&path, &whole[..length]).unwrap();
        damaged += usize::from(survives(&folder).await);
    }
    assert!(damaged > 0);
}

#[tokio::test]
async fn an_overwritten_page_ends_no_process() {
    let folder = used_folder().await;
    let path = state_file(&folder);
    let whole = fs::read(&path).unwrap();
    let page_size = rustix::param::page_size();
    let mut damaged = 0;
    for page in 0..whole.len() / page_size {
        for filling in [0x00, 0x03, 0xff] {
            fs::write(&path, &whole).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let garbage = vec![filling; page_size];
            file.write_all_at(&garbage, (page * page_size) as u64)
                .unwrap();
            damaged += usize::from(survives(&folder).await);
        }
    }
    assert!(damaged > 0);
}

#[tokio::test]
async fn a_state_in_use_is_never_taken_for_a_damaged_one() {
    let folder = folder();
    let ann = open(&folder).await;
    let path = state_file(&folder);
    let mut random = fastrand::Rng::with_seed(3);
    let mut held = Vec::new();
    for round in 0..4_000 {
        // The state grows at first, and shrinks to nothing in the end.
        if random.usize(..4_000) > round {
            let mut long = claim(&format!("{}-{round}", random.u64(..)), Wait::No);
            let length = [10, 500, 3_000, 20_000][random.usize(..4)];
            long.about.reason = Some("x".repeat(random.usize(..length)).into());
            granted(&ann, &long).await;
            held.push(long);
        } else if !held.is_empty() {
            let gone = held.swap_remove(random.usize(..held.len()));
            ann.release(&release(&gone)).await.unwrap();
        }
        if round % 20 == 0 {
            let section = ann.state.enter().await.unwrap();
            lmdb_check::whole(&fs::File::open(&path).unwrap(), &path).unwrap();
            drop(section);
        }
    }
}

#[tokio::test]
async fn a_record_that_makes_no_sense_is_damaged() {
    let folder = folder();
    let ann = open(&folder).await;
    let section = ann.state.enter().await.unwrap();
    let mut change = ann.state.db.env.write_txn().unwrap();
    ann.state
        .db
        .table
        .put(&mut change, b"a", &[0xff; 9])
        .unwrap();
    change.commit().unwrap();
    drop(section);
    let error = ann.acquire(&claim("a", Wait::No)).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    // This many changes include sweeps, which find the damage.
    for number in 0..1000 {
        granted(&ann, &claim(&format!("b{number}"), Wait::No)).await;
    }
}

#[tokio::test]
async fn a_missing_or_damaged_fence_file_is_damage() {
    let folder = used_folder().await;
    let path = folder.path().join("fence");
    for content in ["", "1048576", "1048577 0000000000000000\n"] {
        fs::write(&path, content).unwrap();
        let error = Local::open(Some(folder.path())).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    }
    fs::remove_file(&path).unwrap();
    let error = Local::open(Some(folder.path())).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
}

#[tokio::test]
async fn a_state_or_lock_that_vanishes_under_a_client_is_noticed() {
    for file in ["state", "lock"] {
        let folder = folder();
        let ann = open(&folder).await;
        granted(&ann, &claim("a", Wait::No)).await;
        let path = match file {
            "state" => state_file(&folder),
            other => folder.path().join(other),
        };
        // The file is kept elsewhere, so that its inode number is not reused.
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        let mut other = spawn(&folder, "hold b");
        assert!(!other.wait().unwrap().success(), "{file}");
        if file == "state" {
            let error = Local::open(Some(folder.path())).await.unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        }
    }
}

/// Opens a directory that may be damaged; returns whether the damage was detected.
///
/// If it was not, everything else must work or be refused, without ending the process.
async fn survives(folder: &TempDir) -> bool {
    match Local::open(Some(folder.path())).await {
        Err(Error::Damaged { .. }) => true,
        Err(error) => panic!("{error:?}"),
        Ok(local) => {
            let _ = local.list(None).await;
            for count in 0..20 {
                let _ = local.acquire(&claim(&format!("n{count}"), Wait::No)).await;
            }
            false
        }
    }
}

/// Returns a directory whose state has many pages, and that nobody has open.
async fn used_folder() -> TempDir {
    let folder = folder();
    let ann = open(&folder).await;
    for count in 0..200 {
        let mut long = claim(&format!("name-{count}"), Wait::No);
        long.life = Life::Ttl;
        // Some are so long that they get their own pages.
        let length = if count % 50 == 0 { 9_000 } else { 40 };
        long.about.reason = Some("x".repeat(length).into());
        granted(&ann, &long).await;
    }
    drop(ann);
    folder
}
