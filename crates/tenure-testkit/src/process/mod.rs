//! Other processes: server programs that end with us, and our own program started again in another part.

mod child;
mod parent;
mod program;

pub use child::Child;
pub use parent::Parent;
pub use program::Process;
pub(crate) use program::find;

/// The kernel's letter for what a process does, such as `T` for stopped; `None` if there is no such process.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands before it in parentheses, and may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}
