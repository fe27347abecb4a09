//! Which store to ask, and how to speak of it without its password.

use clap::Args;
use tenure::Client;

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
    /// Returns the store of a URL.
    pub fn of(url: &str) -> Self {
        Self {
            url: Some(url.to_owned()),
        }
    }

    /// Opens the store.
    pub async fn open(&self) -> Result<Client> {
        Ok(tenure::open(self.url()).await?)
    }

    /// Returns the URL, which may hold a password.
    pub fn url(&self) -> &str {
        self.url.as_deref().unwrap_or(DEFAULT)
    }

    /// Returns the URL if processes that inherit our environment would ask another store.
    ///
    /// It names the same folder wherever they run.
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

    /// Returns whether somebody chose the store.
    pub fn is_named(&self) -> bool {
        self.url.is_some()
    }

    /// Returns the same store, opened with one more option.
    pub fn with_option(&self, option: &str) -> Self {
        let url = self.url();
        let separator = if url.contains('?') { '&' } else { '?' };
        Self {
            url: Some(format!("{url}{separator}{option}")),
        }
    }

    /// Returns the URL as it may be shown.
    pub fn shown(&self) -> String {
        // Whatever follows the scheme belongs to the URL, also a quote in a password.
        match self.url().split_once("://") {
            Some((scheme, nodes)) if scheme.starts_with("redlock") => {
                let nodes = nodes.split(',').map(shown_node);
                format!("{scheme}://{}", nodes.collect::<Vec<_>>().join(","))
            }
            Some((scheme, address)) => format!("{scheme}://{}", without_password(address)),
            None => self.url().to_owned(),
        }
    }
}

/// One of several servers, without its password.
fn shown_node(node: &str) -> String {
    let (scheme, address) = match node.split_once("://") {
        Some((scheme, address)) => (format!("{scheme}://"), address),
        None => (String::new(), node),
    };
    let shown = without_password(address);
    if let Some((_, server)) = shown.rsplit_once('@') {
        // Not even the user: behind a comma in a password that is its rest.
        return format!("{scheme}…@{server}");
    }
    let place = shown.split(['?', '/']).next().unwrap_or_default();
    let port = place.rsplit_once(':').map_or("", |(_, port)| port);
    if place.ends_with(']') || port.bytes().all(|digit| digit.is_ascii_digit()) {
        return format!("{scheme}{shown}");
    }
    // What looks like no server may be the beginning of such a password.
    "…".to_owned()
}

/// Replaces the passwords of all URLs in a text.
pub(crate) fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        shown.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'))
            .unwrap_or(after.len());
        let (address, next) = after.split_at(end);
        shown.push_str(&without_password(address));
        rest = next;
    }
    shown.push_str(rest);
    shown
}

/// Replaces what stands between the first colon and the last at sign, and every query value.
fn without_password(address: &str) -> String {
    let (address, query) = match address.split_once('?') {
        Some((address, _)) => (address, "?…"),
        None => (address, ""),
    };
    match address.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{user}:…@{host}{query}")
        }
        None => format!("{address}{query}"),
    }
}

/// The variable that names the store.
///
/// A child gets its URL here and not as an argument: everybody can read those, and it may hold a password.
pub const VARIABLE: &str = "TENURE_STORE";

const DEFAULT: &str = "local:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let cases = [
            ("redis://user:secret@x:6379/0", "redis://user:…@x:6379/0"),
            ("redis://:se@cr:et@x", "redis://:…@x"),
            ("redis://x/0?password=secret", "redis://x/0?…"),
            ("local:/some/folder", "local:/some/folder"),
            (
                "unknown 'a://b:secret@c' and d://e:secret@f",
                "unknown 'a://b:…@c' and d://e:…@f",
            ),
        ];
        for (url, shown) in cases {
            assert_eq!(without_passwords(url), shown);
        }
        let cases = [
            (
                "redlock://u:it's secret@a,u:secret@b?db=1,c",
                "redlock://…@a,…@b?…,c",
            ),
            (
                "redlock://a:1,redis://:secret@b:2/3,[::1],[::1]:7?drift=1",
                "redlock://a:1,redis://…@b:2/3,[::1],[::1]:7?…",
            ),
            ("redlock://u:sec,ret@a", "redlock://…,…@a"),
            ("redlock://u:secr,e:t@a", "redlock://…,…@a"),
        ];
        for (url, shown) in cases {
            let store = Store {
                url: Some(url.to_owned()),
            };
            assert_eq!(store.shown(), shown);
        }
    }
}
