//! Parses a URL into settings: the servers, how to log in, and the layout of locks.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Result;
use crate::schemes;
pub(crate) use crate::url::Host;
use crate::url::{Options, StoreUrl, invalid};

/// The settings of a Redis store, from its URL.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) servers: Servers,
    pub(crate) access: Access,
    pub(crate) tls: Option<Tls>,
    pub(crate) layout: Layout,
    /// The prefix of every key and channel.
    pub(crate) prefix: String,
    /// How many replicas have to confirm a grant, 0 for none.
    pub(crate) replicas: u32,
    /// How long replicas may take to confirm.
    pub(crate) replicas_timeout: Duration,
    /// How long a reply may take.
    pub(crate) timeout: Duration,
    /// How long connecting may take.
    pub(crate) connect_timeout: Duration,
    /// How long the last fence of a name is remembered after its last grant.
    pub(crate) fence_memory: Duration,
}

/// Where the servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Servers {
    /// One server.
    One(Host),
    /// One server on this machine.
    Socket(PathBuf),
    /// The master that sentinels name.
    Sentinel {
        /// The sentinels.
        hosts: Vec<Host>,
        /// The name of the master, as the sentinels know it.
        master: String,
        /// How to log in to the sentinels themselves.
        access: Access,
    },
    /// A cluster, given by some of its nodes.
    Cluster(Vec<Host>),
}

/// How to log in; `Debug` does not show passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
}

/// Certificates in addition to those of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// How a lock is stored in the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A hash with the owner as field, changed by scripts: all modes, a line, direct hand-over.
    Hash,
    /// A string that other libraries understand.
    String {
        /// Whether the server may be asked to run scripts.
        scripts: bool,
        /// Whether each grant gets a fence that grows.
        fences: bool,
    },
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Parses a URL of a Redis deployment.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](crate::Error::InvalidUrl) with what is wrong and what would be right; never
    /// quotes a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let url = StoreUrl::parse(url)?;
        let mut options = url.options();
        let layout = layout(&mut options)?;
        let mut settings = Self::of_server(&url, &mut options, layout)?;
        settings.replicas = options.number("replicas")?.unwrap_or(0);
        settings.replicas_timeout = options.duration("replicas_timeout")?.unwrap_or(SECOND);
        if layout != Layout::Hash && settings.replicas > 0 {
            return Err(invalid("replicas=… requires layout=hash"));
        }
        let sentinel = Access {
            user: options.text("sentinel_user"),
            password: options.text("sentinel_password"),
            database: 0,
        };
        if let Servers::Sentinel { access, .. } = &mut settings.servers {
            *access = sentinel;
        }
        options.finish()?;
        Ok(settings)
    }

    /// Parses a URL, and takes the options that apply to any Redis server.
    pub(crate) fn of_server(url: &StoreUrl, options: &mut Options, layout: Layout) -> Result<Self> {
        let (servers, database) = servers(url)?;
        let access = Access {
            user: url.user.clone(),
            password: url.password.clone(),
            database: options.number("db")?.unwrap_or(database),
        };
        if access.user.is_some() && access.password.is_none() {
            return Err(invalid(
                "a user needs a password: user:password@host; any password works for a user without one",
            ));
        }
        if matches!(servers, Servers::Cluster(_)) && access.database != 0 {
            return Err(invalid("a cluster has no databases but 0"));
        }
        let mut path = |key| options.text(key).map(PathBuf::from);
        let tls = Tls {
            ca: path("ca"),
            certificate: path("cert"),
            key: path("key"),
        };
        Ok(Self {
            servers,
            access,
            tls: is_encrypted(url)?.then_some(tls),
            layout,
            prefix: prefix(options, layout)?,
            replicas: 0,
            replicas_timeout: SECOND,
            timeout: options.duration("timeout")?.unwrap_or(2 * SECOND),
            connect_timeout: options.duration("connect_timeout")?.unwrap_or(2 * SECOND),
            fence_memory: options.duration("fence_memory")?.unwrap_or(3600 * SECOND),
        })
    }

    /// Returns how long a request waits for a connection.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout.min(self.connect_timeout)
    }

    /// Returns whether the store is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Returns where the store is, for messages; never contains a password.
    pub(crate) fn place(&self) -> String {
        let list = |hosts: &[Host]| {
            let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
            hosts.join(",")
        };
        match &self.servers {
            Servers::One(host) => host.to_string(),
            Servers::Socket(path) => path.display().to_string(),
            Servers::Sentinel { hosts, master, .. } => format!("{master} of {}", list(hosts)),
            Servers::Cluster(hosts) => list(hosts),
        }
    }
}

/// Returns the servers that a URL names, and the database in its path.
fn servers(url: &StoreUrl) -> Result<(Servers, i64)> {
    let (mut hosts, path) = (url.servers.clone(), url.path.as_str());
    let (_, kind) = family_and_kind(url);
    let (servers, database) = match kind {
        "unix" => (Servers::Socket(path.into()), ""),
        "cluster" => (Servers::Cluster(hosts), path),
        "sentinel" => {
            // The name may contain slashes: only a number after the last one is a database.
            let is_number = |text: &str| text.is_empty() || text.parse::<i64>().is_ok();
            let (master, database) = match path.rsplit_once('/') {
                Some((master, database)) if is_number(database) => (master, database),
                _ => (path, ""),
            };
            if master.is_empty() {
                return Err(invalid(
                    "a sentinel URL names the master: redis+sentinel://host1,host2/mymaster",
                ));
            }
            let (master, access) = (master.to_owned(), Access::default());
            let servers = Servers::Sentinel {
                hosts,
                master,
                access,
            };
            (servers, database)
        }
        _ => match (hosts.pop(), hosts.is_empty()) {
            (Some(host), true) => (Servers::One(host), path),
            _ => {
                return Err(invalid(
                    "redis:// names one server; several are redis+sentinel:// or redis+cluster://",
                ));
            }
        },
    };
    let database = match database {
        "" => Ok(0),
        number => number.parse(),
    };
    let wrong = "the path is the number of the database: redis://127.0.0.1/0";
    Ok((servers, database.map_err(|_| invalid(wrong))?))
}

/// Returns the parts of a scheme such as `redis+cluster`.
fn family_and_kind(url: &StoreUrl) -> (&str, &str) {
    url.scheme
        .split_once('+')
        .unwrap_or((url.scheme, url.scheme))
}

/// Returns whether the scheme means TLS, which this build must then support.
fn is_encrypted(url: &StoreUrl) -> Result<bool> {
    let (family, _) = family_and_kind(url);
    match matches!(family, "rediss" | "valkeys") {
        true if cfg!(not(feature = "redis-tls")) => Err(schemes::missing(url.scheme, "redis-tls")),
        encrypted => Ok(encrypted),
    }
}

fn layout(options: &mut Options) -> Result<Layout> {
    let (scripts, fences) = (options.switch("scripts")?, options.switch("fences")?);
    match options.text("layout").as_deref() {
        None | Some("hash") if !scripts || !fences => {
            Err(invalid("scripts=off and fences=off require layout=string"))
        }
        None | Some("hash") => Ok(Layout::Hash),
        Some("string") => Ok(Layout::String { scripts, fences }),
        Some(_) => Err(invalid("layout is hash or string")),
    }
}

fn prefix(options: &mut Options, layout: Layout) -> Result<String> {
    let usual = match layout {
        Layout::Hash => "tenure:",
        // The key is the name itself, so that other libraries find it.
        Layout::String { .. } => "",
    };
    let prefix = options.raw("prefix").unwrap_or_else(|| usual.to_owned());
    if prefix.contains(['{', '}']) || prefix.chars().any(char::is_control) {
        return Err(invalid(
            "the prefix has no braces and no control characters",
        ));
    }
    Ok(prefix)
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_server_has_a_host_a_port_a_user_and_a_database() {
        let settings = Settings::parse("redis://ann:p%40ss@redis.example:7000/3").unwrap();
        let host = Host {
            name: "redis.example".to_owned(),
            port: 7000,
        };
        assert_eq!(settings.servers, Servers::One(host));
        assert_eq!(settings.access.user.as_deref(), Some("ann"));
        assert_eq!(settings.access.password.as_deref(), Some("p@ss"));
        assert_eq!(settings.access.database, 3);
        assert_eq!(settings.prefix, "tenure:");
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let settings = Settings::parse("redis://").unwrap();
        assert_eq!(settings.place(), "127.0.0.1:6379");
        assert_eq!(settings.layout, Layout::Hash);
        assert_eq!(settings.replicas, 0);
        let settings = Settings::parse("rediss://:pw@[::1]/").unwrap();
        assert_eq!(settings.place(), "[::1]:6379");
        assert!(settings.tls.is_some());
        assert_eq!(settings.access.user, None);
    }

    #[test]
    fn sentinels_clusters_and_sockets_are_told_apart() {
        let sentinel =
            Settings::parse("redis+sentinel://a,b:5/main/2?sentinel_password=x").unwrap();
        assert_eq!(sentinel.place(), "main of a:26379,b:5");
        assert_eq!(sentinel.access.database, 2);
        for (path, master, database) in [
            ("a%2Fb", "a/b", 0),
            ("a%2Fb/", "a/b", 0),
            ("a%2Fb/3", "a/b", 3),
            ("a%2F3/0", "a/3", 0),
        ] {
            let sentinel = Settings::parse(&format!("redis+sentinel://h/{path}")).unwrap();
            assert_eq!(sentinel.place(), format!("{master} of h:26379"));
            assert_eq!(sentinel.access.database, database);
        }
        let cluster = Settings::parse("rediss+cluster://a:1,b:2").unwrap();
        assert!(cluster.is_cluster());
        let socket = Settings::parse("unix:/run/redis.sock?db=4").unwrap();
        assert_eq!(socket.servers, Servers::Socket("/run/redis.sock".into()));
        assert_eq!(socket.access.database, 4);
    }

    #[test]
    fn a_string_lock_has_the_key_that_its_name_says() {
        let settings = Settings::parse("redis://h?layout=string&fences=off").unwrap();
        assert_eq!(settings.prefix, "");
        let layout = Layout::String {
            scripts: true,
            fences: false,
        };
        assert_eq!(settings.layout, layout);
        let settings = Settings::parse("redis://h?layout=string&prefix=lock%3A").unwrap();
        assert_eq!(settings.prefix, "lock:");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for wrong in [
            "redis:/secret@h",
            "redis://u:secret@h:port",
            "redis://u:x?secret@h",
            "redis://secret@h",
            "redis://u:secret@h/database",
            "redis://u:secret@a,b",
            "redis://u:secret@h?timeout=5",
            "redis://u:secret@h?layout=list",
            "redis://u:secret@h?fences=off",
            "redis://u:secret@h?layout=string&replicas=1",
            "redis://u:secret@h?passwort=secret",
            "redis://u:secret@h?prefix=%7Ba",
            "redis+sentinel://u:secret@h",
            "redis+sentinel://u:secret@h//1",
            "redis+cluster://u:secret@h/1",
            "unix:secret",
        ] {
            let error = Settings::parse(wrong).unwrap_err();
            assert!(matches!(error, Error::InvalidUrl { .. }), "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown_by_debug() {
        let settings = Settings::parse("redis+sentinel://u:secret@h/m?sentinel_password=secret");
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
