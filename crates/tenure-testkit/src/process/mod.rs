//! Other processes: server programs that end with us, and our own program started again for another
//! part.

mod child;
mod parent;
mod program;

pub use child::Child;
pub use parent::Parent;
pub use program::Process;
pub(crate) use program::{beside_bin, find};

/// Returns the children of a process.
fn children(pid: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = pid.to_string();
    ids.filter(|id| {
        let stat = stat(&format!("/proc/{id}/stat"));
        stat.is_some_and(|stat| stat.split(' ').nth(1) == Some(&parent))
    })
    .collect()
}

/// Returns the kernel's letters for the states of a process's threads.
fn thread_states(pid: u32) -> Vec<char> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let paths = threads
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    paths
        .filter_map(|path| stat(path.join("stat").to_str()?)?.chars().next())
        .collect()
}

/// Returns the kernel's letter for the state of a process, such as `T` for stopped; `None` if there
/// is no such process.
fn state(pid: u32) -> Option<char> {
    stat(&format!("/proc/{pid}/stat"))?.chars().next()
}

/// Returns the content of a `stat` file of a process or thread: the letter of its state, its
/// parent, and more.
fn stat(path: &str) -> Option<String> {
    let stat = std::fs::read_to_string(path).ok()?;
    // The program's name comes first, in parentheses, and may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.to_owned())
}
