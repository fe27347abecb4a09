//! What goes wrong at ZooKeeper, told apart by what is known afterwards and what helps.

use crate::error::{BoxError, Error, Lasting};
use crate::store::zookeeper::KIND;
use crate::store::zookeeper::wire::{Code, Unanswered};

/// The error for requests that were not answered.
pub(super) fn unanswered(fault: Unanswered) -> Error {
    match fault {
        Unanswered::NotSent(source) => Error::unavailable(KIND, source),
        Unanswered::Unknown(source) => Error::indeterminate(KIND, source),
    }
}

/// The error for a request that the server refused, and that changed nothing.
pub(super) fn refused(code: Code, path: &str) -> Error {
    let why = match code {
        Code::NO_AUTH => format!("this user has not all rights on {path} (-102, NoAuth)"),
        Code::INVALID_ACL => "the server does not know this user (-114, InvalidACL)".to_owned(),
        Code::AUTH_FAILED => "the server refused the user or the password (-115)".to_owned(),
        Code::UNIMPLEMENTED => "the server is too old, 3.5.3 is needed (-6)".to_owned(),
        Code::BAD_ARGUMENTS => format!("the server does not accept the path {path} (-8)"),
        Code::QUOTA_EXCEEDED => format!("the quota of {path} is used up (-125)"),
        Code::THROTTLED => "the server has too much to do (-127)".to_owned(),
        Code::NOT_READ_ONLY => "the server is read-only (-119)".to_owned(),
        Code(other) => format!("the server refused a request for {path} ({other})"),
    };
    let lasts = matches!(
        code,
        Code::NO_AUTH
            | Code::INVALID_ACL
            | Code::AUTH_FAILED
            | Code::UNIMPLEMENTED
            | Code::BAD_ARGUMENTS
    );
    let source: BoxError = match lasts {
        true => Box::new(Lasting(why.into())),
        false => why.into(),
    };
    Error::unavailable(KIND, source)
}

/// The error for something that cannot be, whatever became of the request.
pub(super) fn in_doubt(why: &'static str) -> Error {
    Error::indeterminate(KIND, why)
}
