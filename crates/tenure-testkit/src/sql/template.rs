//! The data of new servers, made once and then copied, because making it takes longer than starting a server.
//!
//! It is an archive in a folder beside the servers' own, shared by all processes of one user and kept for later runs.

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

/// Makes the folder `data`, owned by `user`, from a template. If there is none, `make` makes the data in the folder
/// that it is given; a template is for one `recipe`, which therefore names all that influences the data.
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
    // Servers want it like that.
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
    // One process makes it, and the others wait. The lock ends with its process.
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
    // It has its name only when it is complete.
    let draft = template.with_extension("draft");
    let mut pack = Command::new(process::find("tar", "tar")?);
    let pack = pack.args(["--create", "--sparse", "--file"]).arg(&draft);
    run(pack.arg("--directory").arg(&sparse).arg("."), "")?;
    fs::rename(draft, template).map_err(Error::io("name a template"))
}

/// The folder for templates, which is ours alone.
fn templates() -> Result<PathBuf> {
    let uid = geteuid().as_raw();
    let folder = std::env::temp_dir().join(format!("tenure-testkit-{uid}"));
    let action = || format!("use {} as the folder for templates", folder.display());
    // Another process may make it at the same time.
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

/// Counts the ways in which templates were packed.
const FORMAT: u32 = 1;
