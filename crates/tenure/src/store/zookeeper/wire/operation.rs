//! The operations of ZooKeeper that locks need: what is sent, and what comes back.

use super::jute::{Decoder, Encoder, Malformed};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Fails unless a node exists; only in a [`Multi`](Self::Multi).
    Check { path: String },
    /// Makes a node.
    Create {
        path: String,
        data: Vec<u8>,
        kind: NodeKind,
    },
    /// Deletes a node; any version of it if none is named.
    Delete { path: String, version: Option<i32> },
    /// Reads the children of a node.
    Children { path: String, watch: Watch },
    /// Reads a node.
    Data { path: String, watch: Watch },
    /// Replaces the data of a node; any version of them if none is named.
    SetData {
        path: String,
        data: Vec<u8>,
        version: Option<i32>,
    },
    /// Has the server catch up with the leader: what is read afterwards is no older than this request.
    Sync { path: String },
    /// Does all or nothing.
    Multi(Vec<Self>),
}

/// What kind of node to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Deleted by the server some time after its last child.
    Container,
    /// Ends with the session.
    Ephemeral,
    /// Ends with the session; the server appends a number that grows with each child of the parent.
    EphemeralSequential,
    /// Stays until it is deleted.
    Persistent,
}

/// Whether to be told once of the next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    No,
    Once,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A node was made, with this path.
    Created { path: String, stat: Stat },
    /// The names of the children, in any order.
    Children(Vec<String>),
    /// The data of a node.
    Data(Vec<u8>, Stat),
    /// The data of a node were replaced.
    Written(Stat),
    /// It was done, and there is nothing to say.
    Done,
}

/// What a server says about a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The number of the transaction that made it.
    pub(crate) czxid: i64,
    /// When it was made, by the leader's wall clock.
    pub(crate) ctime: i64,
    /// When its data were last written, by the leader's wall clock.
    pub(crate) mtime: i64,
    /// How often its data were written.
    pub(crate) version: i32,
    /// The session that it ends with, or 0.
    pub(crate) ephemeral_owner: i64,
}

/// Why a server refused an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

impl Code {
    pub(crate) const OK: Self = Self(0);
    /// Another operation of the same [`Operation::Multi`] failed.
    pub(crate) const RUNTIME_INCONSISTENCY: Self = Self(-2);
    pub(crate) const UNIMPLEMENTED: Self = Self(-6);
    pub(crate) const BAD_ARGUMENTS: Self = Self(-8);
    pub(crate) const NO_NODE: Self = Self(-101);
    pub(crate) const NO_AUTH: Self = Self(-102);
    pub(crate) const BAD_VERSION: Self = Self(-103);
    pub(crate) const NODE_EXISTS: Self = Self(-110);
    pub(crate) const NOT_EMPTY: Self = Self(-111);
    pub(crate) const SESSION_EXPIRED: Self = Self(-112);
    pub(crate) const INVALID_ACL: Self = Self(-114);
    pub(crate) const AUTH_FAILED: Self = Self(-115);
    pub(crate) const SESSION_MOVED: Self = Self(-118);
    pub(crate) const NOT_READ_ONLY: Self = Self(-119);
    pub(crate) const QUOTA_EXCEEDED: Self = Self(-125);
    pub(crate) const THROTTLED: Self = Self(-127);
}

/// Who may do what with a new node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody may do everything.
    Open,
    /// Those who say that they are the same as this client.
    Creator,
}

impl Operation {
    /// Whether the leader has to agree: an answer then proves that the session lives.
    pub(super) fn reaches_leader(&self) -> bool {
        match self {
            Self::Check { .. } | Self::Children { .. } | Self::Data { .. } => false,
            Self::Create { .. }
            | Self::Delete { .. }
            | Self::SetData { .. }
            | Self::Sync { .. }
            | Self::Multi(_) => true,
        }
    }

    pub(super) fn code(&self) -> i32 {
        match self {
            Self::Create { kind, .. } => match kind {
                NodeKind::Container => CREATE_CONTAINER,
                _ => CREATE2,
            },
            Self::Delete { .. } => DELETE,
            Self::Data { .. } => GET_DATA,
            Self::SetData { .. } => SET_DATA,
            Self::Children { .. } => GET_CHILDREN,
            Self::Sync { .. } => SYNC,
            Self::Check { .. } => CHECK,
            Self::Multi(_) => MULTI,
        }
    }

    pub(super) fn encode(&self, access: Access, to: &mut Encoder) {
        match self {
            Self::Check { path } => {
                to.text(path).int(ANY);
            }
            Self::Create { path, data, kind } => {
                to.text(path).bytes(data);
                encode_access(access, to);
                to.int(match kind {
                    NodeKind::Persistent => 0,
                    NodeKind::Ephemeral => 1,
                    NodeKind::EphemeralSequential => 3,
                    NodeKind::Container => 4,
                });
            }
            Self::Delete { path, version } => {
                to.text(path).int(version.unwrap_or(ANY));
            }
            Self::Children { path, watch } | Self::Data { path, watch } => {
                to.text(path).bool(*watch == Watch::Once);
            }
            Self::SetData {
                path,
                data,
                version,
            } => {
                to.text(path).bytes(data).int(version.unwrap_or(ANY));
            }
            Self::Sync { path } => {
                to.text(path);
            }
            Self::Multi(operations) => {
                for operation in operations {
                    to.int(operation.code()).bool(false).int(-1);
                    operation.encode(access, to);
                }
                to.int(-1).bool(true).int(-1);
            }
        }
    }

    /// Reads the answer to this operation, whose header says that it is fine.
    pub(super) fn decode(&self, from: &mut Decoder<'_>) -> Result<Result<Answer, Code>, Malformed> {
        let answer = match self {
            Self::Create { .. } => Answer::Created {
                path: from.text()?,
                stat: stat(from)?,
            },
            Self::Children { .. } => Answer::Children(from.texts()?),
            Self::Data { .. } => {
                let data = from.bytes()?.to_vec();
                Answer::Data(data, stat(from)?)
            }
            Self::SetData { .. } => Answer::Written(stat(from)?),
            Self::Multi(_) => return multi(from),
            Self::Check { .. } | Self::Delete { .. } | Self::Sync { .. } => Answer::Done,
        };
        Ok(Ok(answer))
    }
}

/// A failed multi has no error in its header: the errors stand in its body. The first one that is not due to another
/// operation of the same multi says why.
fn multi(from: &mut Decoder<'_>) -> Result<Result<Answer, Code>, Malformed> {
    let mut failed = None;
    loop {
        let (kind, is_done, _) = (from.int()?, from.bool()?, from.int()?);
        if is_done {
            return Ok(failed.map_or(Ok(Answer::Done), Err));
        }
        match kind {
            -1 => {
                let code = Code(from.int()?);
                if code != Code::OK && code != Code::RUNTIME_INCONSISTENCY {
                    failed.get_or_insert(code);
                }
            }
            CREATE2 => {
                from.text()?;
                stat(from)?;
            }
            CREATE => {
                from.text()?;
            }
            SET_DATA => {
                stat(from)?;
            }
            CHECK | DELETE => {}
            _ => return Err(Malformed),
        }
    }
}

fn encode_access(access: Access, to: &mut Encoder) {
    let (scheme, id) = match access {
        Access::Open => ("world", "anyone"),
        Access::Creator => ("auth", ""),
    };
    to.int(1).int(ALL_RIGHTS).text(scheme).text(id);
}

pub(super) fn stat(from: &mut Decoder<'_>) -> Result<Stat, Malformed> {
    let czxid = from.long()?;
    let _mzxid = from.long()?;
    let (ctime, mtime) = (from.long()?, from.long()?);
    let version = from.int()?;
    let (_cversion, _aversion) = (from.int()?, from.int()?);
    let ephemeral_owner = from.long()?;
    let (_length, _children, _pzxid) = (from.int()?, from.int()?, from.long()?);
    Ok(Stat {
        czxid,
        ctime,
        mtime,
        version,
        ephemeral_owner,
    })
}

/// Any version.
const ANY: i32 = -1;

/// Read, write, create, delete and administer.
const ALL_RIGHTS: i32 = 31;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const CHECK: i32 = 13;
const MULTI: i32 = 14;
const CREATE2: i32 = 15;
const CREATE_CONTAINER: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(parts: &[(i32, Option<i32>)]) -> Result<Answer, Code> {
        let mut encoder = Encoder::default();
        for (kind, code) in parts {
            encoder.int(*kind).bool(false).int(code.unwrap_or(0));
            if *kind == -1 {
                encoder.int(code.unwrap_or(0));
            }
        }
        encoder.int(-1).bool(true).int(-1);
        let bytes = encoder.packet_body();
        let multi = Operation::Multi(Vec::new());
        multi.decode(&mut Decoder::new(&bytes)).unwrap()
    }

    #[test]
    fn a_failed_multi_says_why_in_its_body() {
        assert_eq!(answer(&[(CHECK, None), (DELETE, None)]), Ok(Answer::Done));
        let failed = [(-1, Some(0)), (-1, Some(-101)), (-1, Some(-2))];
        assert_eq!(answer(&failed), Err(Code::NO_NODE));
    }
}
