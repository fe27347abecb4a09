//! Selects the store, and shows its URL without the password.

use std::path::PathBuf;

use clap::Args;
use tenure::Client;
use tenure::url::{StoreUrl, redact};

use crate::error::{Failure, Result};

/// The store to ask.
#[derive(Debug, Args)]
pub struct Store {
    /// Where the locks live [default: local:]
    #[arg(
        long = "store",
        value_name = "URL",
        global = true,
        display_order = 900,
        env = VARIABLE,
        hide_env_values = true
    )]
    url: Option<String>,
}

impl Store {
    /// Returns the store at a URL.
    pub fn of(url: &str) -> Self {
        Self {
            url: Some(url.to_owned()),
        }
    }

    /// Opens the store.
    pub async fn open(&self) -> Result<Client> {
        Ok(tenure::open(self.url()).await?)
    }

    /// Returns the URL, which may contain a password.
    pub fn url(&self) -> &str {
        self.url.as_deref().unwrap_or(DEFAULT)
    }

    /// Returns the URL if processes that inherit our environment would use another store.
    pub(crate) fn not_inherited(&self) -> Option<String> {
        let url = self.url.as_deref()?;
        let inherited = std::env::var(VARIABLE).is_ok_and(|inherited| inherited == url);
        (!inherited).then(|| url.to_owned())
    }

    /// Makes the directory of a local store absolute, and says so with `tell` if it depends on
    /// where the command runs.
    ///
    /// # Errors
    ///
    /// Wrong usage, if the store cannot exclude other processes or its directory is not known.
    pub(crate) fn for_processes(self, tell: impl FnOnce(&str)) -> Result<Self> {
        let url = self.url();
        if url.starts_with("memory:") {
            return Err(Failure::usage(MEMORY));
        }
        let path = url.strip_prefix("local:").unwrap_or_default();
        let folder = match path.strip_prefix('~') {
            None if path.is_empty() || path.starts_with('/') => return Ok(self),
            None => std::path::absolute(path)?,
            Some("") => home()?,
            Some(rest) => match rest.strip_prefix('/') {
                Some(rest) => home()?.join(rest),
                None => return Err(Failure::usage(OTHER_HOME)),
            },
        };
        let folder = folder.display();
        if !path.starts_with('~') {
            tell(&format!(
                "local:{path} is {folder}, and would be another store in another directory; write \
                 the whole path"
            ));
        }
        Ok(Self::of(&format!("local:{folder}")))
    }

    /// Returns whether the user chose the store.
    pub fn is_named(&self) -> bool {
        self.url.is_some()
    }

    /// Returns the same store with additional URL options, such as `a=1&b=2`.
    pub fn with_option(&self, options: &str) -> Self {
        // An invalid URL stays as it is: opening it reports what is wrong.
        let url = StoreUrl::parse(self.url()).map_or_else(
            |_| self.url().to_owned(),
            |mut url| {
                for (key, value) in options.split('&').filter_map(|pair| pair.split_once('=')) {
                    url.set_option(key, value);
                }
                url.reveal()
            },
        );
        Self { url: Some(url) }
    }

    /// Returns the URL without its password.
    pub fn shown(&self) -> String {
        redact(self.url())
    }
}

/// Returns the home directory of the user.
fn home() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let unknown =
        || Failure::usage("local:~ needs the variable HOME; write the whole path instead");
    home.map(PathBuf::from).ok_or_else(unknown)
}

/// Returns the stores of this build, as the help lists them.
pub(crate) fn help() -> String {
    let schemes = tenure::schemes().iter();
    let schemes = schemes.filter(|row| row.is_available() && row.names[0] != "memory");
    let width = schemes.clone().map(|row| row.example.len()).max();
    let width = width.unwrap_or_default();
    let line = |row: &tenure::Scheme| format!("  {:<width$}  {}\n", row.example, row.summary);
    format!("Stores:\n{}", schemes.map(line).collect::<String>())
}

/// The environment variable that names the store.
///
/// A child process gets its URL here and not as an argument, because everybody can read arguments
/// and the URL may contain a password.
pub const VARIABLE: &str = "TENURE_STORE";

const DEFAULT: &str = "local:";

const MEMORY: &str = "memory: is a store inside one process, so it would keep no other command \
                      out; use local: or a server";

const OTHER_HOME: &str =
    "local:~ is only known for your own home directory; write the whole path instead";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_without_its_password_and_opened_with_it() {
        let store = Store::of("redlock://a?db=1,u:secret@b");
        assert_eq!(store.shown(), "redlock://a?…,…@b");
        let with = store.with_option("drift=5%");
        assert_eq!(with.url(), "redlock://a?db=1,u:secret@b?drift=5%25");
    }

    #[test]
    fn the_help_lists_the_stores_that_are_there() {
        let help = help();
        assert!(help.contains("\n  redis://host:6379/0 "), "{help}");
        let tls = tenure::schemes()
            .iter()
            .any(|row| row.names[0] == "rediss" && row.is_available());
        assert_eq!(help.contains("rediss://"), tls, "{help}");
    }
}
