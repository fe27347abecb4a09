//! The data of new servers, created once and then copied, because creating it takes longer than
//! starting a server.
//!
//! It is an archive in a directory beside those of the servers. All processes of one user share it,
//! and it is kept for later runs.

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use super::client::run;
use crate::error::{Error, Result};
use crate::process;
use crate::server::Server;
use crate::user::User;

/// Creates the directory `data`, owned by `user`, from a template.
///
/// If there is no template, `make` creates the data in the directory that it is given. A template
/// belongs to one `recipe`, which therefore names everything that influences the data.
pub(crate) fn unpack(
    name: &str,
    recipe: &str,
    data: &Path,
    user: Option<User>,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let template = templates()?.join(format!("{name}-{:016x}.tar", hash(recipe)));
    if !template.exists() {
        pack(name, &template, user, make)?;
    }
    // Servers require these permissions.
    let made = DirBuilder::new().mode(0o700).create(data);
    made.map_err(Error::io("make the folder for data"))?;
    User::give(user, data)?;
    let archive = File::open(&template).map_err(Error::io("open a template"))?;
    let tar = process::find("tar", "tar")?;
    let mut command = User::command(user, &tar);
    let status = command
        .args(["--extract", "--file=-"])
        .current_dir(data)
        .stdin(archive)
        .status()
        .map_err(Error::io("unpack a template"))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Program {
            program: "tar".into(),
            log: format!("{} cannot be unpacked", template.display()),
        }),
    }
}

fn pack(
    name: &str,
    template: &Path,
    user: Option<User>,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    // One process creates it, and the others wait. The lock ends with its process.
    let lock = File::create(template.with_extension("lock"));
    let lock = lock.map_err(Error::io("make the lock of a template"))?;
    lock.lock().map_err(Error::io("lock a template"))?;
    if template.exists() {
        return Ok(());
    }
    let folder = Server::make_folder(name)?;
    User::give(user, folder.path())?;
    let data = folder.path().join("data");
    make(&data)?;
    // Many blocks are empty, and need not be written each time.
    let sparse = folder.path().join("sparse");
    let mut copy = Command::new(process::find("cp", "coreutils")?);
    let copy = copy.args(["--archive", "--sparse=always"]);
    run(copy.arg(&data).arg(&sparse), "")?;
    // It gets its name only when it is complete.
    let draft = template.with_extension("draft");
    let mut pack = Command::new(process::find("tar", "tar")?);
    let pack = pack.args(["--create", "--sparse", "--file"]).arg(&draft);
    run(pack.arg("--directory").arg(&sparse).arg("."), "")?;
    fs::rename(draft, template).map_err(Error::io("name a template"))
}

/// Returns the directory for templates, which belongs to this user alone.
fn templates() -> Result<PathBuf> {
    let uid = geteuid().as_raw();
    let folder = std::env::temp_dir().join(format!("tenure-testkit-{uid}"));
    let action = || format!("use {} as the folder for templates", folder.display());
    // Another process may create it at the same time.
    let _ = DirBuilder::new().mode(0o700).create(&folder);
    let owner = fs::symlink_metadata(&folder).map_err(Error::io(action()))?;
    if owner.is_dir() && owner.uid() == uid {
        return Ok(folder);
    }
    let denied = std::io::Error::other("it is not a folder, or somebody else's");
    Err(Error::io(action())(denied))
}

fn hash(recipe: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (recipe, FORMAT).hash(&mut hasher);
    hasher.finish()
}

/// The version of the way in which templates are packed.
const FORMAT: u32 = 1;
