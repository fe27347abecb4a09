//! Directories of one user, of a group and of everybody.

use super::*;

/// This program, readable even for a user who may not access its directory.
const OURSELVES: &str = "/proc/self/exe";

#[tokio::test]
async fn an_unwritable_folder_is_unavailable() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
    let mut nobody = command_of(Path::new(OURSELVES), &folder, "hold a");
    if rustix::process::geteuid().is_root() {
        nobody.uid(65534).gid(65534);
    }
    let mut nobody = nobody.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = nobody.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(!nobody.wait().unwrap().success());
    assert!(said.contains("not writable for this user"), "{said}");
    assert!(said.contains("Unavailable"), "{said}");
}

#[tokio::test]
async fn files_take_the_rights_of_a_folder_that_a_group_shares() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o2770)).unwrap();
    let ann = open(&folder).await;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for file in ["lock", "fence", "format"] {
        assert_eq!(mode(folder.path().join(file)), 0o660, "{file}");
    }
    assert_eq!(mode(state_file(&folder)), 0o660);
    assert_eq!(mode(folder.path().join("clients")), 0o2770);
    let presence = presence_file(&folder, &ann);
    assert_eq!(mode(presence.with_extension("sock")), 0o660);
    assert_eq!(mode(presence), 0o660);
}

#[tokio::test]
async fn a_folder_that_all_may_write_to_serves_every_user() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut nobody = command_of(Path::new(OURSELVES), &folder, "hold a");
    if rustix::process::geteuid().is_root() {
        nobody.uid(65534).gid(65534);
    }
    let mut holder = ready(nobody.spawn().unwrap());
    let ann = open(&folder).await;
    let busy = ann.acquire(&claim("a", Wait::No)).await.unwrap();
    assert_eq!(busy, Answer::Busy);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[tokio::test]
async fn root_leaves_the_folder_to_its_user() {
    let folder = folder();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).unwrap();
    }
    let ann = open(&folder).await;
    let owner = |path: PathBuf| {
        let found = fs::metadata(path).unwrap();
        (found.uid(), found.gid())
    };
    let user = owner(folder.path().to_owned());
    for file in ["lock", "fence", "format", "clients"] {
        assert_eq!(owner(folder.path().join(file)), user, "{file}");
    }
    assert_eq!(owner(state_file(&folder)), user);
    let presence = presence_file(&folder, &ann);
    assert_eq!(owner(presence.with_extension("sock")), user);
}

#[tokio::test]
async fn a_folder_with_a_long_path_works() {
    let folder = folder();
    let deep = folder.path().join("x".repeat(200)).join("y".repeat(200));
    let [ann, bob] = [
        Local::open(Some(&deep)).await,
        Local::open(Some(&deep)).await,
    ];
    hand_over(&ann.unwrap(), &bob.unwrap(), 1).await;
}
