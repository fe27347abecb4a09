//! MariaDB and PostgreSQL servers: started with all options, broken, and removed.

mod both;
mod mariadb;
mod postgres;
mod session;

use std::path::Path;

/// Returns whether there is such a process that has not ended.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Returns the processes that a process has started and not yet reaped.
fn children(pid: u32) -> Vec<u32> {
    let entries = Path::new("/proc").read_dir().unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |child: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        rest.split(' ').nth(1) == Some(&pid.to_string())
    };
    pids.filter(is_child).collect()
}
