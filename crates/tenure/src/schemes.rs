//! The table of all schemes: which stores exist, and which were compiled in.

use std::pin::Pin;
use std::sync::Arc;

#[cfg(feature = "doctor")]
use crate::doctor::Finding;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::store;

/// A kind of URL that [`open`](crate::open()) accepts.
#[derive(Debug)]
#[non_exhaustive]
pub struct Scheme {
    /// What the URL begins with, without the colon: the usual name first, then its aliases.
    pub names: &'static [&'static str],
    /// An example of such a URL.
    pub example: &'static str,
    /// What it stands for, in a few words.
    pub summary: &'static str,
    /// The feature of this crate that adds the store; empty if it is always available.
    pub feature: &'static str,
    pub(crate) form: Form,
    store: Option<Store>,
}

/// What follows the scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Anything at all, taken literally.
    Literal,
    /// `/path?options`
    Socket,
    /// `//user:password@host:port,host:port/path?options`, with the default port of hosts without
    /// one.
    Servers { port: u16 },
    /// `//node,node?options`: each node is a host or a whole URL, and may have its own options. A
    /// node that is not a whole URL has this scheme.
    Nodes { scheme: &'static str },
}

impl Form {
    /// Returns the port of a server that names none.
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Servers { port } => port,
            Self::Literal | Self::Socket | Self::Nodes { .. } => 0,
        }
    }
}

/// The functions of a store that was compiled in; each gets the whole URL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Store {
    pub(crate) open: fn(&str) -> Pending<'_, Arc<dyn Driver>>,
    #[cfg(feature = "doctor")]
    pub(crate) doctor: fn(&str) -> Pending<'_, Vec<Finding>>,
}

type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Returns all schemes, including those of stores that were not compiled in.
pub fn schemes() -> &'static [Scheme] {
    SCHEMES
}

impl Scheme {
    /// Returns whether the store was compiled in.
    pub fn is_available(&self) -> bool {
        self.store.is_some()
    }

    /// Finds the scheme of a URL; also returns how the URL spells it, and what follows the colon.
    pub(crate) fn of(url: &str) -> Result<(&'static Self, &'static str, &str)> {
        let known = || {
            let prefixes: Vec<_> = SCHEMES.iter().map(Self::prefix).collect();
            prefixes.join(", ")
        };
        let Some((scheme, rest)) = url.split_once(':') else {
            let reason = format!("the URL of a store begins with one of {}", known());
            return Err(Error::InvalidUrl { reason });
        };
        for row in SCHEMES {
            if let Some(name) = row.names.iter().find(|name| **name == scheme) {
                return Ok((row, name, rest));
            }
        }
        // What follows the scheme may contain a password, so it is not repeated.
        let reason = format!("no store has the scheme {scheme:?}; known: {}", known());
        Err(Error::InvalidUrl { reason })
    }

    /// Returns the store of a URL.
    pub(crate) fn store(url: &str) -> Result<Store> {
        let (scheme, name, _) = Self::of(url)?;
        scheme.store.ok_or_else(|| missing(name, scheme.feature))
    }

    /// Returns what a URL of this scheme begins with.
    fn prefix(&self) -> String {
        let slashes = match self.form {
            Form::Literal | Form::Socket => "",
            Form::Servers { .. } | Form::Nodes { .. } => "//",
        };
        format!("{}:{slashes}", self.names[0])
    }
}

/// Returns the error for a store that was not compiled in.
pub(crate) fn missing(scheme: &str, feature: &str) -> Error {
    let hint = match feature {
        "local" if cfg!(not(target_os = "linux")) => " on Linux".to_owned(),
        // The command always includes these.
        "local" | "redis" => String::new(),
        _ => {
            let of_command = if feature.ends_with("-tls") {
                "tls"
            } else {
                feature
            };
            format!(
                "; build the command `tenure` with --features {of_command}, or full for everything"
            )
        }
    };
    Error::InvalidUrl {
        reason: format!(
            "the scheme {scheme:?} needs the feature {feature:?} of the crate tenure{hint}"
        ),
    }
}

/// Returns what follows the colon, if anything.
fn literal(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once(':')?;
    (!rest.is_empty()).then_some(rest)
}

/// Makes a store if a condition holds at compile time.
macro_rules! store {
    ($condition:meta, open: |$url:ident| $open:expr, doctor: |$again:ident| $doctor:expr,) => {{
        #[cfg($condition)]
        {
            Some(Store {
                open: |$url| Box::pin($open),
                #[cfg(feature = "doctor")]
                doctor: |$again| Box::pin($doctor),
            })
        }
        #[cfg(not($condition))]
        None
    }};
}

const MEMORY: Option<Store> = store!(
    all(),
    open: |url| async move {
        let memory = literal(url).map_or_else(store::memory::Memory::new, store::memory::Memory::shared);
        Ok(Arc::new(memory) as _)
    },
    doctor: |_url| async { Ok(store::memory::doctor()) },
);

const LOCAL: Option<Store> = store!(
    all(feature = "local", target_os = "linux"),
    open: |url| async move {
        let folder = literal(url).map(std::path::Path::new);
        Ok(Arc::new(store::local::Local::open(folder).await?) as _)
    },
    doctor: |url| store::local::doctor(literal(url).map(std::path::Path::new)),
);

const REDIS: Option<Store> = store!(
    feature = "redis",
    open: |url| store::redis::open(url),
    doctor: |url| store::redis::doctor(url),
);

const REDLOCK: Option<Store> = store!(
    feature = "redis",
    open: |url| store::redlock::open(url),
    doctor: |url| store::redlock::doctor(url),
);

const POSTGRES: Option<Store> = store!(
    feature = "postgres",
    open: |url| store::postgres::open(url),
    doctor: |url| store::postgres::doctor(url),
);

const MYSQL: Option<Store> = store!(
    feature = "mysql",
    open: |url| store::mysql::open(url),
    doctor: |url| store::mysql::doctor(url),
);

const ZOOKEEPER: Option<Store> = store!(
    feature = "zookeeper",
    open: |url| store::zookeeper::open(url),
    doctor: |url| store::zookeeper::doctor(url),
);

const ZOOKEEPER_TLS: Option<Store> = match cfg!(feature = "zookeeper-tls") {
    true => ZOOKEEPER,
    false => None,
};

const fn if_tls(store: Option<Store>) -> Option<Store> {
    if cfg!(feature = "redis-tls") {
        store
    } else {
        None
    }
}

use Form::{Literal, Nodes, Servers, Socket};

#[rustfmt::skip]
static SCHEMES: &[Scheme] = &[
    Scheme { names: &["local"], feature: "local", store: LOCAL, form: Literal,
        example: "local:/some/directory", summary: "this machine, no server; local: is the user's own directory" },
    Scheme { names: &["memory"], feature: "", store: MEMORY, form: Literal,
        example: "memory:label", summary: "this process, for tests; memory: is this client alone" },
    Scheme { names: &["redis", "valkey"], feature: "redis", store: REDIS, form: Servers { port: 6379 },
        example: "redis://host:6379/0", summary: "a Redis or Valkey server" },
    Scheme { names: &["rediss", "valkeys"], feature: "redis-tls", store: if_tls(REDIS), form: Servers { port: 6379 },
        example: "rediss://host:6379/0", summary: "the same with TLS" },
    Scheme { names: &["unix", "redis+unix"], feature: "redis", store: REDIS, form: Socket,
        example: "unix:/run/redis/redis.sock", summary: "a Redis or Valkey server by its socket" },
    Scheme { names: &["redis+sentinel", "rediss+sentinel"], feature: "redis", store: REDIS, form: Servers { port: 26379 },
        example: "redis+sentinel://host1,host2/mymaster", summary: "the master that sentinels name; rediss+sentinel:// with TLS" },
    Scheme { names: &["redis+cluster", "rediss+cluster"], feature: "redis", store: REDIS, form: Servers { port: 6379 },
        example: "redis+cluster://host1,host2", summary: "a Redis Cluster; rediss+cluster:// with TLS" },
    Scheme { names: &["redlock"], feature: "redis", store: REDLOCK, form: Nodes { scheme: "redis" },
        example: "redlock://host1,host2,host3", summary: "a majority of independent Redis servers" },
    Scheme { names: &["redlocks"], feature: "redis-tls", store: if_tls(REDLOCK), form: Nodes { scheme: "rediss" },
        example: "redlocks://host1,host2,host3", summary: "the same with TLS" },
    Scheme { names: &["mysql", "mariadb"], feature: "mysql", store: MYSQL, form: Servers { port: 3306 },
        example: "mysql://user:secret@host/database", summary: "a table in MySQL or MariaDB" },
    Scheme { names: &["postgres", "postgresql"], feature: "postgres", store: POSTGRES, form: Servers { port: 5432 },
        example: "postgres://user:secret@host/database", summary: "a table in PostgreSQL" },
    Scheme { names: &["zookeeper"], feature: "zookeeper", store: ZOOKEEPER, form: Servers { port: 2181 },
        example: "zookeeper://host1,host2,host3/locks", summary: "a ZooKeeper ensemble; Curator and kazoo can share the locks" },
    Scheme { names: &["zookeepers"], feature: "zookeeper-tls", store: ZOOKEEPER_TLS, form: Servers { port: 2281 },
        example: "zookeepers://host1,host2,host3/locks", summary: "the same with TLS" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_example_is_of_its_own_scheme() {
        for scheme in schemes() {
            let (found, name, _) = Scheme::of(scheme.example).unwrap();
            assert_eq!((found.example, name), (scheme.example, scheme.names[0]));
            assert!(scheme.example.starts_with(&scheme.prefix()), "{scheme:?}");
        }
    }

    #[test]
    fn no_name_stands_for_two_schemes() {
        let mut names: Vec<_> = schemes().iter().flat_map(|row| row.names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_table_in_the_docs_of_open_has_every_scheme() {
        let docs = include_str!("open.rs");
        for row in schemes() {
            let prefix = row.prefix();
            assert!(docs.contains(&format!("`{prefix}")), "{prefix}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_answered_with_the_known_ones() {
        let error = |url| Scheme::store(url).unwrap_err().to_string();
        let known = "local:, memory:, redis://, rediss://, unix:, redis+sentinel://, \
                     redis+cluster://, redlock://, redlocks://, mysql://, postgres://, \
                     zookeeper://, zookeepers://";
        assert!(error("nonsense").ends_with(known), "{}", error("nonsense"));
        let gopher = error("gopher://ann:secret@x");
        assert!(
            gopher.ends_with(known) && gopher.contains("\"gopher\""),
            "{gopher}"
        );
        assert!(!gopher.contains("secret"), "{gopher}");
    }

    #[test]
    fn a_store_that_was_left_out_says_which_feature_is_missing() {
        let error = missing("redis", "redis").to_string();
        let said = "the scheme \"redis\" needs the feature \"redis\" of the crate tenure";
        assert!(error.ends_with(said), "{error}");
        let error = missing("rediss", "redis-tls").to_string();
        assert!(error.contains("--features tls"), "{error}");
    }
}
