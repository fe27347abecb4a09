//! Maps errors of the client library and of the server to this crate's errors.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::error::{BoxError, Error, Lasting};

/// What is known after a fault, and what to do about the connection.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Whether to reconnect: the server is gone, or is no longer a master.
    pub(crate) reconnect: bool,
}

/// An error reply of a server, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{advice} ({code})")]
struct Refusal {
    code: String,
    advice: &'static str,
}

impl Fault {
    /// Maps the error of a request that was sent.
    ///
    /// If the server refused the command before it ran, nothing was changed. After any other error the
    /// request may have taken effect.
    pub(crate) fn of(error: RedisError) -> Self {
        let code = code_of(&error).unwrap_or_default().to_owned();
        let Some(advice) = advice(&code) else {
            // The error is kept as text, because the source of the client's error repeats it.
            let text = error.to_string();
            return Self {
                reconnect: error.kind() == ErrorKind::Io,
                error: if is_refused(&error) {
                    unavailable(text)
                } else {
                    indeterminate(text)
                },
            };
        };
        let ran = in_script(&error);
        let reconnect = matches!(code.as_str(), "READONLY" | "MASTERDOWN" | "NOAUTH");
        let lasts = lasts(&error);
        let refusal = cause(Refusal { code, advice }, lasts);
        Self {
            reconnect,
            error: if ran {
                indeterminate(refusal)
            } else {
                unavailable(refusal)
            },
        }
    }
}

/// Returns whether a node of a cluster did not execute or never received a request, so that it can be
/// sent to another node.
pub(crate) fn is_refused(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
    match error.kind() {
        ErrorKind::Server(kind) => matches!(kind, Ask | ClusterDown | Moved | TryAgain),
        // None of its nodes is connected.
        ErrorKind::ClusterConnectionNotFound => true,
        _ => false,
    }
}

/// Returns whether the server does not know a script, so that it has to be sent in full.
pub(crate) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Returns the error code of a reply.
///
/// Redis 7.0 sends no code if the user may not run a command inside a script.
fn code_of(error: &RedisError) -> Option<&str> {
    let detail = error.detail().unwrap_or_default();
    if detail.starts_with("The user executing the script") {
        return Some("NOPERM");
    }
    error.code()
}

/// Returns whether an error came from a command inside a script: the commands before it took effect.
///
/// A script's first write and its reads are refused before anything is changed, but the error alone
/// does not say which command it was.
fn in_script(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    let refused_before = ["READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN"];
    detail.contains("script: ") && !refused_before.contains(&error.code().unwrap_or_default())
}

/// Explains an error code and what to do about it; `None` if the request may have taken effect.
fn advice(code: &str) -> Option<&'static str> {
    Some(match code {
        "READONLY" => "the server is a replica, and locks need its master",
        "LOADING" => "the server is still loading its data, try again soon",
        "BUSY" => "a script blocks the server, end it with SCRIPT KILL",
        "OOM" => "the server is out of memory: raise maxmemory or free some",
        "MISCONF" => "the server cannot save to disk and so refuses writes: see its log",
        "NOREPLICAS" => "too few replicas are connected for min-replicas-to-write",
        "MASTERDOWN" => "the server is a replica that has lost its master",
        "NOAUTH" => "a password is needed: write user:password@ before the host",
        "WRONGPASS" => "the user name or the password is wrong",
        "NOPERM" => "the user lacks a permission: `tenure doctor` prints the line that is needed",
        "WRONGTYPE" => "the key belongs to something else: choose another prefix or name",
        "CLUSTERDOWN" => "a part of the cluster is down",
        "TRYAGAIN" | "MOVED" | "ASK" => "the slot is moving to another node, try again soon",
        "CROSSSLOT" => "the keys of a lock are in different slots",
        "NOSCRIPT" => "the server forgot a script again and again",
        _ => return None,
    })
}

pub(crate) fn unavailable(source: impl Into<BoxError>) -> Error {
    Error::unavailable(DRIVER, source)
}

pub(crate) fn indeterminate(source: impl Into<BoxError>) -> Error {
    Error::indeterminate(DRIVER, source)
}

/// Returns the error for a reply that no script sends.
pub(crate) fn garbled() -> Error {
    indeterminate("unexpected reply of the server")
}

/// Explains why a connection cannot be made.
fn why_unreachable(encrypted: bool, error: &RedisError) -> String {
    let known = match error.kind() {
        ErrorKind::RESP3NotSupported => Some("tenure needs Redis 6.2 or newer"),
        ErrorKind::AuthenticationFailed => advice("WRONGPASS"),
        ErrorKind::Parse => Some("the server did not reply in the Redis protocol"),
        _ => None,
    };
    match code_of(error).and_then(advice).or(known) {
        Some(known) => known.to_owned(),
        None => format!("{error}{}", hint(encrypted, error)),
    }
}

/// Suggests a cause for an I/O error: TLS on one side only.
///
/// A server without TLS takes the handshake for an incomplete command and waits for its end. A server
/// with TLS closes the connection.
fn hint(encrypted: bool, error: &RedisError) -> &'static str {
    match encrypted {
        true if error.is_timeout() => {
            "; if this port is not encrypted, leave the s out of rediss://"
        }
        true if error.to_string().contains("UnknownIssuer") => {
            "; name the file of its authority with ca="
        }
        false if error.is_connection_dropped() && !error.is_connection_refusal() => {
            "; if this port is encrypted, write rediss://"
        }
        _ => "",
    }
}

/// Why there is no connection, for every request that fails because of it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Trouble {
    why: Arc<str>,
    lasts: bool,
}

impl Trouble {
    /// Describes why a connection cannot be made.
    pub(crate) fn of(place: &str, encrypted: bool, error: &RedisError) -> Self {
        Self {
            why: format!(
                "no connection to {place}: {}",
                why_unreachable(encrypted, error)
            )
            .into(),
            lasts: lasts(error),
        }
    }

    pub(crate) fn error(&self) -> Error {
        unavailable(cause(self.clone(), self.lasts))
    }
}

/// Returns whether the error persists until somebody changes a setting.
fn lasts(error: &RedisError) -> bool {
    let code = code_of(error).unwrap_or_default();
    let kinds = [
        ErrorKind::AuthenticationFailed,
        ErrorKind::InvalidClientConfig,
        ErrorKind::MasterNameNotFoundBySentinel,
        ErrorKind::Parse,
        ErrorKind::RESP3NotSupported,
    ];
    ["CROSSSLOT", "NOAUTH", "NOPERM", "WRONGPASS", "WRONGTYPE"].contains(&code)
        || kinds.contains(&error.kind())
        // The database does not exist; this error has no code.
        || error.to_string().contains("DB index is out of range")
}

fn cause(why: impl Into<BoxError>, lasts: bool) -> BoxError {
    match lasts {
        true => Box::new(Lasting(why.into())),
        false => why.into(),
    }
}

pub(crate) const DRIVER: &str = "redis";

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_somebody_has_to_change_does_not_pass() {
        let cases = [
            ("LOADING Redis is loading the dataset in memory", true),
            ("BUSY Redis is busy running a script", true),
            (
                "OOM command not allowed when used memory > 'maxmemory'",
                true,
            ),
            ("READONLY You can't write against a read only replica", true),
            ("WRONGPASS invalid username-password pair", false),
            ("NOAUTH Authentication required", false),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command",
                false,
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                false,
            ),
        ];
        for (said, passes) in cases {
            let line = format!("-{said}\r\n");
            let error = || {
                let refusal = redis::parse_redis_value(line.as_bytes()).unwrap();
                refusal.extract_error().unwrap_err()
            };
            assert_eq!(Fault::of(error()).error.may_pass(), passes, "{said}");
            let unreachable = Trouble::of("a:1", false, &error()).error();
            assert_eq!(unreachable.may_pass(), passes, "{said}");
        }
        let no_database = redis::parse_redis_value(b"-ERR DB index is out of range\r\n");
        let no_database = no_database.unwrap().extract_error().unwrap_err();
        assert!(!Trouble::of("a:1", false, &no_database).error().may_pass());
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused).into();
        assert!(Trouble::of("a:1", false, &refused).error().may_pass());
    }

    #[test]
    fn a_hint_is_given_where_it_may_help() {
        let cases = [
            (io::ErrorKind::ConnectionReset, false, "write rediss://"),
            (io::ErrorKind::UnexpectedEof, false, "write rediss://"),
            (io::ErrorKind::TimedOut, true, "leave the s out"),
        ];
        for (kind, encrypted, said) in cases {
            let why = why_unreachable(encrypted, &io::Error::from(kind).into());
            assert!(why.contains(said), "{why}");
            let other = why_unreachable(!encrypted, &io::Error::from(kind).into());
            assert!(!other.contains("rediss://"), "{other}");
        }
        for encrypted in [false, true] {
            let refused = io::Error::from(io::ErrorKind::ConnectionRefused).into();
            let why = why_unreachable(encrypted, &refused);
            assert!(!why.contains("rediss://"), "{why}");
        }
    }
}
