//! From a URL to settings: which servers, which session, which layout.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Result;
use crate::schemes;
use crate::store::tls::Tls;
use crate::store::zookeeper::wire::Access;
use crate::url::{Host, StoreUrl, invalid};

/// Everything that a URL says about a store in ZooKeeper.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) servers: Vec<Host>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    #[cfg_attr(
        not(feature = "zookeeper-tls"),
        allow(dead_code, reason = "a URL with TLS is refused")
    )]
    pub(crate) tls: Option<Tls>,
    /// The node under which all locks are, without a slash at the end.
    pub(crate) root: String,
    pub(crate) layout: Layout,
    /// How long the session is to outlive its last sign of life.
    pub(crate) session: Duration,
    /// Whether the URL names it.
    pub(crate) session_is_named: bool,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
    /// How long getting a connection may take.
    pub(crate) connect_timeout: Duration,
}

/// Whose locks ours can be shared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Curator's `InterProcessMutex`.
    Curator,
    /// Curator's `InterProcessReadWriteLock`.
    ReadWrite,
    /// kazoo's `Lock`, `WriteLock` and `ReadLock`.
    Kazoo,
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
        let is_encrypted = url.scheme == "zookeepers";
        if is_encrypted && cfg!(not(feature = "zookeeper-tls")) {
            return Err(schemes::missing("zookeepers", "zookeeper-tls"));
        }
        if url.password.is_some() && url.user.is_none() {
            return Err(invalid("a password goes with a user: user:password@host"));
        }
        let layout = match options.text("layout").as_deref() {
            None | Some("curator") => Layout::Curator,
            Some("readwrite") => Layout::ReadWrite,
            Some("kazoo") => Layout::Kazoo,
            Some(_) => return Err(invalid("layout is curator, readwrite or kazoo")),
        };
        let session = options.duration("session")?;
        if session.is_some_and(|session| session > LONGEST_SESSION) {
            return Err(invalid("session is at most 1h"));
        }
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
            return Err(invalid("ca, cert and key go with zookeepers://"));
        }
        let settings = Self {
            servers: url.servers.clone(),
            user: url.user.clone(),
            password: url.password.clone(),
            tls: is_encrypted.then_some(tls),
            root: root(&url.path)?,
            layout,
            session: session.unwrap_or(DEFAULT_SESSION),
            session_is_named: session.is_some(),
            timeout: options.duration("timeout")?.unwrap_or(2 * SECOND),
            connect_timeout: options.duration("connect_timeout")?.unwrap_or(5 * SECOND),
        };
        options.finish()?;
        Ok(settings)
    }

    /// Who may do what with new nodes: those with the same user and password, if there is one.
    pub(crate) fn access(&self) -> Access {
        match self.user {
            Some(_) => Access::Creator,
            None => Access::Open,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("servers", &self.servers)
            .field("root", &self.root)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The node of a path.
fn root(path: &str) -> Result<String> {
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Ok(DEFAULT_ROOT.to_owned());
    }
    let is_wrong = |part: &str| matches!(part, "" | "." | "..") || part.chars().any(is_refused);
    if path.split('/').any(is_wrong) || path.split('/').next() == Some("zookeeper") {
        return Err(invalid(
            "the path is that of a ZooKeeper node, such as /locks, and not below /zookeeper",
        ));
    }
    Ok(format!("/{path}"))
}

/// Whether ZooKeeper refuses a character in a path.
pub(super) fn is_refused(letter: char) -> bool {
    matches!(letter, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

const SECOND: Duration = Duration::from_secs(1);

/// As long as servers with default settings allow: 20 ticks of 2 s.
pub(crate) const DEFAULT_SESSION: Duration = Duration::from_secs(40);

const LONGEST_SESSION: Duration = Duration::from_secs(3600);

/// The root itself has nodes of ZooKeeper's own.
const DEFAULT_ROOT: &str = "/tenure";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_which_servers_and_where() {
        let url = "zookeeper://ann:p%40ss@a,b:7000/app/locks?session=8s&layout=readwrite";
        let settings = Settings::parse(url).unwrap();
        let servers: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["a:2181", "b:7000"]);
        assert_eq!(settings.root, "/app/locks");
        assert_eq!(settings.layout, Layout::ReadWrite);
        assert_eq!(settings.session, 8 * SECOND);
        assert_eq!(settings.password.as_deref(), Some("p@ss"));
        assert_eq!(settings.access(), Access::Creator);
        let usual = Settings::parse("zookeeper://h").unwrap();
        assert_eq!(usual.root, "/tenure");
        assert_eq!(
            (usual.session, usual.access()),
            (DEFAULT_SESSION, Access::Open)
        );
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for wrong in [
            "zookeeper://u:secret@h/a//b",
            "zookeeper://u:secret@h/a/../b",
            "zookeeper://u:secret@h/zookeeper/config",
            "zookeeper://:secret@h/a",
            "zookeeper://u:secret@h?session=2h",
            "zookeeper://u:secret@h?layout=etcd",
            "zookeeper://u:secret@h?ca=/a.pem",
            "zookeeper://u:secret@h?passwort=secret",
        ] {
            let error = Settings::parse(wrong).unwrap_err();
            assert!(matches!(error, crate::Error::InvalidUrl { .. }), "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let settings = Settings::parse("zookeeper://u:secret@h").unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
