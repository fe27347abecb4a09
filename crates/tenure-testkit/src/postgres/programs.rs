//! Finds PostgreSQL's programs.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::process;

/// The directory of the programs of one version.
#[derive(Debug)]
pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Finds the version whose server is on the `PATH`; otherwise the latest of those that Debian
    /// installs outside of the `PATH`.
    ///
    /// All programs are of that version. The programs that Debian puts on the `PATH` under the same
    /// names choose a version by themselves.
    pub(super) fn find() -> Result<Self> {
        let folder = match process::find("postgres", "postgresql") {
            // It may be a symbolic link.
            Ok(server) => server
                .canonicalize()
                .map_err(Error::io("find the folder of postgres"))?
                .with_file_name(""),
            Err(missing) => latest_version().ok_or(missing)?,
        };
        Ok(Self { folder })
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.folder.join("initdb")
    }

    pub(super) fn pg_basebackup(&self) -> PathBuf {
        self.folder.join("pg_basebackup")
    }

    pub(super) fn pg_resetwal(&self) -> PathBuf {
        self.folder.join("pg_resetwal")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.folder.join("postgres")
    }

    pub(super) fn psql(&self) -> PathBuf {
        self.folder.join("psql")
    }
}

/// Returns a directory such as `/usr/lib/postgresql/15/bin`, which is not on the `PATH`, although
/// `/usr/bin` is.
fn latest_version() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path)
        .filter_map(|folder| process::beside_bin(&folder, "lib/postgresql"));
    let versions = all.flat_map(|folder| folder.read_dir().into_iter().flatten().flatten());
    let complete = versions.filter_map(|version| {
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        let folder = version.path().join("bin");
        folder
            .join("postgres")
            .is_file()
            .then_some((number, folder))
    });
    complete.max().map(|(_, folder)| folder)
}
