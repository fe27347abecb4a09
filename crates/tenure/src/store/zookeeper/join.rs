//! Claims of one owner that hold together, in several clients.

use crate::clock::Tick;
use crate::driver::{Claim, Grant, Life};
use crate::error::{Error, Result};
use crate::store::session::fence::fence_of;
use crate::store::session::judge::Verdict;
use crate::store::zookeeper::acquire::TOO_MANY_ELECTIONS;
use crate::store::zookeeper::claims::{Held, Stage};
use crate::store::zookeeper::core::{Core, EXPIRED, data, delete};
use crate::store::zookeeper::fault;
use crate::store::zookeeper::node::{Kind, Node, NodeData, Tags};
use crate::store::zookeeper::place::Place;
use crate::store::zookeeper::wire::{self, Code, NodeKind, Operation, Patience, Watch};

/// What came of taking a place beside a holder.
pub(super) enum Joined {
    In(Grant),
    Again,
    Conflict,
    Stranger,
}

impl Core {
    /// Takes a place beside a holder of the same owner, in place of the own one.
    pub(super) async fn join(
        &self,
        claim: &Claim,
        place: &Place,
        mate: &Node,
        found: Verdict,
        asked: Tick,
    ) -> Result<Joined> {
        let path = self.path(&claim.name, &mate.child);
        let read = self
            .one(data(&path, Watch::No))
            .await
            .map_err(Error::in_doubt)?;
        let Ok(wire::Answer::Data(bytes, stat)) = read else {
            return Ok(Joined::Again);
        };
        let owner = NodeData::parse(&bytes).and_then(|data| data.owner);
        if owner.as_deref() != claim.owner.as_ref().map(crate::Owner::as_str) {
            return Ok(Joined::Stranger);
        }
        if !matches!(found, Verdict::Joins(_)) {
            return Ok(Joined::Conflict);
        }
        let change = mate.tags().and_then(|tags| tags.change);
        let change = change.unwrap_or(stat.czxid);
        let fence = fence_of(change);
        let fence = fence.ok_or_else(|| fault::in_doubt(TOO_MANY_ELECTIONS))?;
        let mut tags = Tags::of(claim);
        tags.change = Some(change);
        let kind = match claim.life {
            Life::Client => NodeKind::Ephemeral,
            Life::Ttl => {
                tags.kind = Kind::Hand;
                NodeKind::Persistent
            }
        };
        let child = tags.child(mate.mode, self.settings.layout, mate.number);
        if !self
            .replace(claim, &place.child, &child, kind, Some(&path))
            .await?
        {
            return Ok(Joined::Again);
        }
        if claim.life == Life::Ttl {
            self.claims.remove(&claim.name, &claim.id);
            return Ok(Joined::In(Grant::new(fence, claim.ttl)));
        }
        let good_for = self
            .good_for(place.session, asked, claim.ttl, Patience::Usual)
            .await;
        let valid = good_for.map_err(Error::in_doubt)?;
        let now = self.clock.now();
        let held = Held {
            session: place.session,
            fence,
            fences: 1,
            since: now,
            ends: now + claim.ttl,
            is_watched: false,
        };
        self.hold(claim, held, false)?;
        Ok(Joined::In(Grant::new(fence, valid)))
    }

    /// Puts another node in the place of the claim's, if both it and `beside` are there.
    pub(super) async fn replace(
        &self,
        claim: &Claim,
        old: &str,
        new: &str,
        kind: NodeKind,
        beside: Option<&str>,
    ) -> Result<bool> {
        let create = Operation::Create {
            path: self.path(&claim.name, new),
            data: NodeData::of(claim).bytes(),
            kind,
        };
        let path = self.path(&claim.name, old);
        let check = beside.map(|path| Operation::Check {
            path: path.to_owned(),
        });
        let mut operations: Vec<_> = check.into_iter().collect();
        operations.extend([create, delete(&path, None)]);
        // Either may be the one until the answer is there.
        self.claims.change(&claim.name, &claim.id, |entry| {
            (entry.stage, entry.child) = (Stage::Asked, None);
        });
        let done = self
            .one(Operation::Multi(operations))
            .await
            .map_err(Error::in_doubt)?;
        let child = match done {
            Ok(_) => new,
            Err(Code::NO_NODE | Code::NODE_EXISTS) => old,
            Err(code) => return Err(fault::refused(code, &path).in_doubt()),
        };
        let known = self.claims.change(&claim.name, &claim.id, |entry| {
            // The session is that of the node that was there before.
            entry.child = Some(child.to_owned());
        });
        known.ok_or_else(|| fault::in_doubt(EXPIRED))?;
        Ok(done.is_ok())
    }
}
