//! What the errors of MySQL and MariaDB mean: the one place for it.

use mysql_async::{DriverError, Error, IoError, ServerError};

use crate::store::sql::fault::{Fault, FaultKind};

/// Tells what a failed statement means.
///
/// An error that the server reports has undone the statement, unless the server ends the connection. What else
/// goes wrong on the way may have come too late.
pub(super) fn of(error: Error) -> Fault {
    match error {
        Error::Server(error) => of_server(&error),
        Error::Driver(DriverError::ConnectionClosed) => {
            Fault::new(FaultKind::Unknown, "the connection was closed").on_a_broken_connection()
        }
        Error::Driver(DriverError::NoClientSslFlagFromServer) => Fault::new(
            FaultKind::Lasting,
            "the server does not speak TLS, leave out tls=on",
        )
        .on_a_broken_connection(),
        Error::Io(error) => {
            let kind = match is_certificate(&error) {
                true => FaultKind::Lasting,
                false => FaultKind::Unknown,
            };
            Fault::new(kind, error.to_string()).on_a_broken_connection()
        }
        other => Fault::new(FaultKind::Unknown, other.to_string()).on_a_broken_connection(),
    }
}

/// Whether a row is there already.
pub(super) fn is_duplicate(error: &Error) -> bool {
    matches!(error, Error::Server(error) if error.code == 1062)
}

/// Whether a statement was interrupted, by `KILL QUERY` or because statements may not take so long.
pub(super) fn is_interrupted(error: &Error) -> bool {
    matches!(error, Error::Server(error) if matches!(error.code, 1317 | 1969 | 3024))
}

/// Whether the certificate of either side is not as it should be.
fn is_certificate(error: &IoError) -> bool {
    match error {
        IoError::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
        #[cfg(feature = "mysql-tls")]
        IoError::Tls(_) => true,
    }
}

fn of_server(error: &ServerError) -> Fault {
    let (kind, broken) = kind(error.code);
    let why = match advice(error.code) {
        Some(advice) => format!("{advice} ({}, {})", error.message, error.code),
        None => format!("{}, {}", error.message, error.code),
    };
    let fault = Fault::new(kind, why);
    match broken {
        true => fault.on_a_broken_connection(),
        false => fault,
    }
}

fn kind(code: u16) -> (FaultKind, bool) {
    match code {
        // A lock of the database, a statement that took too long for one, a deadlock, a row that changed, a table that others
        // make at this moment.
        1205 | 1969 | 1213 | 1020 | 1050 | 1062 | 3572 => (FaultKind::Conflict, false),
        // Full, read-only, not ready, or the table is gone.
        1040 | 1203 | 1226 | 1290 | 1792 | 1836 | 1146 | 1047 => (FaultKind::Refused, true),
        // A right, a password, a database or a column is missing.
        1044 | 1045 | 1049 | 1054 | 1130 | 1142 | 1143 | 1227 | 1370 | 1410 | 1698 | 3159 => {
            (FaultKind::Lasting, true)
        }
        // The server goes down, or ends this connection, perhaps after it has committed. A proxy that has lost the server
        // says so with the codes of clients.
        1053 | 1152..=1161 | 1077 | 1079 | 1184 | 1927 | 4031 | 2000..=2999 => {
            (FaultKind::Unknown, true)
        }
        // Interrupted, too long, and whatever else undoes a statement.
        _ => (FaultKind::Refused, false),
    }
}

/// What helps.
fn advice(code: u16) -> Option<&'static str> {
    Some(match code {
        1045 | 1698 => {
            "the user name or the password is wrong, or the user may come only with tls=on"
        }
        3159 => "the server speaks only TLS, add tls=on",
        1044 | 1142 | 1143 => {
            "the user lacks a right: `tenure doctor` prints the statement that gives it"
        }
        1049 => "there is no such database",
        1040 | 1203 | 1226 => {
            "the server has no connection left: raise max_connections, or use fewer"
        }
        1290 | 1792 | 1836 => "the server is read-only: locks need the primary",
        1054 => "the table lacks a column: it was changed by hand, or by another version",
        1047 => "the node is not part of its cluster's majority",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_has_lost_its_server_leaves_the_outcome_open() {
        // Lost connection, gone away, no connection.
        for code in [2013, 2006, 2003] {
            let error = ServerError {
                code,
                message: "Lost connection to backend server".to_owned(),
                state: "HY000".to_owned(),
            };
            let fault = of(Error::Server(error));
            assert_eq!((fault.kind, fault.broken), (FaultKind::Unknown, true));
        }
    }
}
