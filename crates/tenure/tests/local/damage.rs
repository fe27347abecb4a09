//! Invalid files are refused with an error message, and crash no process.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tenure::{Error, Outcome};

use crate::{folder, run, state_file, url};

#[test]
fn a_state_file_with_other_content_is_damaged() {
    let folder = used();
    let path = state_file(folder.path());
    let whole = fs::read(&path).unwrap();
    let upside_down: Vec<u8> = whole.iter().rev().copied().collect();
    let contents = [
        Vec::new(),
        b"tenure".to_vec(),
        vec![0; whole.len()],
        whole[..whole.len() / 3].to_vec(),
        upside_down,
    ];
    for content in contents {
        fs::write(&path, &content).unwrap();
        let said = damaged(folder.path());
        assert!(said.contains("state-") && said.contains("delete"), "{said}");
    }
    fs::write(&path, &whole).unwrap();
    works(folder.path());
}

#[test]
fn flipped_bits_in_the_state_never_end_the_process() {
    let folder = used();
    let path = state_file(folder.path());
    let whole = fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for _ in 0..500 {
        let mut flipped = whole.clone();
        for _ in 0..random.usize(1..10) {
            let page = random.usize(..whole.len() / 4096) * 4096;
            // Most of what LMDB relies on is at the beginning of a page.
            let reach = [200, 4096][random.usize(..2)];
            flipped[page + random.usize(..reach)] ^= 1 << random.u8(..8);
        }
        fs::write(&path, &flipped).unwrap();
        refused += usize::from(uses(folder.path()).is_err());
    }
    assert!(refused > 100, "only {refused} of 500 were noticed");
    fs::write(&path, &whole).unwrap();
    works(folder.path());
}

#[test]
fn a_state_file_that_is_a_folder_is_refused() {
    let folder = used();
    let path = state_file(folder.path());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = uses(folder.path()).unwrap_err();
    assert!(error.nothing_changed(), "{error:?}");
}

#[test]
fn deleting_a_damaged_state_is_the_remedy_and_keeps_fences_growing() {
    let folder = used();
    let before = works(folder.path());
    let path = state_file(folder.path());
    fs::write(&path, "garbage").unwrap();
    damaged(folder.path());
    fs::remove_file(&path).unwrap();
    let after = works(folder.path());
    assert!(before < after, "{before} was granted before {after}");
}

#[test]
fn a_fence_file_with_other_content_is_damaged() {
    let folder = used();
    let path = folder.path().join("fence");
    let whole = fs::read_to_string(&path).unwrap();
    let mut contents: Vec<Vec<u8>> = (0..whole.len())
        .map(|end| whole.as_bytes()[..end].to_vec())
        .collect();
    contents.extend([
        b"\xff\xfe\0".to_vec(),
        format!("0{whole}").into_bytes(),
        format!("{whole}{whole}").into_bytes(),
        whole.replacen('1', "2", 1).into_bytes(),
        b"99999999999999999999999 0000000000000000\n".to_vec(),
        b"-1 0000000000000000\n".to_vec(),
    ]);
    for content in contents {
        fs::write(&path, &content).unwrap();
        let said = damaged(folder.path());
        assert!(said.contains("fence") && said.contains("backup"), "{said}");
    }
    fs::write(&path, &whole).unwrap();
    works(folder.path());
}

#[test]
fn a_fence_file_that_is_gone_is_damaged_with_and_without_a_state() {
    let folder = used();
    fs::remove_file(folder.path().join("fence")).unwrap();
    damaged(folder.path());
    fs::remove_file(state_file(folder.path())).unwrap();
    damaged(folder.path());
}

#[test]
fn a_format_file_with_other_content_is_damaged() {
    let folder = used();
    let path = folder.path().join("format");
    for content in [
        "",
        "tenure",
        "tenure local",
        "tenure local 0\n",
        "redis 1\n",
        "\0",
    ] {
        fs::write(&path, content).unwrap();
        let said = damaged(folder.path());
        assert!(said.contains("format"), "{said}");
    }
    fs::write(&path, b"\xff\xff").unwrap();
    damaged(folder.path());
}

#[test]
fn a_folder_of_a_newer_version_asks_for_an_update() {
    let folder = used();
    for newer in [3, 4, u32::MAX] {
        let format = format!("tenure local {newer}\n");
        fs::write(folder.path().join("format"), format).unwrap();
        let error = uses(folder.path()).unwrap_err();
        assert!(error.to_string().contains("update tenure"), "{error}");
        let Error::Version { found, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(found, newer);
    }
}

#[test]
fn a_folder_of_an_older_version_says_what_to_do_and_fences_keep_growing() {
    let folder = used();
    let before = works(folder.path());
    fs::write(folder.path().join("format"), "tenure local 1\n").unwrap();
    let Error::Unavailable { source, .. } = uses(folder.path()).unwrap_err() else {
        panic!("nothing has changed, and nothing is damaged");
    };
    let said = source.to_string();
    assert!(
        said.contains("remove everything in it but the file 'fence'"),
        "{said}"
    );
    for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        match file.file_name().to_str() {
            Some("fence") => {}
            _ if file.path().is_dir() => fs::remove_dir_all(file.path()).unwrap(),
            _ => fs::remove_file(file.path()).unwrap(),
        }
    }
    let after = works(folder.path());
    assert!(before < after, "{before} was granted before {after}");
}

#[test]
fn what_a_crash_left_half_made_is_made_anew() {
    let folder = used();
    let before = works(folder.path());
    let state = state_file(folder.path());
    fs::rename(&state, state.with_extension("tmp")).unwrap();
    fs::write(folder.path().join("fence.tmp"), "12").unwrap();
    fs::write(folder.path().join("format.tmp"), "").unwrap();
    fs::write(folder.path().join("clients").join("not-a-session"), "").unwrap();
    fs::write(folder.path().join("clients").join("abc.sock"), "").unwrap();
    let after = works(folder.path());
    assert!(before < after, "{before} was granted before {after}");
}

#[test]
fn a_file_in_place_of_the_folder_is_refused() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    for path in [path.clone(), path.join("below")] {
        let error = uses(&path).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }
}

/// Returns a directory with a state of many pages, which nobody has open.
fn used() -> TempDir {
    let folder = folder();
    run(async {
        let locks = tenure::open(&url(folder.path())).await.unwrap();
        for count in 0..100 {
            let reason = "x".repeat(count * 10);
            let lock = locks.mutex(&format!("name-{count}")).reason(&reason);
            lock.lease().await.unwrap();
        }
    });
    folder
}

/// Opens the directory and uses it; a failure must be an error.
fn uses(folder: &Path) -> Result<(), Error> {
    run(async {
        let locks = tenure::open(&url(folder)).await?;
        let listed = locks.list(None).await;
        for count in 90..110 {
            if let Some(guard) = locks.mutex(&format!("name-{count}")).try_lock().await? {
                guard.release().await?;
            }
        }
        listed.map(drop)
    })
}

/// Fails unless the directory works as if it were new; returns a fence.
fn works(folder: &Path) -> u64 {
    run(async {
        let locks = tenure::open(&url(folder)).await.unwrap();
        let guard = locks.mutex("works").lock().await.unwrap();
        let fence = guard.fence().get();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        fence
    })
}

/// Fails unless the directory is refused as damaged; returns the message.
fn damaged(folder: &Path) -> String {
    let error = run(tenure::open(&url(folder))).unwrap_err();
    let Error::Damaged { source, .. } = error else {
        panic!("{error:?}");
    };
    source.to_string()
}
