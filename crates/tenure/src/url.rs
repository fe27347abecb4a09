//! URLs of stores: one parser for all of them, and one way to show them without passwords.
//!
//! ```
//! use tenure::url::StoreUrl;
//!
//! let mut url = StoreUrl::parse("redis://ann:secret@db.example/3?timeout=1s")?;
//! assert_eq!(url.servers[0].to_string(), "db.example:6379");
//! assert_eq!((url.user.as_deref(), url.path.as_str()), (Some("ann"), "3"));
//! url.set_option("prefix", "shop:");
//! assert_eq!(url.to_string(), "redis://ann:…@db.example/3?…");
//! assert_eq!(url.reveal(), "redis://ann:secret@db.example/3?timeout=1s&prefix=shop:");
//! # Ok::<(), tenure::Error>(())
//! ```

#[allow(dead_code, reason = "not every store has options")]
mod options;
mod redact;

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::{Error, Result};
use crate::schemes::{Form, Scheme};
pub(crate) use options::Options;
pub use redact::{redact, redact_all};

/// The parsed URL of a store.
///
/// | form | schemes |
/// |---|---|
/// | `scheme:text`, taken literally | `local`, `memory` |
/// | `scheme:/path?options` | `unix` |
/// | `scheme://user:password@host:port,host:port/path?options` | `redis` and others |
/// | `scheme://node,node?options`; each node is `user:password@host:port` or a whole URL, and may have `?options` of its own | `redlock` |
///
/// Reserved characters are written as `%` and two hexadecimal digits. `Display` and `Debug` show
/// neither passwords nor the values of options; [`reveal`](Self::reveal) does.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreUrl {
    /// What the URL begins with, without the colon.
    pub scheme: &'static str,
    /// The user, if one is named.
    pub user: Option<String>,
    /// The password, if there is one; keep it out of logs and messages.
    pub password: Option<String>,
    /// The servers; the default name is `127.0.0.1`, and each scheme has a default port.
    pub servers: Vec<Host>,
    /// What follows the servers, or the scheme if there are no servers.
    pub path: String,
    /// The URL of each node, with its own options.
    pub nodes: Vec<Self>,
    form: Form,
    options: Vec<(String, String)>,
}

/// The name or address of a server, and its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    /// The name or address, without brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

impl StoreUrl {
    /// Parses a URL of any scheme, including those of stores that were not compiled in.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](Error::InvalidUrl) with what is wrong and what would be right. Never quotes a
    /// password.
    pub fn parse(url: &str) -> Result<Self> {
        let (row, scheme, rest) = Scheme::of(url)?;
        let mut parsed = Self {
            scheme,
            form: row.form,
            user: None,
            password: None,
            servers: Vec::new(),
            path: String::new(),
            nodes: Vec::new(),
            options: Vec::new(),
        };
        match row.form {
            Form::Literal => parsed.path = rest.to_owned(),
            Form::Socket => {
                let (path, query) = split_query(rest);
                let path = path.strip_prefix("//").unwrap_or(path);
                if !path.starts_with('/') {
                    let example = row.example;
                    return Err(invalid(format!("a socket's path is absolute: {example}")));
                }
                parsed.path = decode(path)?;
                parsed.options = read_options(query)?;
            }
            form => {
                let Some(rest) = rest.strip_prefix("//") else {
                    let example = row.example;
                    return Err(invalid(format!("two slashes follow the scheme: {example}")));
                };
                match form {
                    Form::Nodes { scheme } => parsed.read_nodes(rest, scheme)?,
                    form => parsed.read_servers(rest, form.port())?,
                }
            }
        }
        Ok(parsed)
    }

    fn read_servers(&mut self, rest: &str, port: u16) -> Result<()> {
        let (place, query) = split_query(rest);
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let servers = match authority.rsplit_once('@') {
            Some((access, servers)) => {
                let (user, password) = access.split_once(':').unwrap_or((access, ""));
                self.user = not_empty(decode(user)?);
                self.password = not_empty(decode(password)?);
                servers
            }
            None => authority,
        };
        let servers = servers.split(',').map(|host| Host::parse(host, port));
        self.servers = servers.collect::<Result<_>>()?;
        self.path = decode(path)?;
        self.options = read_options(query)?;
        Ok(())
    }

    fn read_nodes(&mut self, rest: &str, scheme: &str) -> Result<()> {
        // Options for all nodes follow the last `?` of the last node.
        let last = rest.rfind(',').map_or(0, |comma| comma + 1);
        let (nodes, query) = match rest[last..].rfind('?') {
            Some(mark) => (&rest[..last + mark], &rest[last + mark + 1..]),
            None => (rest, ""),
        };
        self.options = read_options(query)?;
        let nodes = nodes.split(',').enumerate();
        let nodes = nodes.map(|(index, node)| in_node(index, Self::parse_node(node, scheme)));
        self.nodes = nodes.collect::<Result<_>>()?;
        Ok(())
    }

    fn parse_node(text: &str, scheme: &str) -> Result<Self> {
        let (place, query) = split_query(text);
        let place = place.trim_end_matches('/');
        if place.is_empty() {
            return Err(invalid("a node is missing between the commas"));
        }
        if place.contains("://") || place.starts_with("unix:") {
            // What looks like a scheme may be a part of a password, so it is not repeated.
            return match Scheme::of(place) {
                Ok((row, ..)) if matches!(row.form, Form::Servers { .. } | Form::Socket) => {
                    Self::parse(&format!("{place}?{query}"))
                }
                _ => Err(invalid("a node is a host, or the whole URL of one server")),
            };
        }
        if place.contains('/') {
            return Err(invalid(
                "a node has no path: a database is ?db=1 behind the last node for all, or behind one",
            ));
        }
        Self::parse(&format!("{scheme}://{place}?{query}"))
    }

    /// Returns the value of an option; for a URL with nodes, the value for all of them.
    pub fn option(&self, key: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Sets an option, and replaces an earlier value; for a URL with nodes, for all of them.
    ///
    /// Does not change the text of a URL that has no options (`local:`, `memory:`).
    pub fn set_option(&mut self, key: &str, value: &str) {
        self.options.retain(|(known, _)| known != key);
        self.options.push((key.to_owned(), value.to_owned()));
    }

    /// Returns all options, from which a store takes those that it knows.
    #[allow(dead_code, reason = "not every store has options")]
    pub(crate) fn options(&self) -> Options {
        Options::new(&self.options)
    }

    /// Returns the URL with its passwords, as [`open`](crate::open()) accepts it.
    pub fn reveal(&self) -> String {
        let scheme = self.scheme;
        match self.form {
            Form::Literal => format!("{scheme}:{}", self.path),
            Form::Socket => {
                // In a list of nodes, a whole URL is recognized by its slashes.
                let slashes = if scheme == "unix" { "" } else { "//" };
                let path = encode(&self.path, IN_PATH);
                format!("{scheme}:{slashes}{path}{}", self.query())
            }
            Form::Servers { .. } => {
                let path = match self.path.as_str() {
                    "" => String::new(),
                    path => format!("/{}", encode(path, IN_PATH)),
                };
                format!("{scheme}://{}{path}{}", self.authority(), self.query())
            }
            Form::Nodes { scheme: usual } => {
                let node = |node: &Self| match node.scheme == usual && node.path.is_empty() {
                    true => node.authority() + &node.query(),
                    false => node.reveal(),
                };
                let nodes: Vec<_> = self.nodes.iter().map(node).collect();
                let mut query = self.query();
                // Otherwise the options of the last node would be taken as options for all.
                if query.is_empty() && nodes.last().is_some_and(|last| last.contains('?')) {
                    query.push('?');
                }
                format!("{scheme}://{}{query}", nodes.join(","))
            }
        }
    }

    fn authority(&self) -> String {
        let user = encode(self.user.as_deref().unwrap_or_default(), IN_NAME);
        let access = match &self.password {
            Some(password) => format!("{user}:{}@", encode(password, IN_NAME)),
            None if user.is_empty() => user,
            None => user + "@",
        };
        let usual = format!(":{}", self.form.port());
        let server = |host: &Host| {
            let text = host.to_string();
            text.strip_suffix(&usual).unwrap_or(&text).to_owned()
        };
        let servers: Vec<_> = self.servers.iter().map(server).collect();
        access + &servers.join(",")
    }

    fn query(&self) -> String {
        let mut query = String::new();
        for (key, value) in &self.options {
            let mark = if query.is_empty() { '?' } else { '&' };
            query += &format!("{mark}{}={}", encode(key, IN_NAME), encode(value, IN_VALUE));
        }
        query
    }
}

/// Shows neither passwords nor the values of options.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.reveal()))
    }
}

/// Shows neither passwords nor the values of options.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl Host {
    fn parse(text: &str, usual_port: u16) -> Result<Self> {
        let wrong = || {
            invalid(format!(
                "a host looks like 127.0.0.1, db.example:{usual_port} or [::1]:{usual_port}"
            ))
        };
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| wrong())?,
            None if port.is_empty() => usual_port,
            None => return Err(wrong()),
        };
        let name = if name.is_empty() { "127.0.0.1" } else { name };
        Ok(Self {
            name: name.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

fn split_query(text: &str) -> (&str, &str) {
    text.split_once('?').unwrap_or((text, ""))
}

fn read_options(query: &str) -> Result<Vec<(String, String)>> {
    let mut options: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = (decode(key)?, decode(value)?);
        if options.iter().any(|(other, _)| *other == key) {
            return Err(invalid(format!("{key:?} is there twice")));
        }
        options.push((key, value));
    }
    Ok(options)
}

/// Names the node that an error is about by its position; its address may be a part of a password.
pub(crate) fn in_node<T>(index: usize, result: Result<T>) -> Result<T> {
    result.map_err(|error| match error {
        Error::InvalidUrl { reason } => invalid(format!("node {}: {reason}", index + 1)),
        other => other,
    })
}

pub(crate) fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| invalid("what stands behind % is not UTF-8"));
    Ok(decoded?.into_owned())
}

fn encode(text: &str, reserved: &'static AsciiSet) -> String {
    utf8_percent_encode(text, reserved).to_string()
}

fn not_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

pub(crate) fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidUrl {
        reason: reason.into(),
    }
}

/// Characters to encode in users, passwords and the names of options.
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const IN_PATH: &AsciiSet = &IN_NAME.remove(b'/');
const IN_VALUE: &AsciiSet = &IN_PATH.remove(b':');

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_url_has_servers_a_user_a_path_and_options() {
        let url = "redis+sentinel://ann:p%40ss@a,b:2182,[::1]:7/some/where?timeout=1s";
        let parsed = StoreUrl::parse(url).unwrap();
        let servers: Vec<_> = parsed.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["a:26379", "b:2182", "[::1]:7"]);
        assert_eq!(
            (parsed.user.as_deref(), parsed.password.as_deref()),
            (Some("ann"), Some("p@ss"))
        );
        assert_eq!(parsed.path, "some/where");
        assert_eq!(parsed.option("timeout"), Some("1s"));
        assert_eq!(parsed.reveal(), url);
    }

    #[test]
    fn what_is_literal_is_not_decoded() {
        for url in ["local:", "local:/a%20b?c", "memory:x?y=z@w"] {
            let parsed = StoreUrl::parse(url).unwrap();
            assert_eq!(url.split_once(':').unwrap().1, parsed.path);
            assert_eq!(parsed.to_string(), url);
        }
    }

    #[test]
    fn nodes_are_urls_with_options_of_their_own() {
        let url = "redlock://a,rediss://b:1/3,ann:secret@c:2?db=1?prefix=x:&drift=5%25";
        let mut parsed = StoreUrl::parse(url).unwrap();
        assert_eq!(parsed.reveal(), url);
        let nodes: Vec<_> = parsed.nodes.iter().map(StoreUrl::reveal).collect();
        assert_eq!(
            nodes,
            ["redis://a", "rediss://b:1/3", "redis://ann:secret@c:2?db=1"]
        );
        assert_eq!(parsed.option("drift"), Some("5%"));
        parsed.nodes[2].servers[0] = Host::parse("d:9", 0).unwrap();
        assert_eq!(parsed.reveal(), url.replace("c:2", "d:9"));
        // The options of the last node do not become those of all.
        parsed.options.clear();
        let again = StoreUrl::parse(&parsed.reveal()).unwrap();
        assert_eq!(again, parsed);
    }

    #[test]
    fn an_option_is_added_in_the_right_place() {
        let cases = [
            ("redis://a", "redis://a?x=1"),
            ("redis://a/2?y=2&x=0", "redis://a/2?y=2&x=1"),
            ("unix:/run/a", "unix:/run/a?x=1"),
            ("redlock://a?db=1,b", "redlock://a?db=1,b?x=1"),
        ];
        for (url, with) in cases {
            let mut parsed = StoreUrl::parse(url).unwrap();
            parsed.set_option("x", "1");
            assert_eq!(parsed.reveal(), with);
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for wrong in [
            "redis:/secret@h",
            "redis://u:secret@h:port",
            "redis://u:secret@[::1",
            "redis://u:secret@[::1]7",
            "redis://u:secret%FF@h",
            "redis://u:secret@h?a=secret&a=secret",
            "unix:secret",
            "redlock:secret",
            "redlock://u:secret@a,,b",
            "redlock://u:secret@a/1,b",
            "redlock://u:x,secret://y@z",
            "redlock://a,redlock://u:secret@b",
        ] {
            let error = StoreUrl::parse(wrong).unwrap_err();
            assert!(matches!(error, Error::InvalidUrl { .. }), "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_url_is_read_as_it_was_written(
            user in any::<String>(),
            password in "\\PC+",
            path in "([a-z%?, ]*/)*[a-z%@:]+",
            value in any::<String>(),
        ) {
            let mut url = StoreUrl::parse("redis://a:1,b").unwrap();
            url.user = not_empty(user);
            url.password = Some(password);
            url.path = path;
            url.set_option("x", &value);
            prop_assert_eq!(&StoreUrl::parse(&url.reveal()).unwrap(), &url);
            url.servers.truncate(1);
            let mut nodes = StoreUrl::parse("redlock://a").unwrap();
            nodes.nodes.push(url);
            prop_assert_eq!(StoreUrl::parse(&nodes.reveal()).unwrap(), nodes);
        }
    }
}
