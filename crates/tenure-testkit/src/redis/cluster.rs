//! A Redis cluster, created by the commands that `redis-cli --cluster` sends.

use super::builder::RedisBuilder;
use super::server::RedisServer;
use super::slot::SLOTS;
use crate::error::{Error, Result};
use crate::port::Port;
use crate::wait;

/// A cluster of Redis servers on loopback ports.
///
/// The first servers become masters, those after them replicas: with three masters, server 3 is a
/// replica of server 0, server 4 of server 1, and so on. Failovers change that; ask
/// [`master_of`](Self::master_of).
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
    password: Option<String>,
    /// The ports by which the servers talk to each other.
    bus: Vec<Port>,
}

/// A slot that is being moved from one master to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the move is not done until it is finished"]
pub struct SlotMove {
    slot: u16,
    from: usize,
    to: usize,
}

impl RedisCluster {
    /// Starts this many masters, each with this many replicas, and returns once all agree that the
    /// cluster is healthy.
    ///
    /// # Errors
    ///
    /// Those of [`RedisBuilder::start`]; also if the servers do not agree.
    pub fn start(masters: usize, replicas_each: usize) -> Result<Self> {
        Self::start_with(masters, replicas_each, &RedisServer::builder())
    }

    /// Starts a cluster in which each server has these options.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn start_with(
        masters: usize,
        replicas_each: usize,
        options: &RedisBuilder,
    ) -> Result<Self> {
        let count = masters * (1 + replicas_each);
        let mut cluster = Self {
            servers: Vec::with_capacity(count),
            password: options.password.clone(),
            bus: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let bus = Port::free()?;
            let server = options
                .clone()
                .config("cluster-enabled yes")
                .config(&format!("cluster-port {}", bus.number()))
                .config(&format!("cluster-node-timeout {NODE_TIMEOUT_MS}"))
                .config("cluster-replica-validity-factor 0")
                .start()?;
            cluster.servers.push(server);
            cluster.bus.push(bus);
        }
        cluster.form(masters)?;
        Ok(cluster)
    }

    /// Returns the URLs of all servers, including those that do not run.
    pub fn nodes(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// Returns all servers.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns a server.
    ///
    /// # Panics
    ///
    /// If there is no server with this index.
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }

    /// Returns a server, to kill it or to restart it.
    ///
    /// # Panics
    ///
    /// If there is no server with this index.
    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// Returns which server is the master of a slot; the slot of a key is
    /// [`slot_of`](super::slot_of) it.
    ///
    /// Each server is asked about itself. If two claim the slot, as an old master does until it
    /// learns of the new one, the later claim counts.
    ///
    /// # Errors
    ///
    /// If no running server claims the slot.
    pub fn master_of(&self, slot: u16) -> Result<usize> {
        let claims =
            (0..self.servers.len()).filter_map(|index| Some((self.claim(index, slot)?, index)));
        claims
            .max()
            .map(|(_, index)| index)
            .ok_or_else(|| Error::Answer {
                command: "CLUSTER NODES".into(),
                text: format!("no server claims slot {slot}"),
            })
    }

    /// Waits until a server other than `old` is the master of a slot, and all running servers
    /// agree.
    ///
    /// # Errors
    ///
    /// If it takes too long.
    pub fn wait_for_new_master(&self, slot: u16, old: usize) -> Result<usize> {
        let new = wait::until(format!("slot {slot} has a new master"), || {
            match self.master_of(slot) {
                Ok(index) if index != old => Ok(index),
                Ok(_) => Err("the old one has it".into()),
                Err(error) => Err(format!("{error:?}")),
            }
        })?;
        self.wait_until_agreed(slot, new)?;
        Ok(new)
    }

    /// Promotes a replica in place of its master, which must be running; returns once all running
    /// servers agree.
    ///
    /// # Errors
    ///
    /// If the replica refuses, or it takes too long.
    pub fn failover(&self, replica: usize) -> Result<()> {
        let master = self.master_id_of(replica)?;
        let slot = self.first_slot_of(&master)?;
        self.server(replica).command(&["CLUSTER", "FAILOVER"])?;
        self.wait_until_agreed(slot, replica)
    }

    /// Moves a slot with all its keys to another master.
    ///
    /// # Errors
    ///
    /// Those of the three steps.
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<()> {
        let moving = self.begin_move(slot, to)?;
        self.move_keys(moving)?;
        self.finish_move(moving)
    }

    /// Starts to move a slot: from now on the old master replies `ASK` for keys that it does not
    /// have.
    ///
    /// # Errors
    ///
    /// If `to` is not a master, or already has the slot.
    pub fn begin_move(&self, slot: u16, to: usize) -> Result<SlotMove> {
        let from = self.master_of(slot)?;
        let (text, from_id, to_id) = (slot.to_string(), self.id(from)?, self.id(to)?);
        self.server(to)
            .command(&["CLUSTER", "SETSLOT", &text, "IMPORTING", &from_id])?;
        self.server(from)
            .command(&["CLUSTER", "SETSLOT", &text, "MIGRATING", &to_id])?;
        Ok(SlotMove { slot, from, to })
    }

    /// Moves the keys that are currently in the slot.
    ///
    /// # Errors
    ///
    /// If a server refuses.
    pub fn move_keys(&self, moving: SlotMove) -> Result<()> {
        let from = self.server(moving.from);
        let (slot, port) = (
            moving.slot.to_string(),
            self.server(moving.to).plain_port().to_string(),
        );
        loop {
            let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])?;
            let keys: Vec<String> = keys.parts().iter().map(ToString::to_string).collect();
            if keys.is_empty() {
                return Ok(());
            }
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            if let Some(password) = &self.password {
                command.extend(["AUTH", password]);
            }
            command.push("KEYS");
            command.extend(keys.iter().map(String::as_str));
            from.command(&command)?;
        }
    }

    /// Assigns the slot to its new master, and returns once all running servers agree.
    ///
    /// # Errors
    ///
    /// If keys are left behind, or a server refuses.
    pub fn finish_move(&self, moving: SlotMove) -> Result<()> {
        let (slot, id) = (moving.slot.to_string(), self.id(moving.to)?);
        // The new master first: if this stops halfway, somebody has the slot.
        for index in [moving.to, moving.from] {
            self.server(index)
                .command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id])?;
        }
        self.wait_until_agreed(moving.slot, moving.to)
    }

    /// Joins servers that do not know each other yet.
    fn form(&self, masters: usize) -> Result<()> {
        // Different epochs from the start, because servers with the same epoch would have to settle
        // who is first. A server accepts an epoch only while it knows no other server.
        for (index, server) in self.servers.iter().enumerate() {
            let epoch = (index + 1).to_string();
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        }
        // Each server meets each other directly, because gossip takes seconds.
        for (index, server) in self.servers.iter().enumerate() {
            for (other, bus) in self.servers.iter().zip(&self.bus).skip(index + 1) {
                let (port, bus) = (other.plain_port().to_string(), bus.number().to_string());
                server.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
        }
        let share = |index: usize| index * usize::from(SLOTS) / masters;
        for index in 0..masters {
            let (first, last) = (share(index).to_string(), (share(index + 1) - 1).to_string());
            self.server(index)
                .command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        for index in masters..self.servers.len() {
            let master = self.id(index % masters)?;
            wait::until("a replica knows its master", || {
                let done = self
                    .server(index)
                    .command(&["CLUSTER", "REPLICATE", &master]);
                done.map(drop).map_err(|error| format!("{error:?}"))
            })?;
        }
        wait::until("the cluster is formed", || self.check_formed(masters))?;
        self.servers[masters..]
            .iter()
            .try_for_each(RedisServer::wait_until_linked)
    }

    /// Checks that each server finds the cluster healthy and knows the role of each other server.
    fn check_formed(&self, masters: usize) -> Result<(), String> {
        for server in &self.servers {
            let state = server.field(&["CLUSTER", "INFO"], "cluster_state");
            if state.as_ref().is_ok_and(|state| state != "ok") {
                return Err(format!(
                    "the server on port {} finds the state {state:?}",
                    server.plain_port()
                ));
            }
            let nodes = nodes(server).map_err(|error| format!("{error:?}"))?;
            let replicas = nodes.iter().filter(|node| node.has_flag("slave")).count();
            let settled = nodes
                .iter()
                .all(|node| node.connected && !node.has_flag("handshake"));
            if nodes.len() != self.servers.len()
                || replicas != self.servers.len() - masters
                || !settled
            {
                return Err(format!(
                    "the server on port {} knows {nodes:?}",
                    server.plain_port()
                ));
            }
        }
        Ok(())
    }

    /// Waits until each running server assigns `slot` to the server `master`, and finds the cluster
    /// healthy.
    fn wait_until_agreed(&self, slot: u16, master: usize) -> Result<()> {
        let id = self.id(master)?;
        wait::until(
            format!("all agree who is the master of slot {slot}"),
            || {
                for server in self.servers.iter().filter(|server| server.is_awake()) {
                    let nodes = nodes(server).map_err(|error| format!("{error:?}"))?;
                    let owner = nodes.iter().find(|node| node.has_slot(slot));
                    let state = server.field(&["CLUSTER", "INFO"], "cluster_state");
                    if owner.is_none_or(|owner| owner.id != id)
                        || state.is_ok_and(|state| state != "ok")
                    {
                        return Err(format!(
                            "the server on port {} knows {nodes:?}",
                            server.plain_port()
                        ));
                    }
                }
                Ok(())
            },
        )
    }

    fn id(&self, index: usize) -> Result<String> {
        Ok(self
            .server(index)
            .command(&["CLUSTER", "MYID"])?
            .to_string())
    }

    fn master_id_of(&self, replica: usize) -> Result<String> {
        let nodes = nodes(self.server(replica))?;
        let myself = nodes.into_iter().find(|node| node.has_flag("myself"));
        myself
            .map(|node| node.master)
            .filter(|master| master != "-")
            .ok_or_else(|| Error::Answer {
                command: "CLUSTER FAILOVER".into(),
                text: format!("server {replica} is not a replica"),
            })
    }

    fn first_slot_of(&self, id: &str) -> Result<u16> {
        let nodes = self
            .servers
            .iter()
            .filter(|server| server.is_awake())
            .find_map(|server| nodes(server).ok());
        let node = nodes.into_iter().flatten().find(|node| node.id == id);
        let first = node.and_then(|node| node.slots.first().map(|(first, _)| *first));
        first.ok_or_else(|| Error::Answer {
            command: "CLUSTER NODES".into(),
            text: format!("{id} has no slots"),
        })
    }

    /// Returns since when, by the cluster's own count, a server has a slot; `None` if it is not its
    /// master.
    fn claim(&self, index: usize, slot: u16) -> Option<u64> {
        let server = self.server(index);
        let nodes = if server.is_awake() {
            nodes(server).ok()?
        } else {
            return None;
        };
        let myself = nodes.into_iter().find(|node| node.has_flag("myself"))?;
        (myself.has_flag("master") && myself.has_slot(slot)).then_some(myself.epoch)
    }
}

impl SlotMove {
    /// Returns the server that has the slot until the move is finished.
    pub fn from(self) -> usize {
        self.from
    }

    /// Returns the server that will have the slot.
    pub fn to(self) -> usize {
        self.to
    }
}

/// A line of `CLUSTER NODES`.
#[derive(Debug)]
struct Node {
    id: String,
    flags: String,
    master: String,
    epoch: u64,
    connected: bool,
    /// The first and the last slot of each range.
    slots: Vec<(u16, u16)>,
}

impl Node {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, _, flags, master, _, _, epoch, link, slots @ ..] = words.as_slice() else {
            return None;
        };
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            // Slots that are being moved are in brackets, and do not parse as numbers.
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self {
            id: (*id).into(),
            flags: (*flags).into(),
            master: (*master).into(),
            epoch: epoch.parse().ok()?,
            connected: *link == "connected",
            slots: slots.iter().filter_map(range).collect(),
        })
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(',').any(|other| other == flag)
    }

    fn has_slot(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

fn nodes(server: &RedisServer) -> Result<Vec<Node>> {
    let text = server.command(&["CLUSTER", "NODES"])?.to_string();
    Ok(text.lines().filter_map(Node::parse).collect())
}

/// A server that does not reply for this long is considered dead.
const NODE_TIMEOUT_MS: u32 = 1000;
