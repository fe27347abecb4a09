//! The store of one machine: the rules of the contract, and what happens to its files.
//!
//! Tests that need a second process are in `tests/processes`.
#![cfg(target_os = "linux")]

mod damage;

use std::fs;
use std::future::{Ready, ready};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;
use tenure::conformance::Fixture;
use tenure::driver::Driver;
use tenure::store::local::Local;
use tokio::runtime::Builder;

mod rules {
    tenure::conformance!(super::open());
}

#[test]
fn fences_grow_through_every_reboot() {
    let folder = folder();
    let mut before = 0;
    for _ in 0..5 {
        run(async {
            let locks = tenure::open(&url(folder.path())).await.unwrap();
            for _ in 0..3 {
                let guard = locks.mutex("a").lock().await.unwrap();
                let fence = guard.fence().get();
                assert!(before < fence, "{before} was granted before {fence}");
                before = fence;
                guard.release().await.unwrap();
            }
        });
        reboot(folder.path());
    }
}

#[test]
fn a_reboot_ends_every_lease_also_those_by_hand() {
    let folder = folder();
    run(async {
        let locks = tenure::open(&url(folder.path())).await.unwrap();
        locks.mutex("a").lease().await.unwrap();
    });
    reboot(folder.path());
    run(async {
        let locks = tenure::open(&url(folder.path())).await.unwrap();
        assert_eq!(locks.list(None).await.unwrap(), []);
        assert!(locks.mutex("a").try_lock().await.unwrap().is_some());
    });
}

/// A separate directory, which is removed with the test.
struct Folder(TempDir);

#[async_trait]
impl Fixture for Folder {
    async fn client(&self) -> Arc<dyn Driver> {
        let client = Local::open(Some(self.0.path())).await;
        Arc::new(client.expect("the folder opens"))
    }
}

fn open() -> Ready<Folder> {
    ready(Folder(folder()))
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for a test")
}

fn url(folder: &Path) -> String {
    format!("local:{}", folder.display())
}

/// Runs a future on a separate runtime: after it nothing is open any more, as at the end of a
/// process.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(future)
}

/// Returns the state file of the current boot.
fn state_file(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let mut states = files.filter(|file| file.file_name().to_string_lossy().starts_with("state-"));
    states.next().expect("a folder in use has a state").path()
}

/// Makes the state look like that of an earlier boot.
fn reboot(folder: &Path) {
    fs::rename(state_file(folder), folder.join("state-0.mdb")).unwrap();
}
