//! From a URL to settings: which server, how to log in, which table.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Result;
use crate::store::tls::Tls;
use crate::url::{Host, StoreUrl, invalid};

/// Everything that a URL says about a store in a database.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) host: Host,
    /// The server's socket, instead of its host.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) tls: Option<Tls>,
    /// Where the table is, if not where the connection looks first.
    pub(crate) schema: Option<String>,
    /// What the names of tables begin with.
    pub(crate) prefix: String,
    /// How many connections statements may use at once.
    pub(crate) connections: u32,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
    /// How long getting a connection may take.
    pub(crate) connect_timeout: Duration,
    /// How long the last fence of a name is remembered after its last use.
    pub(crate) fence_memory: Duration,
}

impl Settings {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](crate::Error::InvalidUrl) with what is wrong and what would be right; never quotes
    /// a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let url = StoreUrl::parse(url)?;
        let mut options = url.options();
        let scheme = url.scheme;
        let [host] = url.servers.as_slice() else {
            return Err(invalid(format!(
                "{scheme}:// names one server: all lock traffic goes to the primary"
            )));
        };
        let database = url.path.trim_end_matches('/');
        if database.is_empty() || database.contains('/') {
            return Err(invalid(format!(
                "the path is the name of a database: {scheme}://user:password@host/database"
            )));
        }
        let connections = options.number("connections")?.unwrap_or(4);
        if !(1..=1000).contains(&connections) {
            return Err(invalid("connections is between 1 and 1000"));
        }
        let is_encrypted = match options.text("tls").as_deref() {
            None | Some("off") => false,
            Some("on") => true,
            // Never without TLS for somebody who wrote something that might mean it.
            Some(_) => return Err(invalid("tls is on or off")),
        };
        let mut path = |key| options.text(key).map(PathBuf::from);
        let tls = Tls {
            ca: path("ca"),
            certificate: path("cert"),
            key: path("key"),
        };
        if tls.certificate.is_some() != tls.key.is_some() {
            return Err(invalid("cert=… and key=… go together"));
        }
        if !is_encrypted && tls != Tls::default() {
            return Err(invalid("ca, cert and key go with tls=on"));
        }
        let settings = Self {
            host: host.clone(),
            socket: path("socket"),
            user: url.user.clone(),
            password: url.password.clone(),
            database: database.to_owned(),
            tls: is_encrypted.then_some(tls),
            schema: options.text("schema").map(identifier).transpose()?,
            prefix: identifier(
                options
                    .raw("prefix")
                    .unwrap_or_else(|| "tenure_".to_owned()),
            )?,
            connections,
            timeout: options.duration("timeout")?.unwrap_or(2 * SECOND),
            connect_timeout: options.duration("connect_timeout")?.unwrap_or(5 * SECOND),
            fence_memory: options.duration("fence_memory")?.unwrap_or(3600 * SECOND),
        };
        options.finish()?;
        Ok(settings)
    }

    /// Returns where the database is, for messages: no password.
    pub(crate) fn place(&self) -> String {
        match &self.socket {
            Some(socket) => format!("{} at {}", self.database, socket.display()),
            None => format!("{} at {}", self.database, self.host),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("place", &self.place())
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A name that can stand in a statement as it is.
fn identifier(text: String) -> Result<String> {
    let is_plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    match text.chars().all(is_plain) && text.len() <= 40 {
        true => Ok(text),
        false => Err(invalid(
            "prefix and schema consist of small letters, digits and _, 40 at most",
        )),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_the_table_is_and_how_to_get_there() {
        let url =
            "postgres://ann:p%40ss@db.example:7000/shop?schema=locks&prefix=x_&tls=on&ca=/a.pem";
        let settings = Settings::parse(url).unwrap();
        assert_eq!(settings.place(), "shop at db.example:7000");
        assert_eq!(settings.password.as_deref(), Some("p@ss"));
        assert_eq!(settings.schema.as_deref(), Some("locks"));
        assert_eq!(settings.prefix, "x_");
        assert_eq!(settings.tls.unwrap().ca, Some("/a.pem".into()));
        let usual = Settings::parse("mysql://h/d").unwrap();
        assert_eq!((usual.host.port, usual.prefix.as_str()), (3306, "tenure_"));
        assert_eq!(usual.tls, None);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for wrong in [
            "postgres://u:secret@h",
            "postgres://u:secret@h/a/b",
            "postgres://u:secret@a,b/d",
            "postgres://u:secret@h/d?tls=require",
            "postgres://u:secret@h/d?ca=/a.pem",
            "postgres://u:secret@h/d?tls=on&cert=/a.pem",
            "postgres://u:secret@h/d?prefix=a;b",
            "postgres://u:secret@h/d?schema=A",
            "postgres://u:secret@h/d?connections=0",
            "postgres://u:secret@h/d?passwort=secret",
            "mysql://u:secret@h/d?timeout=5",
        ] {
            let error = Settings::parse(wrong).unwrap_err();
            assert!(matches!(error, crate::Error::InvalidUrl { .. }), "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let settings = Settings::parse("postgres://u:secret@h/d").unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
