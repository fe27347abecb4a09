//! What PostgreSQL's errors mean: the one place for it.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::store::sql::fault::{Fault, FaultKind};

/// Tells what a failed statement means.
///
/// An error that the server reports has undone the statement, unless the server is going down: then the
/// commit may have happened before. What else goes wrong on the way may have come too late.
pub(super) fn of(error: Error) -> Fault {
    let Some(db) = error.as_db_error() else {
        let is_closed = error.is_closed();
        let text = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        return match is_closed {
            true => Fault::new(FaultKind::Unknown, "the connection was closed"),
            false if is_lasting(&error) => Fault::new(FaultKind::Lasting, tls(&text)),
            false => Fault::new(FaultKind::Unknown, text),
        }
        .on_a_broken_connection();
    };
    let (kind, broken) = kind(db.code());
    let why = match advice(db.code()) {
        Some(advice) => format!("{advice} ({})", said(db)),
        None => said(db),
    };
    let fault = Fault::new(kind, why);
    match broken {
        true => fault.on_a_broken_connection(),
        false => fault,
    }
}

fn kind(code: &SqlState) -> (FaultKind, bool) {
    let conflicts = [
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::LOCK_NOT_AVAILABLE,
        // Two who make the same table.
        &SqlState::UNIQUE_VIOLATION,
        &SqlState::DUPLICATE_TABLE,
        &SqlState::DUPLICATE_OBJECT,
    ];
    if conflicts.contains(&code) {
        return (FaultKind::Conflict, false);
    }
    match code.code() {
        // The server goes down or ends this session, perhaps after it has committed.
        "57P01" | "57P02" | "57P05" => (FaultKind::Unknown, true),
        // It starts, is full, or is read-only; or the table or a statement is gone, as a new connection finds out.
        "57P03" | "53300" | "25006" | "42P01" | "0A000" | "26000" => (FaultKind::Refused, true),
        code if code.starts_with("08") => (FaultKind::Unknown, true),
        code if code.starts_with("28") || code.starts_with("3D") => (FaultKind::Lasting, true),
        // The statement was cancelled before it was done.
        "57014" => (FaultKind::Refused, false),
        // A right or a column is missing.
        code if code.starts_with("42") => (FaultKind::Lasting, true),
        _ => (FaultKind::Refused, false),
    }
}

/// Whether TLS failed, and not because of the connection: the server has none, or the wrong certificate.
fn is_lasting(error: &Error) -> bool {
    let mut cause = std::error::Error::source(error);
    let is_tls = error
        .to_string()
        .starts_with("error performing TLS handshake");
    while let Some(found) = cause {
        if let Some(io) = found.downcast_ref::<std::io::Error>() {
            return is_tls && io.kind() == std::io::ErrorKind::InvalidData;
        }
        cause = found.source();
    }
    is_tls
}

fn tls(text: &str) -> String {
    match text.contains("does not support TLS") {
        true => "the server does not speak TLS, leave out tls=on".to_owned(),
        false => text.to_owned(),
    }
}

/// What helps.
fn advice(code: &SqlState) -> Option<&'static str> {
    Some(match code.code() {
        "28P01" | "28000" => {
            "the user name or the password is wrong, or pg_hba.conf does not let the user in, or only with tls=on"
        }
        "3D000" => "there is no such database",
        "42501" => "the user lacks a right: `tenure doctor` prints the statement that gives it",
        "25006" => "the server is read-only: locks need the primary",
        "53300" => "the server has no connection left: raise max_connections, or use fewer",
        "57P03" => "the server is starting or stopping, try again soon",
        "42703" => "the table lacks a column: it was changed by hand, or by another version",
        _ => return None,
    })
}

fn said(db: &DbError) -> String {
    format!("{}, {}", db.message(), db.code().code())
}
