//! The nodes of a lock: their names, which say everything that decides, and their data, which people read.
//!
//! `<root>/<name>/tenure_<claim>-<tags>-lock-<number>`: ZooKeeper appends the number, which decides the order. Curator
//! looks only at what follows the last `lock-`, and kazoo at what a pattern of its caller's finds, so the front is free.
//!
//! | tag | meaning |
//! |---|---|
//! | `x`, `s`, `p2.5` | exclusive, shared, 2 of 5 permits; always the first |
//! | `o…` | a hash of the owner |
//! | `w` | its holder wants to hear who else wants the name |
//! | `t` | a lease by hand, which ends by its ttl alone |
//! | `n` | nobody's: the name stays taken after a release |
//! | `f…` | the change that its fence is from, if not the one that made the node |

use serde::{Deserialize, Serialize};

use crate::driver::{About, Claim, Life, Mode};
use crate::name::ClaimId;
use crate::store::session::judge::Row;
use crate::store::session::segment;
use crate::store::zookeeper::settings::{Layout, is_refused};

/// A child of the node of a name, as its name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// The name of the child.
    pub(super) child: String,
    /// The number that ZooKeeper appended.
    pub(super) number: i32,
    pub(super) mode: Mode,
    pub(super) maker: Maker,
}

/// Who made a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Maker {
    Tenure(Tags),
    /// Curator, or a program that names its nodes as Curator does.
    Curator,
    Kazoo,
}

/// What only our own nodes have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tags {
    pub(super) claim: String,
    pub(super) owner: Option<u64>,
    pub(super) tells: bool,
    pub(super) kind: Kind,
    /// The change that its fence is from, if not the one that made the node.
    pub(super) change: Option<i64>,
}

/// What ends a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The session of its client.
    Client,
    /// Its ttl.
    Hand,
    /// Its ttl; it is held by nobody.
    Nobody,
}

impl Node {
    /// Reads the name of a child; `None` if it stands for no claim.
    pub(super) fn parse(child: &str) -> Option<Self> {
        let (front, marker, number) = MARKERS.iter().find_map(|marker| {
            let at = child.rfind(marker)?;
            let number = child[at + marker.len()..].parse().ok()?;
            Some((&child[..at], *marker, number))
        })?;
        let tenure = front.strip_prefix(PREFIX).and_then(Tags::parse);
        let (mode, maker) = match (tenure, marker) {
            (Some((mode, tags)), _) => (mode, Maker::Tenure(tags)),
            (None, READ) => (Mode::Shared, Maker::Curator),
            (None, KAZOO_READ) => (Mode::Shared, Maker::Kazoo),
            (None, KAZOO_LOCK) => (Mode::Exclusive, Maker::Kazoo),
            (None, _) => (Mode::Exclusive, Maker::Curator),
        };
        Some(Self {
            child: child.to_owned(),
            number,
            mode,
            maker,
        })
    }

    /// Reads the names of all children of a node, in the order of their places.
    pub(super) fn parse_all(children: &[String]) -> Vec<Self> {
        let nodes = children.iter().filter_map(|child| Self::parse(child));
        let mut nodes: Vec<_> = nodes.collect();
        let base = nodes.iter().map(|node| node.number).max().unwrap_or(0);
        nodes.sort_by_key(|node| place(node.number, base));
        nodes
    }

    pub(super) fn tags(&self) -> Option<&Tags> {
        match &self.maker {
            Maker::Tenure(tags) => Some(tags),
            Maker::Curator | Maker::Kazoo => None,
        }
    }

    /// Whether it is the node of this claim, and of this kind.
    pub(super) fn is_of(&self, claim: &ClaimId, kind: Kind) -> bool {
        self.tags()
            .is_some_and(|tags| tags.claim == claim.as_str() && tags.kind == kind)
    }

    /// Whether it ends by a ttl that somebody has to look at.
    pub(super) fn ends_by_ttl(&self) -> bool {
        self.tags().is_some_and(|tags| tags.kind != Kind::Client)
    }

    fn row(&self, base: i32) -> Row {
        let tags = self.tags();
        Row {
            place: place(self.number, base),
            owner: tags.and_then(|tags| tags.owner),
            mode: self.mode,
            is_nobodys: tags.is_some_and(|tags| tags.kind == Kind::Nobody),
        }
    }
}

/// The rows of nodes that are sorted.
pub(super) fn rows(nodes: &[Node]) -> Vec<Row> {
    let base = nodes.iter().map(|node| node.number).max().unwrap_or(0);
    nodes.iter().map(|node| node.row(base)).collect()
}

/// The place of a number, whose count goes on below zero after the largest.
fn place(number: i32, largest: i32) -> i64 {
    let wrapped = i64::from(largest) - i64::from(number) > i64::from(i32::MAX);
    i64::from(number) + if wrapped { 1 << 32 } else { 0 }
}

impl Tags {
    fn parse(front: &str) -> Option<(Mode, Self)> {
        let mut parts = front.strip_suffix('-')?.split('-');
        let claim = segment::decode(parts.next()?, is_refused_in_claims)?;
        let mode = parse_mode(parts.next()?)?;
        let mut tags = Self {
            claim: claim.as_str().to_owned(),
            owner: None,
            tells: false,
            kind: Kind::Client,
            change: None,
        };
        for part in parts {
            match part.split_at_checked(1)? {
                ("o", hash) => tags.owner = Some(u64::from_str_radix(hash, 16).ok()?),
                ("w", "") => tags.tells = true,
                ("t", "") => tags.kind = Kind::Hand,
                ("n", "") => tags.kind = Kind::Nobody,
                ("f", change) => tags.change = Some(i64::from_str_radix(change, 16).ok()?),
                // Of a later version.
                _ => {}
            }
        }
        Some((mode, tags))
    }

    /// The tags of a claim that asks.
    pub(super) fn of(claim: &Claim) -> Self {
        let owner = claim.owner.as_ref();
        Self {
            claim: claim.id.as_str().to_owned(),
            owner: owner.map(|owner| hash(owner.as_str())),
            tells: claim.tell_if_wanted && claim.life == Life::Client,
            kind: Kind::Client,
            change: None,
        }
    }

    /// The name of a node, up to the number.
    pub(super) fn front(&self, mode: Mode, layout: Layout) -> String {
        let claim = segment::encode(&self.claim, is_refused_in_claims);
        let mut front = format!("{PREFIX}{claim}-{}", mode_text(mode));
        if let Some(owner) = self.owner {
            front += &format!("-o{owner:x}");
        }
        if self.tells {
            front += "-w";
        }
        front += match self.kind {
            Kind::Client => "",
            Kind::Hand => "-t",
            Kind::Nobody => "-n",
        };
        if let Some(change) = self.change {
            front += &format!("-f{change:x}");
        }
        front + "-" + marker(mode, layout)
    }

    /// The name of a node with a number that was given out before.
    pub(super) fn child(&self, mode: Mode, layout: Layout, number: i32) -> String {
        // As ZooKeeper itself writes it.
        format!("{}{number:010}", self.front(mode, layout))
    }
}

/// What stands before the number.
fn marker(mode: Mode, layout: Layout) -> &'static str {
    match (layout, mode) {
        (Layout::Curator, _) => LOCK,
        (Layout::ReadWrite, Mode::Shared) => READ,
        (Layout::ReadWrite, _) => WRITE,
        (Layout::Kazoo, Mode::Shared) => KAZOO_READ,
        (Layout::Kazoo, _) => KAZOO_LOCK,
    }
}

fn mode_text(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "x".to_owned(),
        Mode::Shared => "s".to_owned(),
        Mode::Permits { take, of } => format!("p{take}.{of}"),
    }
}

fn parse_mode(text: &str) -> Option<Mode> {
    match text {
        "x" => Some(Mode::Exclusive),
        "s" => Some(Mode::Shared),
        _ => {
            let (take, of) = text.strip_prefix('p')?.split_once('.')?;
            let (take, of) = (take.parse().ok()?, of.parse().ok()?);
            Some(Mode::Permits { take, of })
        }
    }
}

/// Tags are divided by `-`.
fn is_refused_in_claims(letter: char) -> bool {
    letter == '-' || is_refused(letter)
}

/// FNV-1a: the same in every version and on every machine.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What the data of a node say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeData {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    pub(super) ttl_ms: u64,
    #[serde(flatten)]
    pub(super) about: About,
}

impl NodeData {
    pub(super) fn of(claim: &Claim) -> Self {
        Self {
            owner: claim.owner.as_ref().map(|owner| owner.as_str().to_owned()),
            ttl_ms: millis(claim.ttl),
            about: claim.about.clone(),
        }
    }

    pub(super) fn with_ttl(self, ttl: std::time::Duration) -> Self {
        let ttl_ms = millis(ttl);
        Self { ttl_ms, ..self }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        // Texts and numbers can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// A time as the nodes count it, rounded up.
fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

const PREFIX: &str = "tenure_";

const LOCK: &str = "lock-";
const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";
const KAZOO_LOCK: &str = "__lock__";
const KAZOO_READ: &str = "__rlock__";
const MARKERS: [&str; 5] = [LOCK, READ, WRITE, KAZOO_LOCK, KAZOO_READ];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Name, Owner};

    fn claim() -> Claim {
        Claim::new(Name::new("a").unwrap(), std::time::Duration::from_secs(1))
    }

    #[test]
    fn a_node_is_read_as_it_was_named() {
        let owner = Owner::named("ann").unwrap();
        let claim = claim().with_owner(owner).told_if_wanted();
        let mut tags = Tags::of(&claim);
        for layout in [Layout::Curator, Layout::ReadWrite, Layout::Kazoo] {
            for mode in [
                Mode::Exclusive,
                Mode::Shared,
                Mode::Permits { take: 2, of: 5 },
            ] {
                for (kind, change) in [
                    (Kind::Client, None),
                    (Kind::Hand, Some(7)),
                    (Kind::Nobody, None),
                ] {
                    (tags.kind, tags.change) = (kind, change);
                    let child = tags.child(mode, layout, 12);
                    assert!(child.ends_with("0000000012"), "{child}");
                    let node = Node::parse(&child).unwrap();
                    assert_eq!((node.number, node.mode), (12, mode));
                    assert_eq!(node.maker, Maker::Tenure(tags.clone()));
                }
            }
        }
    }

    #[test]
    fn ids_of_any_kind_are_told_apart() {
        for id in [
            "a-b",
            "lock-0000000001",
            "a/b",
            "%",
            "..",
            "🔒",
            "x-x-lock-0000000001",
        ] {
            let tags = Tags::of(&claim().with_id(ClaimId::new(id).unwrap()));
            let child = tags.child(Mode::Exclusive, Layout::Curator, 1);
            assert!(!child.contains('/'), "{child}");
            let node = Node::parse(&child).unwrap();
            assert_eq!(node.tags().unwrap().claim, id);
        }
    }

    #[test]
    fn foreign_nodes_are_known_by_their_marker() {
        let found = |child| Node::parse(child).map(|node| (node.maker, node.mode, node.number));
        let curator = "_c_8a2a3b1c-0e8b-4a7e-9f3d-0d5f1c2b3a49-lock-0000000003";
        assert_eq!(found(curator), Some((Maker::Curator, Mode::Exclusive, 3)));
        let read = "_c_8a2a3b1c-0e8b-4a7e-9f3d-0d5f1c2b3a49-__READ__0000000004";
        assert_eq!(found(read), Some((Maker::Curator, Mode::Shared, 4)));
        let kazoo = "8a2a3b1c0e8b4a7e9f3d0d5f1c2b3a49__lock__0000000005";
        assert_eq!(found(kazoo), Some((Maker::Kazoo, Mode::Exclusive, 5)));
        let kazoo = "8a2a3b1c0e8b4a7e9f3d0d5f1c2b3a49__rlock__0000000006";
        assert_eq!(found(kazoo), Some((Maker::Kazoo, Mode::Shared, 6)));
        for stray in ["", "leases", "lock-", "lock-x", "member_0000000001"] {
            assert_eq!(found(stray), None, "{stray}");
        }
    }

    #[test]
    fn the_count_goes_on_after_the_largest_number() {
        let child = |number: i32| format!("lock-{number:010}");
        let order = |numbers: &[i32]| {
            let children: Vec<_> = numbers.iter().map(|number| child(*number)).collect();
            let nodes = Node::parse_all(&children);
            nodes.iter().map(|node| node.number).collect::<Vec<_>>()
        };
        let last = [i32::MAX - 1, i32::MAX, i32::MIN, i32::MIN + 1];
        assert_eq!(order(&[last[3], last[0], last[2], last[1]]), last);
        assert_eq!(order(&[0, -1, 1, -2]), [-2, -1, 0, 1]);
    }

    #[test]
    fn data_are_text_that_people_read() {
        let data = NodeData::of(&claim());
        assert_eq!(NodeData::parse(&data.bytes()), Some(data));
        assert_eq!(NodeData::parse(b"127.0.0.1"), None);
    }
}
