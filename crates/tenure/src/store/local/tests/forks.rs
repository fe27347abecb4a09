//! Child processes.

use super::*;

#[tokio::test]
async fn a_program_that_is_started_inherits_nothing_of_the_folder() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    hand_over(&ann, &bob, 1).await;
    let program = Command::new("sh")
        .args(["-c", "ls -l /proc/$$/fd"])
        .output()
        .unwrap();
    let files = String::from_utf8(program.stdout).unwrap();
    assert!(files.contains("->"), "{files}");
    let path = folder.path().canonicalize().unwrap();
    for ours in [path.to_str().unwrap(), "memfd", "tenure"] {
        assert!(!files.contains(ours), "{files}");
    }
}
