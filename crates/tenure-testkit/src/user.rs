//! Another user to run a program as, for programs that refuse to run as root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use crate::error::{Error, Result};

/// An unprivileged user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// Returns a user if this process runs as root: the user of a server's package, or else
    /// `nobody`. Returns `None` if it does not run as root.
    pub(crate) fn instead_of_root(preferred: &str) -> Result<Option<Self>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(Error::io("read /etc/passwd"))?;
        let find = |name| users.lines().find_map(|line| Self::parse(line, name));
        let user = find(preferred).or_else(|| find("nobody"));
        user.map(Some).ok_or_else(|| Error::Program {
            program: "/etc/passwd".into(),
            log: format!("there is neither a user {preferred} nor nobody"),
        })
    }

    fn parse(line: &str, wanted: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let mut ids = fields.skip(1).map_while(|field| field.parse().ok());
        let (uid, gid) = (ids.next()?, ids.next()?);
        (name == wanted).then_some(Self { uid, gid })
    }

    /// Returns the arguments of `setpriv` before the program, which then also does not look for its
    /// files in our home directory.
    pub(crate) fn setpriv_args(self) -> [String; 5] {
        let Self { uid, gid } = self;
        let (uid, gid) = (format!("--reuid={uid}"), format!("--regid={gid}"));
        let others = ["--clear-groups", "--reset-env", "--"].map(str::to_owned);
        let [groups, environment, end] = others;
        [uid, gid, groups, environment, end]
    }

    /// Returns a command that this user runs, or that our own user runs if there is none.
    pub(crate) fn command(user: Option<Self>, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(Self { uid, gid }) = user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Writes a file that belongs to this user, or to our own user if there is none.
    pub(crate) fn write(user: Option<Self>, path: &Path, text: &str) -> Result<()> {
        fs::write(path, text).map_err(Error::io(format!("write {}", path.display())))?;
        Self::give(user, path)
    }

    /// Gives a file to this user; it stays ours if there is none.
    pub(crate) fn give(user: Option<Self>, path: &Path) -> Result<()> {
        let Some(Self { uid, gid }) = user else {
            return Ok(());
        };
        let given = std::os::unix::fs::chown(path, Some(uid), Some(gid));
        given.map_err(Error::io(format!("change the owner of {}", path.display())))
    }
}
