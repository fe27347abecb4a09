//! Leases by hand, and names that stay taken: nodes that no session ends, but the leader's clock.

use std::time::Duration;

use crate::driver::{Claim, Grant, Release, Released, Renewal, Renewed};
use crate::error::{Error, Result};
use crate::name::{Fence, Name};
use crate::store::session::fence::{FENCES, fence_of};
use crate::store::zookeeper::core::{Core, data, delete};
use crate::store::zookeeper::fault;
use crate::store::zookeeper::give_back::left;
use crate::store::zookeeper::node::{Kind, Node, NodeData};
use crate::store::zookeeper::place::Place;
use crate::store::zookeeper::wire::{self, Answer, Code, Operation, Watch};

impl Core {
    /// Goes on with a lease by hand that is there; `None` if it is not.
    pub(super) async fn resume_by_hand(&self, claim: &Claim) -> Result<Option<Grant>> {
        let nodes = self.fresh_nodes(&claim.name).await?;
        let hand = nodes.iter().find(|node| node.is_of(&claim.id, Kind::Hand));
        let Some(node) = hand else {
            return Ok(None);
        };
        let renewed = self.extend_by_hand(&claim.name, node, claim.ttl).await?;
        Ok(renewed.map(|fence| {
            let fences = claim.fences.clamp(1, FENCES);
            Grant::new(fence, claim.ttl).with_fences(fences)
        }))
    }

    /// Ends leases by hand whose time is over; returns when the next one ends, or `None` if one has ended.
    ///
    /// The leader's clock decides: a write of our own tells what it shows.
    pub(super) async fn end_overdue(
        &self,
        claim: &Claim,
        place: &mut Place,
        before: &[Node],
    ) -> Result<Option<Duration>> {
        let now = match place.now.take() {
            Some(now) => now,
            None => {
                let touch = Operation::SetData {
                    path: self.path(&claim.name, &place.child),
                    data: NodeData::of(claim).bytes(),
                    version: None,
                };
                match self.one(touch).await.map_err(Error::in_doubt)? {
                    Ok(wire::Answer::Written(stat)) => stat.mtime,
                    _ => return Ok(None),
                }
            }
        };
        let by_ttl = before.iter().filter(|node| node.ends_by_ttl());
        let paths: Vec<_> = by_ttl
            .map(|node| self.path(&claim.name, &node.child))
            .collect();
        let reads = paths.iter().map(|path| data(path, Watch::No)).collect();
        let answers = self.fly(reads).await.map_err(Error::in_doubt)?.answers;
        let (mut next, mut ends) = (Duration::MAX, Vec::new());
        for (path, answer) in paths.iter().zip(answers) {
            let Ok(wire::Answer::Data(bytes, stat)) = answer else {
                return Ok(None);
            };
            match left_of(&bytes, stat, now) {
                Some(left) => next = next.min(left),
                // Unless it was renewed.
                None => ends.push(delete(path, Some(stat.version))),
            }
        }
        if ends.is_empty() {
            return Ok(Some(next));
        }
        self.fly(ends).await.map_err(Error::in_doubt)?;
        Ok(None)
    }

    pub(super) async fn renew_by_hand(&self, renewal: &Renewal) -> Result<Renewed> {
        let nodes = self.fresh_nodes(&renewal.name).await?;
        let hand = nodes
            .iter()
            .find(|node| node.is_of(&renewal.claim, Kind::Hand));
        if let Some(node) = hand.filter(|node| is_meant(node, renewal.fence))
            && let Some(fence) = self
                .extend_by_hand(&renewal.name, node, renewal.ttl)
                .await?
        {
            let valid = renewal.ttl;
            return Ok(Renewed::Extended { fence, valid });
        }
        Ok(Renewed::Lost(
            self.loss(&renewal.name, &renewal.claim).await?,
        ))
    }

    /// Restarts a lease by hand; `None` if it is over.
    ///
    /// Only a write tells what the leader's clock shows, so one that was over is written and then deleted.
    async fn extend_by_hand(
        &self,
        name: &Name,
        node: &Node,
        ttl: Duration,
    ) -> Result<Option<Fence>> {
        let path = self.path(name, &node.child);
        let Ok(Answer::Data(bytes, stat)) = self.one(data(&path, Watch::No)).await? else {
            return Ok(None);
        };
        let Some(found) = NodeData::parse(&bytes) else {
            return Ok(None);
        };
        let write = Operation::SetData {
            path: path.clone(),
            data: found.with_ttl(ttl).bytes(),
            version: Some(stat.version),
        };
        let written = match self.one(write).await? {
            Ok(Answer::Written(written)) => written,
            Ok(_) | Err(Code::NO_NODE | Code::BAD_VERSION) => return Ok(None),
            Err(code) => return Err(fault::refused(code, &path)),
        };
        if left_of(&bytes, stat, written.mtime).is_none() {
            self.one(delete(&path, Some(written.version))).await?.ok();
            return Ok(None);
        }
        let change = node.tags().and_then(|tags| tags.change);
        Ok(change.and_then(fence_of))
    }

    pub(super) async fn release_by_hand(&self, release: &Release) -> Result<Released> {
        let (name, id) = (&release.name, &release.claim);
        let nodes = self.fresh_nodes(name).await?;
        let hand = nodes.iter().find(|node| node.is_of(id, Kind::Hand));
        if let Some(node) = hand.filter(|node| is_meant(node, release.fence)) {
            let path = self.path(name, &node.child);
            let now = self.server_now().await?;
            let read = self.one(data(&path, Watch::No)).await?;
            if let Ok(Answer::Data(bytes, stat)) = read
                && left_of(&bytes, stat, now).is_some()
            {
                let stays = release.stays_taken;
                let version = Some(stat.version);
                let fence = node.tags().and_then(|tags| tags.change).and_then(fence_of);
                let (done, nodes) = self
                    .let_go(name, &node.child, stays, fence, version)
                    .await?;
                match done {
                    Ok(_) => {
                        return Ok(Released::Freed {
                            left: left(&node.child, &nodes),
                        });
                    }
                    Err(Code::NO_NODE | Code::BAD_VERSION) => {}
                    Err(code) => return Err(fault::refused(code, &path)),
                }
            }
        }
        Ok(Released::NotHeld(self.loss(name, id).await?))
    }
}

/// What is left of a lease by hand at this moment of the leader's clock; `None` if it is over.
pub(super) fn left_of(bytes: &[u8], stat: wire::Stat, now: i64) -> Option<Duration> {
    // What cannot be read has no ttl, and nobody could ever end it.
    let ttl = NodeData::parse(bytes).map_or(0, |data| data.ttl_ms);
    let ends = stat
        .mtime
        .saturating_add(i64::try_from(ttl).unwrap_or(i64::MAX));
    let left = u64::try_from(ends.saturating_sub(now)).ok()?;
    (left > 0).then(|| Duration::from_millis(left))
}

/// Whether a lease by hand has the fence that is meant.
fn is_meant(node: &Node, fence: Option<Fence>) -> bool {
    let change = node.tags().and_then(|tags| tags.change);
    fence.is_none() || fence == change.and_then(fence_of)
}
