//! An open directory that others may write to: its contents are never trusted by name.
//!
//! Everybody who shares the directory can replace one of our files by a link, a pipe or another file
//! at any moment, and that must not lead root out of the directory. So everything is opened relative
//! to the open directory, without following links and without blocking, and its type is checked after
//! it was opened. Permissions are set on open files only, never by name.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::random::random_u128;

/// An open directory, and who may use its files.
#[derive(Debug)]
pub(super) struct SafeDir {
    handle: File,
    access: Access,
}

impl SafeDir {
    /// Opens the directory that a path leads to.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let access = Access::of(&handle)?;
        Ok(Self { handle, access })
    }

    /// Opens a directory in this one, and creates it with the same permissions if needed.
    pub(super) fn open_or_make_dir(&self, name: &str) -> io::Result<Self> {
        let handle = match self.open_dir(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dir(name)?;
                self.open_dir(name)?
            }
            found => found?,
        };
        let access = self.access;
        Ok(Self { handle, access })
    }

    /// Returns a path to this directory that stays valid if it is moved.
    pub(super) fn path(&self) -> PathBuf {
        descriptor(&self.handle)
    }

    /// Returns the names of all entries.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = fs::read_dir(self.path())?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// Opens a file to read it.
    pub(super) fn open_to_read(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::RDONLY)
    }

    /// Opens a file to read and write it; refuses a file with a second hard link.
    pub(super) fn open_to_write(&self, name: &str) -> io::Result<File> {
        let file = self.open_file(name, OFlags::RDWR)?;
        if file.metadata()?.nlink() > 1 {
            return Err(io::Error::other(
                "it has a second name (a hard link), remove that",
            ));
        }
        Ok(file)
    }

    /// Opens a file to read and write it, and creates it with the directory's permissions if needed.
    pub(super) fn open_or_make(&self, name: &str) -> io::Result<File> {
        match self.open_to_write(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        match self.make(name) {
            // Another process created it in between.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.open_to_write(name),
            made => made,
        }
    }

    /// Creates a file that has its permissions before it has a name.
    ///
    /// Otherwise another user would be refused in between, permanently if this process were killed
    /// then.
    pub(super) fn make(&self, name: &str) -> io::Result<File> {
        self.make_with(name, |_| Ok(()))
    }

    /// Does the same; `fill` gets the file before others can see it.
    pub(super) fn make_with(
        &self,
        name: &str,
        fill: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<File> {
        let at = &self.handle;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, in_sight) = match rustix::fs::openat(at, ".", flags, PRIVATE_FILE) {
            Ok(file) => (File::from(file), false),
            // Some file systems do not support files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                let file = rustix::fs::openat(at, name, flags, PRIVATE_FILE)?;
                (File::from(file), true)
            }
            Err(error) => return Err(error.into()),
        };
        self.access.give_to(&file, self.access.file_mode())?;
        fill(&file)?;
        if !in_sight {
            let (unnamed, follow) = (descriptor(&file), AtFlags::SYMLINK_FOLLOW);
            rustix::fs::linkat(CWD, &unnamed, at, name, follow)?;
        }
        Ok(file)
    }

    /// Creates a file, and names it only after `fill` has written it.
    ///
    /// A crash leaves the old file or the complete new one.
    pub(super) fn replace<E: From<io::Error>>(
        &self,
        name: &str,
        fill: impl FnOnce(&File) -> Result<(), E>,
    ) -> Result<File, E> {
        let draft = draft();
        let file = self.make(&draft)?;
        let at = &self.handle;
        let rename = |()| Ok(rustix::fs::renameat(at, &draft, at, name).map_err(io::Error::from)?);
        match fill(&file).and_then(rename) {
            Ok(()) => Ok(file),
            Err(error) => {
                let _ = self.remove(draft.as_ref());
                Err(error)
            }
        }
    }

    pub(super) fn remove(&self, name: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Syncs the directory, so that renames survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// Creates a socket that has the permissions of the directory before it has its name.
    ///
    /// The permissions of a socket can only be set by name, so it is created in a private directory
    /// called `draft`, where nobody else can replace it. [`remove_draft`](Self::remove_draft) removes
    /// what a killed process leaves of that.
    pub(super) fn bind(&self, name: &str, draft: &str) -> io::Result<UnixDatagram> {
        let private = self.make_private_dir(draft)?;
        let bound = UnixDatagram::bind(descriptor(&private).join(SOCKET)).and_then(|socket| {
            let file = open_at(&private, SOCKET, OFlags::PATH)?;
            self.access.give_to(&file, self.access.file_mode())?;
            rustix::fs::renameat(&private, SOCKET, &self.handle, name)?;
            Ok(socket)
        });
        self.remove_draft(draft);
        bound
    }

    /// Removes the private directory of a socket.
    pub(super) fn remove_draft(&self, draft: &str) {
        if let Ok(private) = self.open_dir(draft) {
            // If another user may not remove it, nobody uses it either.
            let _ = rustix::fs::unlinkat(&private, SOCKET, AtFlags::empty());
            let _ = rustix::fs::unlinkat(&self.handle, draft, AtFlags::REMOVEDIR);
        }
    }

    /// Connects to a socket in the directory.
    pub(super) fn connect(&self, socket: &UnixDatagram, name: &str) -> io::Result<()> {
        let file = open_at(&self.handle, name, OFlags::PATH)?;
        let found = file.metadata()?;
        if !found.file_type().is_socket() || found.nlink() > 1 {
            return Err(io::Error::other("it is not a socket of a client"));
        }
        socket.connect(descriptor(&file))
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // Opening a pipe, or a file with a lease on it, would block.
        let file = open_at(&self.handle, name, flags | OFlags::NONBLOCK)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a file")),
        }
    }

    fn open_dir(&self, name: &str) -> io::Result<File> {
        open_at(&self.handle, name, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Creates a directory that, like a file, has its permissions before it has its name.
    fn make_dir(&self, name: &str) -> io::Result<()> {
        let draft = draft();
        let made = self.make_private_dir(&draft)?;
        self.access.give_to(&made, self.access.mode)?;
        let (at, keep) = (&self.handle, RenameFlags::NOREPLACE);
        let named = rustix::fs::renameat_with(at, &draft, at, name, keep);
        if named.is_ok() {
            return Ok(());
        }
        rustix::fs::unlinkat(at, &draft, AtFlags::REMOVEDIR)?;
        match named {
            // Some file systems do not support NOREPLACE.
            Err(Errno::INVAL | Errno::NOSYS) => match self.make_private_dir(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => self.access.give_to(&made?, self.access.mode),
            },
            // Another process created it in between.
            Err(Errno::EXIST) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Creates a directory that only this user can write to, and checks that it was not replaced.
    fn make_private_dir(&self, name: &str) -> io::Result<File> {
        rustix::fs::mkdirat(&self.handle, name, Mode::RWXU)?;
        let made = self.open_dir(name)?;
        let found = made.metadata()?;
        let own = found.uid() == rustix::process::geteuid().as_raw();
        match own && found.mode() & 0o077 == 0 {
            true => Ok(made),
            false => Err(io::Error::other("a new directory in it was replaced")),
        }
    }
}

/// The location of a directory, to check whether its path still leads to it.
#[derive(Debug)]
pub(super) struct Location {
    parent: File,
    name: PathBuf,
}

impl Location {
    /// Records the location of a directory by its path, which contains no links.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let (parent, name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => (parent, Path::new(name)),
            _ => (path, Path::new(".")),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            parent: rustix::fs::open(parent, flags, Mode::empty())?.into(),
            name: name.to_owned(),
        })
    }

    /// Returns whether the file of that name is this one; without the permission to look, assumes that
    /// it is.
    pub(super) fn has(&self, name: &str, file: &File) -> io::Result<bool> {
        let ours = rustix::fs::fstat(file)?;
        match rustix::fs::statat(&self.parent, self.name.join(name), AtFlags::empty()) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(_) => Ok(true),
        }
    }
}

/// Who may use the directory, and therefore its files.
#[derive(Debug, Clone, Copy)]
struct Access {
    /// The directory's mode.
    mode: u32,
    owner: u32,
    group: u32,
}

impl Access {
    fn of(folder: &File) -> io::Result<Self> {
        let found = folder.metadata()?;
        Ok(Self {
            mode: found.mode() & 0o7777,
            owner: found.uid(),
            group: found.gid(),
        })
    }

    /// Returns the mode of files.
    ///
    /// Users who may write to the directory may read and write its files. Others get no access, because
    /// even a reader of the lock file could lock everybody out.
    fn file_mode(self) -> u32 {
        let writers = self.mode & 0o222;
        writers | (writers << 1)
    }

    /// Sets owner, group and mode explicitly.
    ///
    /// The umask must not decide who shares a lock, and root must not lock users out of their own
    /// directories.
    fn give_to(self, file: &File, mode: u32) -> io::Result<()> {
        let found = file.metadata()?;
        let root = rustix::process::geteuid().is_root();
        let owner = (root && found.uid() != self.owner).then_some(self.owner);
        let shared = root || mode & 0o070 != 0;
        let group = (shared && found.gid() != self.group).then_some(self.group);
        // This uses the path of the descriptor, because an `O_PATH` handle cannot be changed itself.
        let path = descriptor(file);
        if owner.is_some() || group.is_some() {
            // The kernel refuses this to a user outside the group, who has access by the permissions
            // for others.
            let _ = std::os::unix::fs::chown(&path, owner, group);
        }
        fs::set_permissions(path, Permissions::from_mode(mode))
    }
}

/// Returns a unique name.
fn draft() -> String {
    format!("{:032x}{DRAFT}", random_u128())
}

/// Opens an entry of an open directory; a link is an error.
fn open_at(folder: &File, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        // With O_DIRECTORY, a link gives NOTDIR.
        Err(Errno::LOOP | Errno::NOTDIR) if is_link(folder, name) => {
            Err(io::Error::other("it is a link, which is not followed here"))
        }
        Err(error) => Err(error.into()),
    }
}

fn is_link(folder: &File, name: &str) -> bool {
    rustix::fs::readlinkat(folder, name, Vec::new()).is_ok()
}

/// Returns a path to an open file, whatever its name is now.
pub(super) fn descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The suffix of incomplete files.
pub(super) const DRAFT: &str = ".tmp";

/// The name of a socket that is being created.
const SOCKET: &str = "socket";

const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_open_to_those_who_may_write_in_the_folder() {
        let mode = |mode| {
            let (owner, group) = (0, 0);
            Access { mode, owner, group }.file_mode()
        };
        assert_eq!(mode(0o700), 0o600);
        assert_eq!(mode(0o755), 0o600);
        assert_eq!(mode(0o2770), 0o660);
        assert_eq!(mode(0o1777), 0o666);
    }

    #[test]
    fn what_a_killed_process_left_of_a_socket_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = SafeDir::open(folder.path()).unwrap();
        let private = dir.make_private_dir("draft").unwrap();
        let _socket = UnixDatagram::bind(descriptor(&private).join(SOCKET)).unwrap();
        dir.remove_draft("draft");
        assert_eq!(dir.names().unwrap(), Vec::<OsString>::new());
    }
}
