//! From a URL to settings: which servers, how to get in, and how locks are laid out.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};

/// Everything that a URL says about a Redis store.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) servers: Servers,
    pub(crate) access: Access,
    pub(crate) tls: Option<Tls>,
    pub(crate) layout: Layout,
    /// What every key and channel begins with.
    pub(crate) prefix: String,
    /// How many replicas have to confirm a grant, 0 for none.
    pub(crate) replicas: u32,
    /// How long they have for it.
    pub(crate) replicas_timeout: Duration,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
    /// How long getting a connection may take.
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
        /// What they call the master.
        master: String,
        /// How to get in to the sentinels themselves.
        access: Access,
    },
    /// A cluster, by some of its nodes.
    Cluster(Vec<Host>),
}

/// A server's name and port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// How to get in; passwords are not shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
}

/// Certificates besides the machine's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// How a lock looks in the server.
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

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(key, _)| key))
            .finish()
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') {
            write!(f, "[{name}]:{port}")
        } else {
            write!(f, "{name}:{port}")
        }
    }
}

impl Settings {
    /// Reads a URL whose scheme is one of [`SCHEMES`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`] with what is wrong and what would be right; never quotes a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        Self::read(place, &Options::parse(query)?)
    }

    /// The same for a URL whose options stand apart.
    pub(crate) fn read(place: &str, options: &Options) -> Result<Self> {
        let (scheme, rest) = place.split_once(':').unwrap_or((place, ""));
        let (tls, kind) = kind_of(scheme)?;
        let mut parts = Parts::split(rest, kind)?;
        let tls = tls.then(|| Tls {
            ca: options.path("ca"),
            certificate: options.path("cert"),
            key: options.path("key"),
        });
        let servers = match kind {
            Kind::One => Servers::One(parts.only_host()?),
            Kind::Socket => Servers::Socket(parts.path.clone().into()),
            Kind::Cluster => Servers::Cluster(std::mem::take(&mut parts.hosts)),
            Kind::Sentinel => {
                let master = parts.path.clone();
                if master.is_empty() {
                    return Err(invalid(
                        "a sentinel URL names the master: redis+sentinel://host1,host2/mymaster",
                    ));
                }
                Servers::Sentinel {
                    hosts: std::mem::take(&mut parts.hosts),
                    master,
                    access: Access {
                        user: options.text("sentinel_user"),
                        password: options.text("sentinel_password"),
                        database: 0,
                    },
                }
            }
        };
        let access = Access {
            user: parts.user,
            password: parts.password,
            database: options.number("db")?.unwrap_or(parts.database),
        };
        if matches!(servers, Servers::Cluster(_)) && access.database != 0 {
            return Err(invalid("a cluster has no databases but 0"));
        }
        let layout = options.layout()?;
        let string = matches!(layout, Layout::String { .. });
        let settings = Self {
            servers,
            access,
            tls,
            layout,
            prefix: options.prefix(string)?,
            replicas: options.number("replicas")?.unwrap_or(0),
            replicas_timeout: options.time("replicas_timeout")?.unwrap_or(SECOND),
            timeout: options.time("timeout")?.unwrap_or(2 * SECOND),
            connect_timeout: options.time("connect_timeout")?.unwrap_or(2 * SECOND),
            fence_memory: options.time("fence_memory")?.unwrap_or(3600 * SECOND),
        };
        if string && settings.replicas > 0 {
            return Err(invalid("replicas=… goes with layout=hash alone"));
        }
        options.only(&KNOWN)?;
        Ok(settings)
    }

    /// How long a request waits for a connection.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout.min(self.connect_timeout)
    }

    /// Whether the store is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Whether all that is said is.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Where the store is, for messages: no password.
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

/// Whether the scheme means TLS, and which kind of deployment it names.
fn kind_of(scheme: &str) -> Result<(bool, Kind)> {
    Ok(match scheme {
        "redis" | "valkey" => (false, Kind::One),
        "rediss" | "valkeys" => (true, Kind::One),
        "unix" | "redis+unix" => (false, Kind::Socket),
        "redis+sentinel" => (false, Kind::Sentinel),
        "rediss+sentinel" => (true, Kind::Sentinel),
        "redis+cluster" => (false, Kind::Cluster),
        "rediss+cluster" => (true, Kind::Cluster),
        _ => return Err(invalid(&format!("{scheme:?} is not a scheme for Redis"))),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Socket,
    Sentinel,
    Cluster,
}

/// What stands between the scheme and the options.
#[derive(Debug, Default)]
struct Parts {
    user: Option<String>,
    password: Option<String>,
    hosts: Vec<Host>,
    /// The socket's path, or the sentinels' name of the master.
    path: String,
    database: i64,
}

impl Parts {
    fn split(rest: &str, kind: Kind) -> Result<Self> {
        let mut parts = Self::default();
        if kind == Kind::Socket {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err(invalid(
                    "a socket's path is absolute: unix:/run/redis/redis.sock",
                ));
            }
            parts.path = decode(path)?;
            return Ok(parts);
        }
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(invalid(
                "two slashes follow the scheme: redis://127.0.0.1:6379/",
            ));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = match authority.rsplit_once('@') {
            Some((access, hosts)) => {
                let (user, password) = access.split_once(':').unwrap_or((access, ""));
                parts.user = some(decode(user)?);
                parts.password = some(decode(password)?);
                if parts.user.is_some() && parts.password.is_none() {
                    return Err(invalid(
                        "a password follows the user: user:password@host; any will do for one who needs none",
                    ));
                }
                hosts
            }
            None => authority,
        };
        let port = if kind == Kind::Sentinel { 26379 } else { 6379 };
        parts.hosts = hosts
            .split(',')
            .map(|host| Host::parse(host, port))
            .collect::<Result<_>>()?;
        let (path, database) = match kind {
            Kind::Sentinel => path.split_once('/').unwrap_or((path, "")),
            _ => ("", path),
        };
        parts.path = decode(path)?;
        if !database.is_empty() {
            let number = database.parse().map_err(|_| {
                invalid("the path is the number of the database: redis://127.0.0.1/0")
            });
            parts.database = number?;
        }
        Ok(parts)
    }

    fn only_host(&mut self) -> Result<Host> {
        if self.hosts.len() > 1 {
            return Err(invalid(
                "redis:// names one server; several are redis+sentinel:// or redis+cluster://",
            ));
        }
        // There is at least one: an empty list splits into one empty text.
        self.hosts.pop().ok_or_else(|| invalid("a host is missing"))
    }
}

impl Host {
    fn parse(text: &str, port: u16) -> Result<Self> {
        let wrong = || invalid("a host looks like 127.0.0.1:6379, redis.example or [::1]:6379");
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']').ok_or_else(wrong)?;
                match rest.strip_prefix(':') {
                    Some(port) => (name, port.parse().map_err(|_| wrong())?),
                    None if rest.is_empty() => (name, port),
                    None => return Err(wrong()),
                }
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name, port.parse().map_err(|_| wrong())?),
                None => (text, port),
            },
        };
        let name = if name.is_empty() { "127.0.0.1" } else { name };
        Ok(Self {
            name: name.to_owned(),
            port,
        })
    }
}

/// What follows the question mark; values are not shown by `Debug`, as some are passwords.
pub(crate) struct Options(Vec<(String, String)>);

impl Options {
    pub(crate) fn parse(query: &str) -> Result<Self> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let mut options = Vec::new();
        for pair in pairs {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decode(key)?, decode(value)?);
            if options.iter().any(|(other, _)| *other == key) {
                return Err(invalid(&format!("{key:?} is there twice")));
            }
            options.push((key, value));
        }
        Ok(Self(options))
    }

    /// These options, and of the others those that are not among them.
    pub(crate) fn or(&self, others: &Self) -> Self {
        let keys: Vec<_> = self.0.iter().map(|(key, _)| key.as_str()).collect();
        let mut all = others.without(&keys);
        all.0.extend(self.0.iter().cloned());
        all
    }

    pub(crate) fn without(&self, keys: &[&str]) -> Self {
        let rest = self
            .0
            .iter()
            .filter(|(key, _)| !keys.contains(&key.as_str()));
        Self(rest.cloned().collect())
    }

    /// Refuses options that are not known.
    pub(crate) fn only(&self, known: &[&str]) -> Result<()> {
        let unknown = |(key, _): &&(String, String)| !known.contains(&key.as_str());
        match self.0.iter().find(unknown) {
            Some((key, _)) if key.contains('@') => Err(invalid(
                "a ? in a password is written %3F: options follow the first one that is not",
            )),
            // Only the key: a value may be a password.
            Some((key, _)) => Err(invalid(&format!(
                "there is no option {key:?}; known: {}",
                known.join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// Returns whether one of these is there.
    pub(crate) fn has_any(&self, keys: &[&str]) -> bool {
        self.0.iter().any(|(key, _)| keys.contains(&key.as_str()))
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.and_then(|(_, value)| some(value.clone()))
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>> {
        let number = self.text(key).map(|text| text.parse());
        number
            .transpose()
            .map_err(|_| invalid(&format!("{key} is a number")))
    }

    pub(crate) fn time(&self, key: &str) -> Result<Option<Duration>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let wrong = || invalid(&format!("{key} is a time such as 500ms, 2s or 1h"));
        let digits = text.trim_end_matches(char::is_alphabetic);
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let unit = match &text[digits.len()..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        let time = Duration::from_millis(number.checked_mul(unit).ok_or_else(wrong)?);
        if time.is_zero() || time > LONGEST {
            return Err(invalid(&format!("{key} is between 1ms and 8760h")));
        }
        Ok(Some(time))
    }

    fn switch(&self, key: &str) -> Result<bool> {
        match self.text(key).as_deref() {
            None | Some("on") => Ok(true),
            Some("off") => Ok(false),
            Some(_) => Err(invalid(&format!("{key} is on or off"))),
        }
    }

    fn layout(&self) -> Result<Layout> {
        let (scripts, fences) = (self.switch("scripts")?, self.switch("fences")?);
        match self.text("layout").as_deref() {
            None | Some("hash") if !scripts || !fences => Err(invalid(
                "scripts=off and fences=off go with layout=string alone",
            )),
            None | Some("hash") => Ok(Layout::Hash),
            Some("string") => Ok(Layout::String { scripts, fences }),
            Some(_) => Err(invalid("layout is hash or string")),
        }
    }

    /// A string lock has the very key that its name says, so that other libraries find it.
    fn prefix(&self, string: bool) -> Result<String> {
        let found = self.0.iter().find(|(key, _)| key == "prefix");
        let prefix = match found {
            Some((_, prefix)) => prefix.clone(),
            None if string => String::new(),
            None => "tenure:".to_owned(),
        };
        if prefix.contains(['{', '}']) || prefix.chars().any(char::is_control) {
            return Err(invalid(
                "the prefix has no braces and no control characters",
            ));
        }
        Ok(prefix)
    }
}

fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Into::into)
        .map_err(|_| invalid("what stands behind % is not UTF-8"))
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

pub(crate) fn invalid(reason: &str) -> Error {
    Error::InvalidUrl {
        reason: reason.to_owned(),
    }
}

const KNOWN: [&str; 15] = [
    "ca",
    "cert",
    "connect_timeout",
    "db",
    "fence_memory",
    "fences",
    "key",
    "layout",
    "prefix",
    "replicas",
    "replicas_timeout",
    "scripts",
    "sentinel_password",
    "sentinel_user",
    "timeout",
];

const SECOND: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

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
