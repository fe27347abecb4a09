//! Checks a directory for what endangers locks.

use std::path::Path;

use crate::doctor::{Check, Finding};
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::store::local::{Local, fault, fence, folder, presence};

/// Checks the locks of a directory, and creates it if needed; without one, the user's own.
///
/// # Errors
///
/// Those of [`Local::open`], except for a network file system, which is a finding.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: the next call removes what a dropped one has created in the directory.
pub async fn doctor(folder: Option<&Path>) -> Result<Vec<Finding>> {
    let path = folder::choose(folder)?;
    let store = match Local::open(Some(&path)).await {
        Ok(store) => store,
        Err(Error::InvalidUrl { reason }) => {
            let advice = "choose a directory on a disk of this machine with local:/some/directory";
            return Ok(vec![Check("directory").problem(reason, advice)]);
        }
        Err(error) => return Err(error),
    };
    let folder = &store.state.folder;
    let path = folder.path().to_owned();
    let shown = path.display();
    let mut findings = vec![Check("directory").fine(format!(
        "{shown} can be written to, and is on a file system of this machine"
    ))];
    findings.push(space(&path)?);
    findings.push(match fence::read(folder)? {
        Some(ceiling) => Check("fences").fine(format!(
            "fences grow through reboots, up to {ceiling} so far"
        )),
        None => Check("fences").problem(
            format!("{shown} has no ceiling of fences: after a reboot they may start over"),
            "stop the programs that use the directory, and put the file back from a backup",
        ),
    });
    let sessions = presence::sessions(folder).map_err(|error| fault::io(&path, &error))?;
    let dead = store.state.dead_among(sessions.iter().copied()).len();
    // One of them is the doctor itself.
    let clients = (sessions.len() - dead).saturating_sub(1);
    let names = store.list(None).await?.len();
    let found = format!("other clients: {clients}, names held or waited for: {names}");
    findings.push(Check("use").fine(found));
    Ok(findings)
}

/// Checks the free space.
fn space(path: &Path) -> Result<Finding> {
    let found = rustix::fs::statvfs(path).map_err(|error| fault::io(path, &error.into()))?;
    Ok(room(found.f_bavail.saturating_mul(found.f_frsize)))
}

fn room(free: u64) -> Finding {
    let found = format!("{} MiB are free", free >> 20);
    if free < LEAST {
        let advice = "free some space: a lock that cannot be written is not granted";
        return Check("space").problem(found, advice);
    }
    if free < LITTLE {
        let advice = "free some space before it runs out: then no lock can be taken or renewed";
        return Check("space").warning(found, advice);
    }
    Check("space").fine(found)
}

/// Less than the state of a few thousand names needs.
const LEAST: u64 = 1 << 20;
const LITTLE: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_full_disk_is_a_problem() {
        assert_eq!(room(0).verdict, Verdict::Problem);
        assert_eq!(room(10 << 20).verdict, Verdict::Warning);
        assert_eq!(room(1 << 30).verdict, Verdict::Fine);
    }

    #[tokio::test]
    async fn a_folder_in_use_is_fine() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("local:{}", folder.path().display());
        let locks = crate::open(&url).await.unwrap();
        let _held = locks.mutex("a").lock().await.unwrap();
        let found = crate::doctor(&url).await.unwrap();
        assert!(
            found.iter().all(|finding| finding.verdict == Verdict::Fine),
            "{found:?}"
        );
        let used = found.iter().find(|finding| finding.check == "use").unwrap();
        assert_eq!(used.found, "other clients: 1, names held or waited for: 1");
    }
}
