//! Selects the store, and shows its URL without the password.

use std::path::{Path, PathBuf};

use clap::Args;
use tenure::Client;
use tenure::url::{StoreUrl, redact};

use crate::error::{Failure, Result};

/// The store to ask.
#[derive(Debug, Default, Args)]
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

    /// The URL as the user gave it, if a password was added to it since.
    #[arg(skip)]
    given: Option<String>,

    /// The file that the password was read from.
    #[arg(skip)]
    password_file: Option<String>,
}

impl Store {
    /// Returns the store at a URL.
    pub fn of(url: &str) -> Self {
        Self {
            url: Some(url.to_owned()),
            ..Self::default()
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

    /// Returns the variables with which other processes use the same store, if they do not inherit
    /// them. A password that is not in the URL of the user is not among them.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let url = self.given.as_ref().or(self.url.as_ref());
        let variables = [
            (VARIABLE, url),
            (PASSWORD_FILE, self.password_file.as_ref()),
        ];
        let values = variables.into_iter();
        let values = values.filter_map(|(key, value)| Some((key, value?.clone())));
        values
            .filter(|(key, value)| std::env::var(key).as_ref() != Ok(value))
            .collect()
    }

    /// Adds the password in `file`, else that of `TENURE_PASSWORD`, for servers whose URL has none.
    ///
    /// # Errors
    ///
    /// Wrong usage, if the file cannot be read or has no password.
    pub(crate) fn with_password(mut self, file: Option<&Path>) -> Result<Self> {
        let variable = std::env::var(PASSWORD).ok();
        let password = match file {
            Some(file) => Some(read_password(file)?),
            None => variable.filter(|password| !password.is_empty()),
        };
        // An invalid URL stays as it is: opening it reports what is wrong.
        let url = self.url.as_deref().map(StoreUrl::parse);
        let (Some(password), Some(Ok(mut url))) = (password, url) else {
            return Ok(self);
        };
        let servers = match url.nodes.is_empty() {
            true => std::slice::from_mut(&mut url),
            false => &mut url.nodes,
        };
        for server in servers.iter_mut().filter(|url| !url.servers.is_empty()) {
            server.password.get_or_insert_with(|| password.clone());
        }
        self.given = self.url.replace(url.reveal());
        if let Some(file) = file {
            self.password_file = std::path::absolute(file)?.to_str().map(str::to_owned);
        }
        Ok(self)
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
        Self::of(&url)
    }

    /// Returns the URL without its password.
    pub fn shown(&self) -> String {
        redact(self.url())
    }
}

/// Returns the first line of a file.
fn read_password(file: &Path) -> Result<String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("the password file {shown} cannot be read: {error}"))
    })?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(Failure::usage(format!(
            "the password file {shown} has no password in its first line"
        ))),
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

/// The environment variables for a password that is not in the URL.
const PASSWORD: &str = "TENURE_PASSWORD";
pub(crate) const PASSWORD_FILE: &str = "TENURE_PASSWORD_FILE";

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
    fn a_password_from_elsewhere_is_for_servers_without_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "p@ss,word\nnot this\n").unwrap();
        let cases = [
            ("redis://h/1", "redis://:p%40ss%2Cword@h/1"),
            ("postgres://ann@h/d", "postgres://ann:p%40ss%2Cword@h/d"),
            ("redis://ann:own@h/1", "redis://ann:own@h/1"),
            ("redlock://a,u:own@b", "redlock://:p%40ss%2Cword@a,u:own@b"),
            ("local:/x", "local:/x"),
        ];
        for (url, expected) in cases {
            let store = Store::of(url).with_password(Some(file.path())).unwrap();
            assert_eq!(store.url(), expected);
            let passed_on = store.environment();
            assert_eq!(passed_on[0], (VARIABLE, url.to_owned()));
            assert_eq!(passed_on[1].0, PASSWORD_FILE);
        }
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
