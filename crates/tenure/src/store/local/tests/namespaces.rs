//! Processes in other namespaces.

use super::*;

/// A lease lasts equally long on both sides of a time namespace, whichever clock is ahead.
#[tokio::test]
async fn a_time_namespace_does_not_move_the_end_of_a_lease() {
    if !can_enter_a_time_namespace() {
        eprintln!("skipped: no right to make a time namespace (root has it), or no `unshare`");
        return;
    }
    for offset in [3_600, -90] {
        let folder = folder();
        let ann = open(&folder).await;
        granted(&ann, &claim("hers", Wait::No)).await;
        let (mut waiter, said) = child_at(&folder, "wait hers", offset);
        assert!(said.contains("Queued"), "{offset}: {said}");
        let (mut holder, said) = child_at(&folder, "hold his", offset);
        assert!(said.contains("Granted"), "{offset}: {said}");
        let busy = ann.acquire(&claim("his", Wait::No)).await.unwrap();
        assert_eq!(busy, Answer::Busy, "{offset}");
        let listed = ann.list(Some(&"his".parse().unwrap())).await.unwrap();
        let left = listed[0].holders[0].expires_in;
        assert!(left <= TTL, "{offset}: {left:?} are left of {TTL:?}");
        for child in [&mut waiter, &mut holder] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

fn can_enter_a_time_namespace() -> bool {
    let entered = Command::new("unshare").args(["--time", "true"]).output();
    entered.is_ok_and(|output| output.status.success())
}

/// Starts another process whose boot time is this many seconds ahead; returns its output.
fn child_at(folder: &TempDir, order: &str, seconds: i32) -> (Child, String) {
    let plain = command(folder, order);
    let mut command = Command::new("unshare");
    command
        .args(["--time", "--boottime", &seconds.to_string()])
        .args(["--fork", "--kill-child"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .envs(
            plain
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map(Result::unwrap);
    let said = lines.find(|line| line.contains("ready"));
    (child, said.expect("the other process answers"))
}
