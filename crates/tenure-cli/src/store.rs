//! Selects the store, and shows its URL without the password.

use clap::Args;
use tenure::Client;
use tenure::url::{StoreUrl, redact};

use crate::error::Result;

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
    ///
    /// A directory in it does not depend on where these processes run.
    pub(crate) fn not_inherited(&self) -> Option<String> {
        let url = self.url.as_deref()?;
        if std::env::var(VARIABLE).is_ok_and(|inherited| inherited == url) {
            return None;
        }
        let folder = url.strip_prefix("local:").filter(|path| !path.is_empty());
        let folder = folder.and_then(|path| std::path::absolute(path).ok());
        let absolute = folder.as_deref().and_then(std::path::Path::to_str);
        Some(absolute.map_or_else(|| url.to_owned(), |folder| format!("local:{folder}")))
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

/// Returns the stores of this build, as the help lists them.
pub(crate) fn help() -> String {
    let schemes = tenure::schemes().iter().filter(|row| row.is_available());
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
