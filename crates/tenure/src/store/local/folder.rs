//! The folder of a store: where it is, who may use it, and which files stand in it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

use crate::error::{Error, Lasting, Result};
use crate::random::random_u128;
use crate::store::ledger::Session;
use crate::store::local::{KIND, fault};

/// The newest layout of the folder that this version knows.
const FORMAT: u32 = 2;

/// A folder that is fit to hold a store.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The open folder of the clients: a short way to their sockets, however long the path is.
    clients: File,
    boot: Box<str>,
    access: Access,
}

impl Folder {
    /// Makes the folder if need be, and refuses one that locks cannot rely on.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error| fault::io(path, &error);
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        refuse_shared_file_system(&path)?;
        let access = Access::of(&path).map_err(|error| fault::io(&path, &error))?;
        let clients = open_clients(&path, access).map_err(|error| fault::io(&path, &error))?;
        Ok(Self {
            boot: boot_id()?,
            path,
            clients,
            access,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that every change and every reader locks.
    pub(super) fn lock_file(&self) -> Result<File> {
        let path = self.path.join("lock");
        self.access
            .open(&path)
            .map_err(|error| fault::io(&path, &error))
    }

    /// The state of this boot.
    pub(super) fn state(&self) -> PathBuf {
        self.path.join(format!("state-{}.mdb", self.boot))
    }

    pub(super) fn clients(&self) -> PathBuf {
        self.path.join(CLIENTS)
    }

    pub(super) fn presence(&self, session: Session) -> PathBuf {
        self.path.join(CLIENTS).join(format!("{session:032x}"))
    }

    /// The socket of a session, by a path that fits into the 108 bytes of a socket's address.
    pub(super) fn socket(&self, session: Session) -> PathBuf {
        descriptor(&self.clients).join(format!("{session:032x}.sock"))
    }

    /// Opens a file with the rights of the folder, and makes it if need be.
    pub(super) fn file(&self, path: &Path) -> io::Result<File> {
        self.access.open(path)
    }

    /// Gives a socket, or a file that others made, the rights of the folder.
    pub(super) fn share(&self, path: &Path) -> io::Result<()> {
        self.access.give_to(path, self.access.file_mode())
    }

    /// Removes what a session left behind; what is gone already is fine.
    pub(super) fn remove_client(&self, session: Session) {
        for path in [self.socket(session), self.presence(session)] {
            // Without the right to remove it (a sticky folder), its own user will.
            let _ = fs::remove_file(path);
        }
    }

    /// Replaces a small file so that a crash leaves the old or the new one, also on the disk.
    pub(super) fn replace(&self, file: &str, content: &str) -> io::Result<()> {
        let (path, draft) = (self.path.join(file), self.path.join(format!("{file}.tmp")));
        // A draft that another user left behind may not be writable.
        let _ = fs::remove_file(&draft);
        let mut new = self.access.open(&draft)?;
        new.write_all(content.as_bytes())?;
        new.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(&self.path)?.sync_all()
    }

    /// Checks that this version knows the layout; `None` in a folder that is being made.
    pub(super) fn format(&self) -> Result<Option<()>> {
        let path = self.path.join(FORMAT_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(fault::io(&path, &error)),
        };
        let number = text.strip_prefix("tenure local ").map(str::trim_end);
        match number.and_then(|number| number.parse().ok()) {
            Some(FORMAT) => Ok(Some(())),
            Some(found) if found > FORMAT => Err(Error::Version {
                driver: KIND,
                found,
                known: FORMAT,
            }),
            Some(1) => Err(fault::unavailable(Lasting(
                format!(
                    "{} was made by an older tenure: end the programs that use it, then remove \
                     everything in it but the file 'fence'",
                    self.path.display()
                )
                .into(),
            ))),
            _ => Err(fault::damaged(format!(
                "{} does not say 'tenure local {FORMAT}': this is not a folder of tenure, choose \
                 another with local:/some/folder",
                path.display()
            ))),
        }
    }

    /// Marks the folder as made; the last step of making it.
    pub(super) fn write_format(&self) -> Result<()> {
        let path = self.path.join(FORMAT_FILE);
        self.replace(FORMAT_FILE, &format!("tenure local {FORMAT}\n"))
            .map_err(|error| fault::io(&path, &error))
    }

    /// Deletes the states of earlier boots and half made files.
    ///
    /// After a boot every holder on this machine is dead, and a file that a power cut may have
    /// torn must not be read.
    pub(super) fn remove_earlier_boots(&self) -> Result<()> {
        let failed = |error| fault::io(&self.path, &error);
        let ours = self.state();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            if file.starts_with("state-") && path != ours {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// The folder that a URL names, or the user's own.
pub(super) fn choose(named: Option<&Path>) -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    match named {
        Some(path) => Ok(path.to_owned()),
        None => default_folder(variable("XDG_STATE_HOME"), variable("HOME")),
    }
}

/// The user's own folder, by the XDG base directories: a relative path there counts as none.
fn default_folder(state_home: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let home = home.filter(absolute).map(|home| home.join(".local/state"));
    match state_home.filter(absolute).or(home) {
        Some(state) => Ok(state.join("tenure")),
        None => Err(Error::InvalidUrl {
            reason: "neither XDG_STATE_HOME nor HOME is set: write local:/some/folder".to_owned(),
        }),
    }
}

/// Who may use the folder, and so its files.
#[derive(Debug, Clone, Copy)]
struct Access {
    /// The folder's mode.
    mode: u32,
    owner: u32,
    group: u32,
}

impl Access {
    fn of(folder: &Path) -> io::Result<Self> {
        let found = fs::metadata(folder)?;
        if !found.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            mode: found.mode() & 0o7777,
            owner: found.uid(),
            group: found.gid(),
        })
    }

    /// Who may write in the folder may read and write its files; others get nothing, because
    /// already a reader of the lock file could keep everybody out.
    fn file_mode(self) -> u32 {
        let writers = self.mode & 0o222;
        writers | (writers << 1)
    }

    /// Opens a file, and makes it with the folder's rights.
    fn open(self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        match self.make(path) {
            // Another process made it in between.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
            made => made,
        }
    }

    /// Makes a file that has its rights before it has a name: until then another user would be
    /// refused, and for good if this process were killed in between.
    fn make(self, path: &Path) -> io::Result<File> {
        let folder = path.parent().unwrap_or(path);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            // Some file systems know no files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => return self.make_in_sight(path),
            Err(error) => return Err(error.into()),
        };
        let unnamed = descriptor(&file);
        self.give_to(&unnamed, self.file_mode())?;
        linkat(CWD, &unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        Ok(file)
    }

    fn make_in_sight(self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path)?;
        self.give_to(path, self.file_mode())?;
        Ok(file)
    }

    /// Sets owner, group and mode by hand: the umask must not decide who shares a lock, and root
    /// must not lock a user out of the user's own folder.
    fn give_to(self, path: &Path, mode: u32) -> io::Result<()> {
        let found = fs::metadata(path)?;
        let root = rustix::process::geteuid().is_root();
        let owner = (root && found.uid() != self.owner).then_some(self.owner);
        let shared = root || mode & 0o070 != 0;
        let group = (shared && found.gid() != self.group).then_some(self.group);
        if owner.is_some() || group.is_some() {
            // Refused to a user outside the group, who is here by the rights of all others.
            let _ = std::os::unix::fs::chown(path, owner, group);
        }
        fs::set_permissions(path, Permissions::from_mode(mode))
    }
}

fn open_clients(folder: &Path, access: Access) -> io::Result<File> {
    let path = folder.join(CLIENTS);
    match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_clients(&path, access)?,
        found => return found,
    }
    File::open(&path)
}

/// Makes the folder of the clients; like a file, it has its rights before it has its name.
fn make_clients(path: &Path, access: Access) -> io::Result<()> {
    let draft = path.with_extension(format!("{:032x}", random_u128()));
    let mut private = DirBuilder::new();
    private.mode(0o700).create(&draft)?;
    access.give_to(&draft, access.mode)?;
    let named = renameat_with(CWD, &draft, CWD, path, RenameFlags::NOREPLACE);
    if named.is_ok() {
        return Ok(());
    }
    fs::remove_dir(&draft)?;
    match named {
        // Some file systems cannot keep from replacing what is there.
        Err(Errno::INVAL | Errno::NOSYS) => match private.create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.and_then(|()| access.give_to(path, access.mode)),
        },
        // Another process made it in between.
        Err(Errno::EXIST) => Ok(()),
        other => Ok(other?),
    }
}

/// The way to an open file, whatever its name or its path.
fn descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The name that the kernel gives to the time since it started.
fn boot_id() -> Result<Box<str>> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|error| {
        let path = path.display();
        fault::unavailable(format!("{path} cannot be read ({error}): mount /proc"))
    })?;
    Ok(text.trim().into())
}

fn refuse_shared_file_system(path: &Path) -> Result<()> {
    let found = rustix::fs::statfs(path).map_err(|error| fault::io(path, &error.into()))?;
    // The type's width and sign differ between machines; the magic numbers fit into 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let magic = found.f_type as u32;
    match shared_file_system(magic) {
        None => Ok(()),
        Some(kind) => Err(Error::InvalidUrl {
            reason: format!(
                "{} is on {kind}, where file locks and shared memory of several machines do not \
                 hold: choose a folder on a disk of this machine with local:/some/folder",
                path.display()
            ),
        }),
    }
}

/// Names the file system if several machines, or a machine and its guests, may share it.
fn shared_file_system(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0000_564c => "NCP",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE or virtiofs",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x0bd0_0bd0 => "Lustre",
        0x786f_4256 => "vboxsf",
        0xbacb_acbc => "vmhgfs",
        0x4750_4653 => "GPFS",
        _ => return None,
    })
}

const CLIENTS: &str = "clients";
const FORMAT_FILE: &str = "format";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_follows_xdg() {
        let path = |text: &str| Some(PathBuf::from(text));
        let state = default_folder(path("/state"), path("/home/ann")).unwrap();
        let home = default_folder(None, path("/home/ann")).unwrap();
        let relative = default_folder(path("state"), path("/home/ann")).unwrap();
        assert_eq!(state, Path::new("/state/tenure"));
        assert_eq!(home, Path::new("/home/ann/.local/state/tenure"));
        assert_eq!(relative, home);
    }

    #[test]
    fn without_a_home_the_error_says_what_to_write() {
        let error = default_folder(None, None).unwrap_err();
        assert!(error.to_string().contains("local:/some/folder"), "{error}");
    }

    #[test]
    fn network_file_systems_are_refused_and_disks_are_not() {
        for magic in [0x6969, 0xff53_4d42, 0x0102_1997, 0x6573_5546, 0x00c3_6400] {
            assert!(shared_file_system(magic).is_some(), "{magic:x}");
        }
        let (ext4, tmpfs, btrfs, xfs, overlay, zfs) = (
            0xef53,
            0x0102_1994,
            0x9123_683e,
            0x5846_5342,
            0x794c_7630,
            0x2fc1_2fc1,
        );
        for magic in [ext4, tmpfs, btrfs, xfs, overlay, zfs] {
            assert_eq!(shared_file_system(magic), None, "{magic:x}");
        }
    }

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
    fn an_unwritable_folder_is_explained() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = fault::io(Path::new("/x/y"), &denied);
        let Error::Unavailable { source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(
            source.to_string(),
            "/x/y is not writable for this user: choose another folder with local:/some/folder, \
             or let your group write to it"
        );
    }

    #[test]
    fn a_newer_format_asks_for_an_update() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        assert!(folder.format().unwrap().is_none());
        folder.write_format().unwrap();
        assert!(folder.format().unwrap().is_some());
        fs::write(temporary.path().join("format"), "tenure local 3\n").unwrap();
        let newer = folder.format().unwrap_err();
        assert!(matches!(
            newer,
            Error::Version {
                found: 3,
                known: 2,
                ..
            }
        ));
        fs::write(temporary.path().join("format"), "tenure local 1\n").unwrap();
        let older = folder.format().unwrap_err();
        assert!(matches!(older, Error::Unavailable { .. }));
        fs::write(temporary.path().join("format"), b"\xff\0").unwrap();
        let foreign = folder.format().unwrap_err();
        assert!(matches!(foreign, Error::Damaged { .. }));
    }
}
