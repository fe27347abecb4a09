//! Renewal, release and withdrawal.

use std::time::Duration;

use crate::clock::Tick;
use crate::driver::{Claim, Life, Loss, Release, Released, Renewal, Renewed};
use crate::error::{Error, Result};
use crate::name::{ClaimId, Fence, Name};
use crate::store::session::judge::judge;
use crate::store::zookeeper::claims::Stage;
use crate::store::zookeeper::core::{Core, children, delete, nodes_in};
use crate::store::zookeeper::fault;
use crate::store::zookeeper::node::{Kind, Node, NodeData, rows};
use crate::store::zookeeper::wire::{Answer, Code, NodeKind, Operation, Patience, Watch};

impl Core {
    /// Restarts leases. Those of this client hang on the session, which is proved once for all of them.
    pub(super) async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<Renewed>> {
        let asked = self.clock.now();
        let longest = renewals.iter().filter(|one| one.life == Life::Client);
        let longest = longest.map(|renewal| renewal.ttl).max();
        if let Some(longest) = longest {
            self.watch_unwatched(renewals).await?;
            // At once, also if there is no connection: the holder is at risk and has to know.
            let session = self.wire.session().id;
            self.good_for(session, asked, longest, Patience::None)
                .await?;
        }
        let (mut answers, mut failed) = (Vec::with_capacity(renewals.len()), None);
        for renewal in renewals {
            let renewed = match renewal.life {
                Life::Client => self.renew_held(renewal, asked).await,
                Life::Ttl => self.renew_by_hand(renewal).await,
            };
            answers.push(renewed.unwrap_or_else(|error| {
                failed = Some(error);
                Renewed::Unknown
            }));
        }
        match failed {
            Some(error) if answers.iter().all(|answer| *answer == Renewed::Unknown) => Err(error),
            _ => Ok(answers),
        }
    }

    /// Watches the nodes of leases that are not watched yet, so that their ends are known.
    async fn watch_unwatched(&self, renewals: &[Renewal]) -> Result<()> {
        for renewal in renewals {
            let entry = self.claims.find(&renewal.name, &renewal.claim);
            let held = entry.and_then(|entry| entry.held());
            if held.is_some_and(|held| !held.is_watched) {
                self.watch_own(&renewal.name, &renewal.claim, Patience::None)
                    .await?;
            }
        }
        Ok(())
    }

    async fn renew_held(&self, renewal: &Renewal, asked: Tick) -> Result<Renewed> {
        let lifetime = self.lifetime();
        let now = self.clock.now();
        let extended = self.claims.change(&renewal.name, &renewal.claim, |entry| {
            let Stage::Held(held) = &mut entry.stage else {
                return None;
            };
            let is_meant = renewal.fence.is_none_or(|fence| fence == held.fence);
            let proved = self.wire.proved_in(held.session)?;
            let left = lifetime.left(proved, asked, renewal.ttl);
            if !is_meant || held.ends <= now || left.is_zero() {
                return None;
            }
            held.ends = now + renewal.ttl;
            Some((held.fence, held.ends, left))
        });
        match extended.flatten() {
            Some((fence, ends, valid)) => {
                self.remind(ends, &renewal.name, &renewal.claim);
                Ok(Renewed::Extended { fence, valid })
            }
            None => Ok(Renewed::Lost(
                self.loss(&renewal.name, &renewal.claim).await?,
            )),
        }
    }

    /// Frees a lease.
    pub(super) async fn release(&self, release: &Release) -> Result<Released> {
        match release.life {
            Life::Client => self.release_held(release).await,
            Life::Ttl => self.release_by_hand(release).await,
        }
    }

    async fn release_held(&self, release: &Release) -> Result<Released> {
        let (name, id) = (&release.name, &release.claim);
        let now = self.clock.now();
        let entry = self.claims.find(name, id);
        let entry = entry.filter(|entry| match entry.stage {
            Stage::Held(held) => {
                held.ends > now && release.fence.is_none_or(|fence| fence == held.fence)
            }
            // Sent before, and not answered.
            Stage::Leaving => true,
            Stage::New | Stage::Asked | Stage::Waiting => false,
        });
        let Some((entry, child)) = entry.and_then(|mut entry| {
            let child = entry.child.take()?;
            Some((entry, child))
        }) else {
            return Ok(Released::NotHeld(self.loss(name, id).await?));
        };
        // So that the end of its node is not taken for an eviction.
        self.claims
            .change(name, id, |entry| entry.stage = Stage::Leaving);
        let change = entry.held().map(|held| held.fence);
        let sent = self
            .let_go(name, &child, release.stays_taken, change, None)
            .await;
        let (done, nodes) = match sent {
            Ok(sent) => sent,
            Err(error) => {
                // It lives on if nothing was sent, and goes later otherwise.
                if error.nothing_changed() {
                    self.claims
                        .change(name, id, |known| known.stage = entry.stage);
                } else {
                    self.remind(now + CLEAN_UP_AFTER, name, id);
                }
                return Err(error);
            }
        };
        self.claims.remove(name, id);
        match done {
            Ok(_) => Ok(Released::Freed {
                left: left(&child, &nodes),
            }),
            // Done by an earlier request, whose answer was lost.
            Err(Code::NO_NODE | Code::NODE_EXISTS) if entry.stage == Stage::Leaving => {
                Ok(Released::Freed {
                    left: left(&child, &nodes),
                })
            }
            Err(Code::NO_NODE) => Ok(Released::NotHeld(self.loss(name, id).await?)),
            Err(code) => Err(fault::refused(code, &self.path(name, &child))),
        }
    }

    /// Deletes a node, or lets the name stay taken by nobody in its place; lists who is left if the owner has a name.
    pub(super) async fn let_go(
        &self,
        name: &Name,
        child: &str,
        stays_taken: Duration,
        fence: Option<Fence>,
        version: Option<i32>,
    ) -> Result<(Result<Answer, Code>, Vec<Node>)> {
        let (parent, path) = (self.parent(name), self.path(name, child));
        let node = Node::parse(child);
        let mut operation = delete(&path, version);
        if !stays_taken.is_zero()
            && let Some(node) = &node
            && let Some(tags) = node.tags()
        {
            let mut tags = tags.clone();
            (tags.kind, tags.tells) = (Kind::Nobody, false);
            tags.change = fence.map(crate::store::session::fence::change_of);
            let about = crate::driver::About::this_process(None);
            let owner = None;
            let ttl_ms = 0;
            let kept = NodeData {
                owner,
                ttl_ms,
                about,
            }
            .with_ttl(stays_taken);
            let create = Operation::Create {
                path: format!(
                    "{parent}/{}",
                    tags.child(node.mode, self.settings.layout, node.number)
                ),
                data: kept.bytes(),
                kind: NodeKind::Persistent,
            };
            operation = Operation::Multi(vec![create, operation]);
        }
        let mut operations = vec![operation];
        let has_owner =
            node.is_some_and(|node| node.tags().is_some_and(|tags| tags.owner.is_some()));
        if has_owner {
            operations.push(children(&parent, Watch::No));
        }
        let mut answers = self.fly(operations).await?.answers.into_iter();
        let done = answers.next().unwrap_or(Err(Code::NO_NODE));
        let nodes = answers
            .next()
            .map_or(Ok(Vec::new()), |listed| nodes_in(listed, &parent));
        Ok((done, nodes.map_err(Error::in_doubt)?))
    }

    /// Undoes a claim, whatever became of it.
    pub(super) async fn withdraw(&self, claim: &Claim) -> Result<()> {
        let entry = self.claims.find(&claim.name, &claim.id);
        if let Some(entry) = entry
            && (entry.claim.life == claim.life || entry.held().is_none())
        {
            let _turn = entry.turn.lock().await;
            self.leave(&claim.name, &claim.id).await?;
        }
        if claim.life == Life::Client {
            return Ok(());
        }
        let nodes = self.fresh_nodes(&claim.name).await?;
        for node in nodes
            .iter()
            .filter(|node| node.is_of(&claim.id, Kind::Hand))
        {
            self.delete_node(&claim.name, &node.child).await?;
        }
        Ok(())
    }

    /// Deletes the node of a claim, wherever it is, and forgets the claim.
    pub(super) async fn leave(&self, name: &Name, id: &ClaimId) -> Result<()> {
        let left = self.claims.change(name, id, |entry| {
            entry.stage = Stage::Leaving;
            entry.child.clone()
        });
        let Some(child) = left else {
            return Ok(());
        };
        let gone = match child {
            Some(child) => self.delete_node(name, &child).await,
            None => self.search_and_delete(name, id).await,
        };
        if let Err(error) = gone {
            self.remind(self.clock.now() + CLEAN_UP_AFTER, name, id);
            return Err(error);
        }
        self.claims.remove(name, id);
        Ok(())
    }

    /// Deletes the node of a claim whose request was not answered.
    async fn search_and_delete(&self, name: &Name, id: &ClaimId) -> Result<()> {
        let nodes = self.fresh_nodes(name).await?;
        for node in nodes.iter().filter(|node| node.is_of(id, Kind::Client)) {
            self.delete_node(name, &node.child).await?;
        }
        Ok(())
    }

    async fn delete_node(&self, name: &Name, child: &str) -> Result<()> {
        let path = self.path(name, child);
        match self.one(delete(&path, None)).await? {
            Ok(_) | Err(Code::NO_NODE) => Ok(()),
            Err(code) => Err(fault::refused(code, &path)),
        }
    }

    /// Why a claim does not hold a name.
    pub(super) async fn loss(&self, name: &Name, id: &ClaimId) -> Result<Loss> {
        let nodes = self.fresh_nodes(name).await?;
        let holders = judge(&rows(&nodes));
        let is_other = |node: &Node| node.tags().is_none_or(|tags| tags.claim != id.as_str());
        Ok(match nodes[..holders].iter().any(is_other) {
            true => Loss::TakenOver,
            false => Loss::Gone,
        })
    }
}

/// How many claims of the owner of a node still hold the name: those that share its number.
pub(super) fn left(child: &str, nodes: &[Node]) -> u32 {
    let Some(own) = Node::parse(child) else {
        return 0;
    };
    let is_left = |node: &&Node| {
        let is_somebodys = node.tags().is_some_and(|tags| tags.kind != Kind::Nobody);
        node.number == own.number && node.child != own.child && is_somebodys
    };
    u32::try_from(nodes.iter().filter(is_left).count()).unwrap_or(u32::MAX)
}

/// When the node of a claim is deleted that could not be deleted at once.
const CLEAN_UP_AFTER: Duration = Duration::from_millis(500);
