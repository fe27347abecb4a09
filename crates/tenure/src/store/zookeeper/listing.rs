//! Who holds a name and who waits for it, and how an operator takes it away.

use std::time::Duration;

use crate::driver::{About, Entry, Holder, Life, Waiter};
use crate::error::{Error, Result};
use crate::name::{ClaimId, Fence, Name, Owner};
use crate::store::session::fence::fence_of;
use crate::store::session::judge::judge;
use crate::store::session::segment;
use crate::store::zookeeper::by_hand::left_of;
use crate::store::zookeeper::core::{Core, ServerClock, children, data, delete, nodes_in};
use crate::store::zookeeper::fault;
use crate::store::zookeeper::node::{Kind, Maker, Node, NodeData, rows};
use crate::store::zookeeper::settings::is_refused;
use crate::store::zookeeper::wire::{Answer, Code, NodeKind, Operation, Stat, Watch};

/// A node, and what is written in it.
struct Read {
    node: Node,
    bytes: Vec<u8>,
    stat: Stat,
}

impl Core {
    /// Lists who holds and who waits.
    pub(super) async fn list(&self, only: Option<&Name>) -> Result<Vec<Entry>> {
        let names = match only {
            Some(name) => vec![name.clone()],
            None => self.names().await?,
        };
        let mut entries = Vec::new();
        for batch in names.chunks(BATCH) {
            let parents: Vec<_> = batch.iter().map(|name| self.parent(name)).collect();
            let lists = parents
                .iter()
                .map(|path| children(path, Watch::No))
                .collect();
            let answers = self.fly(lists).await?.answers;
            for ((name, path), listed) in batch.iter().zip(&parents).zip(answers) {
                let nodes = nodes_in(listed, path)?;
                if nodes.is_empty() {
                    continue;
                }
                let (holders, waiters) = self.read_line(name, nodes).await?;
                let entry = self.entry(name, &holders, &waiters).await?;
                if !entry.is_empty() {
                    entries.push(entry);
                }
            }
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    async fn names(&self) -> Result<Vec<Name>> {
        let root = &self.settings.root;
        match self.one(children(root, Watch::No)).await? {
            Ok(Answer::Children(found)) => {
                let names = found
                    .iter()
                    .filter_map(|name| segment::decode(name, is_refused));
                Ok(names.collect())
            }
            Ok(_) | Err(Code::NO_NODE) => Ok(Vec::new()),
            Err(code) => Err(fault::refused(code, root)),
        }
    }

    /// Reads the nodes of a name: those that hold it, oldest first, and those that wait.
    async fn read_line(&self, name: &Name, nodes: Vec<Node>) -> Result<(Vec<Read>, Vec<Read>)> {
        let reads = nodes
            .iter()
            .map(|node| data(&self.path(name, &node.child), Watch::No));
        let answers = self.fly(reads.collect()).await?.answers;
        let mut line = Vec::new();
        for (node, answer) in nodes.into_iter().zip(answers) {
            // One that has gone meanwhile does not count.
            if let Ok(Answer::Data(bytes, stat)) = answer {
                line.push(Read { node, bytes, stat });
            }
        }
        if line.iter().any(|read| read.node.ends_by_ttl()) {
            let now = self.server_now().await?;
            line.retain(|read| {
                !read.node.ends_by_ttl() || left_of(&read.bytes, read.stat, now).is_some()
            });
        }
        let nodes: Vec<_> = line.iter().map(|read| read.node.clone()).collect();
        let rows = rows(&nodes);
        let waiters = line.split_off(judge(&rows));
        let mut places = rows.iter().map(|row| row.place);
        let mut holders: Vec<_> = line.into_iter().map(|read| (places.next(), read)).collect();
        // Those that share a place came one after the other.
        holders.sort_by_key(|(place, read)| (*place, read.stat.czxid));
        let holders = holders.into_iter().map(|(_, read)| read).collect();
        Ok((holders, waiters))
    }

    async fn entry(&self, name: &Name, holders: &[Read], waiters: &[Read]) -> Result<Entry> {
        let mut entry = Entry::new(name.clone());
        let now = self.server_now().await?;
        entry.holders = self.holders(name, holders, now);
        entry.waiters = waiters.iter().map(|read| read.waiter(now)).collect();
        Ok(entry)
    }

    fn holders(&self, name: &Name, holders: &[Read], now: i64) -> Vec<Holder> {
        let owners: Vec<_> = holders.iter().map(Read::owner).collect();
        let own = self.claims.of(name);
        let listed = holders.iter().enumerate().map(|(index, read)| {
            let is_same = |other: &&Owner| **other == owners[index];
            let depth = owners.iter().filter(is_same).count();
            let mut holder = read.holder(now, u32::try_from(depth).unwrap_or(u32::MAX));
            // What this client knows better than the store: it renews without telling.
            let mut own = own.iter();
            let own = own.find(|entry| entry.child.as_deref() == Some(&read.node.child));
            if let Some(held) = own.and_then(|entry| entry.held()) {
                let now = self.clock.now();
                holder.held = now.since(held.since);
                holder.expires_in = held.ends.since(now);
            }
            holder
        });
        listed.collect()
    }

    /// Takes a name away from all its holders, and returns them.
    pub(super) async fn evict(&self, name: &Name) -> Result<Vec<Holder>> {
        for _ in 0..ATTEMPTS {
            let nodes = self.fresh_nodes(name).await?;
            let (holders, _) = self.read_line(name, nodes).await?;
            if holders.is_empty() {
                return Ok(Vec::new());
            }
            let paths = holders.iter().map(|read| self.path(name, &read.node.child));
            let deletes = paths.map(|path| delete(&path, None)).collect();
            let now = self.server_now().await?;
            let evicted = self.holders(name, &holders, now);
            match self.one(Operation::Multi(deletes)).await? {
                Ok(_) => return Ok(evicted),
                // One of them has left by itself.
                Err(Code::NO_NODE) => {}
                Err(code) => return Err(fault::refused(code, &self.parent(name))),
            }
        }
        let why = "the holders change faster than they can be evicted";
        Err(Error::unavailable(super::KIND, why))
    }

    /// Returns the leader's wall clock, in milliseconds since 1970, by a write that leaves nothing behind.
    ///
    /// The fastest of a few answers is the most exact. It is good for a while, by our own clock.
    pub(super) async fn server_now(&self) -> Result<i64> {
        let mut known = self.server_clock.lock().await;
        let is_fresh = |known: &ServerClock| self.clock.now().since(known.at) < CLOCK_GOOD_FOR;
        if known.as_ref().is_none_or(|known| !is_fresh(known)) {
            *known = self.read_server_clock().await?;
        }
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(match *known {
            Some(clock) => clock.millis + millis(self.clock.now().since(clock.at)),
            // This user may not write there; what is shown is then as good as this machine's clock.
            None => wall.map_or(0, millis),
        })
    }

    async fn read_server_clock(&self) -> Result<Option<ServerClock>> {
        let mut best: Option<(Duration, ServerClock)> = None;
        for _ in 0..CLOCK_TRIES {
            let unique = crate::random::random_u128();
            // No name is written like this.
            let path = format!("{}/%clock-{unique:032x}", self.settings.root);
            let create = Operation::Create {
                path: path.clone(),
                data: Vec::new(),
                kind: NodeKind::Ephemeral,
            };
            let sent = self.clock.now();
            let answers = self.fly(vec![create, delete(&path, None)]).await?.answers;
            let took = self.clock.now().since(sent);
            let Some(Ok(Answer::Created { stat, .. })) = answers.first() else {
                return Ok(None);
            };
            let at = sent + took / 2;
            let clock = ServerClock {
                millis: stat.ctime,
                at,
            };
            if best.as_ref().is_none_or(|(fastest, _)| took < *fastest) {
                best = Some((took, clock));
            }
            if took < EXACT {
                break;
            }
        }
        Ok(best.map(|(_, clock)| clock))
    }
}

impl Read {
    fn fence(&self) -> Fence {
        let change = self.node.tags().and_then(|tags| tags.change);
        let fence = fence_of(change.unwrap_or(self.stat.czxid));
        // Too large to be one of ours; it is only shown.
        fence.unwrap_or_else(|| Fence::new(u64::MAX).unwrap_or_else(|| unreachable!("not zero")))
    }

    fn claim(&self) -> ClaimId {
        match self.node.tags() {
            Some(tags) => ClaimId::stored(&tags.claim),
            None => ClaimId::stored(&self.node.child),
        }
    }

    fn owner(&self) -> Owner {
        let program = match &self.node.maker {
            Maker::Tenure(tags) => {
                let named = NodeData::parse(&self.bytes).and_then(|data| data.owner);
                return Owner::shown(named.as_deref().unwrap_or(&tags.claim));
            }
            Maker::Curator => "curator",
            Maker::Kazoo => "kazoo",
        };
        Owner::shown(&format!("{program}/{}", self.node.child))
    }

    /// Who that is. Curator writes the address of its machine, and kazoo what its caller chose.
    fn about(&self) -> About {
        if self.node.tags().is_some()
            && let Some(data) = NodeData::parse(&self.bytes)
        {
            return data.about;
        }
        let text = String::from_utf8_lossy(&self.bytes);
        let text: String = text
            .chars()
            .filter(|letter| !letter.is_control())
            .take(200)
            .collect();
        match (&self.node.maker, text.as_str()) {
            (Maker::Tenure(_), _) => About::new("", 0),
            (Maker::Curator, host) => About::new(host, 0).with_reason("a Curator program"),
            (Maker::Kazoo, "") => About::new("", 0).with_reason("a kazoo program"),
            (Maker::Kazoo, text) => {
                About::new("", 0).with_reason(&format!("a kazoo program: {text}"))
            }
        }
    }

    fn holder(&self, now: i64, depth: u32) -> Holder {
        let kind = self.node.tags().map(|tags| tags.kind);
        let age = since(self.stat.ctime, now);
        let expires_in = match kind {
            Some(Kind::Hand | Kind::Nobody) => {
                left_of(&self.bytes, self.stat, now).unwrap_or_default()
            }
            // Renewals are not written: a lease that lives is renewed at each third of its ttl.
            Some(Kind::Client) => {
                let ttl = NodeData::parse(&self.bytes).map_or(0, |data| data.ttl_ms);
                let ttl = Duration::from_millis(ttl);
                let third = (ttl / 3).max(Duration::from_millis(1));
                let passed = age.as_millis() % third.as_millis().max(1);
                ttl.saturating_sub(Duration::from_millis(u64::try_from(passed).unwrap_or(0)))
            }
            None => Duration::ZERO,
        };
        Holder {
            claim: self.claim(),
            owner: self.owner(),
            mode: self.node.mode,
            fence: self.fence(),
            depth: if kind == Some(Kind::Nobody) { 0 } else { depth },
            life: if kind == Some(Kind::Hand) {
                Life::Ttl
            } else {
                Life::Client
            },
            about: self.about(),
            held: age,
            expires_in,
        }
    }

    fn waiter(&self, now: i64) -> Waiter {
        Waiter {
            claim: self.claim(),
            owner: self.owner(),
            mode: self.node.mode,
            about: self.about(),
            waited: since(self.stat.ctime, now),
        }
    }
}

fn since(then: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(then)).unwrap_or(0))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How many names are listed at once.
const BATCH: usize = 200;

/// How often an eviction is tried that others disturb.
const ATTEMPTS: usize = 16;

/// How long a reading of the leader's clock is used.
const CLOCK_GOOD_FOR: Duration = Duration::from_secs(10);

const CLOCK_TRIES: usize = 3;

/// An answer so fast needs no better one.
const EXACT: Duration = Duration::from_millis(5);
