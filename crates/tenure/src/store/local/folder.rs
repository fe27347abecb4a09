//! The directory of a store: where it is, who may use it, and which files it contains.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Lasting, Result};
use crate::store::ledger::Session;
use crate::store::local::safe_dir::{DRAFT, Location, SafeDir};
use crate::store::local::{KIND, fault};

/// The newest layout of the directory that this version knows.
const FORMAT: u32 = 2;

/// A directory that is fit to hold a store.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    location: Location,
    /// The directory itself, whatever happens to its path.
    dir: SafeDir,
    /// The directory of the clients.
    pub(super) clients: SafeDir,
    boot: Box<str>,
}

impl Folder {
    /// Creates the directory if needed, and refuses one that is not safe for locks.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error| fault::io(path, &error);
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let dir = SafeDir::open(&path).map_err(|error| fault::io(&path, &error))?;
        refuse_shared_file_system(&path, &dir)?;
        let location = Location::of(&path).map_err(|error| fault::io(&path, &error))?;
        let clients = dir.open_or_make_dir(CLIENTS);
        let clients = clients.map_err(|error| fault::io(&path.join(CLIENTS), &error))?;
        Ok(Self {
            boot: boot_id()?,
            path,
            location,
            dir,
            clients,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file that every reader and writer locks.
    pub(super) fn lock_file(&self) -> Result<File> {
        let lock = self.dir.open_or_make(LOCK_FILE);
        lock.map_err(|error| fault::io(&self.path.join(LOCK_FILE), &error))
    }

    /// Returns the path of the state of this boot.
    pub(super) fn state(&self) -> PathBuf {
        self.path.join(self.state_name())
    }

    /// Opens the state of this boot, if there is one.
    pub(super) fn state_file(&self) -> Result<Option<File>> {
        match self.dir.open_to_write(&self.state_name()) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault::io(&self.state(), &error)),
        }
    }

    /// Returns whether others who open the directory by its path find this state.
    pub(super) fn is_found_with(&self, state: &File) -> io::Result<bool> {
        self.location.has(&self.state_name(), state)
    }

    fn state_name(&self) -> String {
        format!("state-{}.mdb", self.boot)
    }

    /// Creates the state of this boot, which `fill` writes.
    pub(super) fn make_state(&self, fill: impl FnOnce(&File) -> heed::Result<()>) -> Result<File> {
        let made = self.dir.replace(&self.state_name(), fill);
        made.map_err(|error| fault::lmdb(&self.state(), error))
    }

    /// Reads a small file; `None` if there is none.
    pub(super) fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let failed = |error: io::Error| fault::io(&self.path.join(file), &error);
        let mut found = match self.dir.open_to_read(file) {
            Ok(found) => found.take(SMALL),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut content = Vec::new();
        found.read_to_end(&mut content).map_err(failed)?;
        Ok(Some(content))
    }

    /// Replaces a small file atomically and durably.
    pub(super) fn replace(&self, file: &str, content: &str) -> io::Result<()> {
        self.dir.replace(file, |mut new| {
            new.write_all(content.as_bytes())?;
            new.sync_all()
        })?;
        self.dir.sync()
    }

    /// Removes the files of a session, if they exist.
    pub(super) fn remove_client(&self, session: Session) {
        for name in [socket_name(session), presence_name(session)] {
            // If this user may not remove it (a sticky directory), its own user will.
            let _ = self.clients.remove(name.as_ref());
        }
        self.clients.remove_draft(&draft_name(session));
    }

    /// Checks that this version knows the layout; `None` in a directory that is being created.
    pub(super) fn format(&self) -> Result<Option<()>> {
        let Some(text) = self.read(FORMAT_FILE)? else {
            return Ok(None);
        };
        let text = str::from_utf8(&text).unwrap_or_default();
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
                "{} does not say 'tenure local {FORMAT}': this is not a directory of tenure, choose \
                 another with local:/some/directory",
                self.path.join(FORMAT_FILE).display()
            ))),
        }
    }

    /// Marks the directory as complete; the last step of creating it.
    pub(super) fn write_format(&self) -> Result<()> {
        let path = self.path.join(FORMAT_FILE);
        self.replace(FORMAT_FILE, &format!("tenure local {FORMAT}\n"))
            .map_err(|error| fault::io(&path, &error))
    }

    /// Deletes the states of earlier boots and incomplete files.
    ///
    /// After a boot no holder of this machine is alive, and a file that a power cut may have torn must
    /// not be read.
    pub(super) fn remove_earlier_boots(&self) -> Result<()> {
        let names = self.dir.names();
        for name in names.map_err(|error| fault::io(&self.path, &error))? {
            let file = name.to_string_lossy();
            if file.ends_with(DRAFT) || file.starts_with("state-") && file != self.state_name() {
                // Nobody reads it, so it may stay if only its own user may remove it.
                let _ = self.dir.remove(Path::new(&name));
            }
        }
        Ok(())
    }
}

/// Returns the name of the file that shows that a session is alive.
pub(super) fn presence_name(session: Session) -> String {
    format!("{session:032x}")
}

/// Returns the name of a session's inbox.
pub(super) fn socket_name(session: Session) -> String {
    format!("{session:032x}{SOCKET_END}")
}

/// Returns the name of the directory where a session's inbox is created.
pub(super) fn draft_name(session: Session) -> String {
    format!("{session:032x}{DRAFT}")
}

/// Returns the directory of a URL, or the user's own.
pub(super) fn choose(named: Option<&Path>) -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    match named {
        Some(path) => Ok(path.to_owned()),
        None => default_folder(variable("XDG_STATE_HOME"), variable("HOME")),
    }
}

/// Returns the user's own directory, by the XDG base directories: a relative path counts as unset.
fn default_folder(state_home: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let home = home.filter(absolute).map(|home| home.join(".local/state"));
    match state_home.filter(absolute).or(home) {
        Some(state) => Ok(state.join("tenure")),
        None => Err(Error::InvalidUrl {
            reason: "neither XDG_STATE_HOME nor HOME is set: write local:/some/directory"
                .to_owned(),
        }),
    }
}

/// Returns the kernel's id of this boot.
fn boot_id() -> Result<Box<str>> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|error| {
        let path = path.display();
        fault::unavailable(format!("{path} cannot be read ({error}): mount /proc"))
    })?;
    Ok(text.trim().into())
}

fn refuse_shared_file_system(path: &Path, dir: &SafeDir) -> Result<()> {
    let found = rustix::fs::statfs(dir.path()).map_err(|error| fault::io(path, &error.into()))?;
    // The type's width and sign differ between machines; the magic numbers fit into 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let magic = found.f_type as u32;
    match shared_file_system(magic) {
        None => Ok(()),
        Some(kind) => Err(Error::InvalidUrl {
            reason: format!(
                "{} is on {kind}, where file locks and shared memory are not reliable between machines: \
                 choose a directory on a disk of this machine with local:/some/directory",
                path.display()
            ),
        }),
    }
}

/// Returns the kind of file system if several machines, or a machine and its guests, may share it.
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

/// The file that is locked.
pub(super) const LOCK_FILE: &str = "lock";

/// The suffix of sockets.
pub(super) const SOCKET_END: &str = ".sock";

/// The largest file that is read completely.
const SMALL: u64 = 4096;

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
        assert!(
            error.to_string().contains("local:/some/directory"),
            "{error}"
        );
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
    fn an_unwritable_folder_is_explained() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = fault::io(Path::new("/x/y"), &denied);
        let Error::Unavailable { source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(
            source.to_string(),
            "/x/y is not writable for this user: choose another directory with local:/some/directory, \
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
