//! How a claim finds out whether it holds the name.

use std::time::Duration;

use crate::clock::Tick;
use crate::driver::{Answer, Claim, Grant, Life, News, Wait};
use crate::error::{Error, Result};
use crate::name::{ClaimId, Name};
use crate::store::session::fence::{FENCES, fence_of};
use crate::store::session::judge::{Behind, Row, Verdict, judge, verdict};
use crate::store::zookeeper::claims::{Entry, Held, Stage};
use crate::store::zookeeper::core::{Core, EXPIRED, children, data, delete, sync};
use crate::store::zookeeper::fault;
use crate::store::zookeeper::join::Joined;
use crate::store::zookeeper::node::{Kind, Node, Tags, rows};
use crate::store::zookeeper::place::Place;
use crate::store::zookeeper::wire::{self, Code, NodeKind, Operation, Patience, Watch};

/// What one look at the line comes to.
enum Look {
    Decided(Answer),
    /// Something changed meanwhile.
    Again(Option<Vec<Node>>),
    /// The place is gone.
    Gone,
}

impl Core {
    /// Grants a claim, or lets it stand in line, or refuses it.
    pub(super) async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let asked = self.clock.now();
        let entry = self.claims.expect(claim, asked);
        let _turn = entry.turn.lock().await;
        let answer = self.ask(claim, asked).await;
        self.claims.forget_new(&claim.name, &claim.id);
        answer
    }

    /// Looks whether a claim that waits can go in now, and tells the engine.
    pub(super) async fn look_again(&self, name: Name, id: ClaimId) {
        let Some(entry) = self.claims.find(&name, &id) else {
            return;
        };
        let _turn = entry.turn.lock().await;
        // It may have got in or left meanwhile.
        let waits = |entry: &Entry| entry.stage == Stage::Waiting;
        if !self.claims.find(&name, &id).as_ref().is_some_and(waits) {
            return;
        }
        let now = self.clock.now();
        let news = match self.ask(&entry.claim, now).await {
            Ok(Answer::Granted(grant)) => News::Granted {
                name,
                claim: id,
                grant,
                after: now.since(entry.asked),
            },
            // The engine keeps the time.
            Ok(Answer::Queued { ask_again: Some(_) } | Answer::Busy) | Err(_) => {
                News::AskAgain(Some(name))
            }
            Ok(Answer::Queued { ask_again: None }) => return,
        };
        self.tell(news);
    }

    /// Finds out what has become of a claim, and gives it a place if it has none.
    async fn ask(&self, claim: &Claim, asked: Tick) -> Result<Answer> {
        if claim.life == Life::Ttl
            && let Some(grant) = self.resume_by_hand(claim).await?
        {
            return Ok(Answer::Granted(grant));
        }
        let entry = self.claims.find(&claim.name, &claim.id);
        let mut found = match entry.map(|entry| (entry.stage, entry.child)) {
            None | Some((Stage::New, _)) => None,
            Some((Stage::Held(held), Some(child))) => {
                if let Some(grant) = self.still_holds(claim, held, &child, asked).await? {
                    return Ok(Answer::Granted(grant));
                }
                None
            }
            Some((Stage::Waiting, Some(child))) => self.place_of(claim, &child).await?,
            Some((Stage::Leaving, _)) => {
                self.leave(&claim.name, &claim.id).await?;
                None
            }
            Some(_) => self.find_own(claim).await?,
        };
        if found.is_none() && claim.wait == Wait::No && self.is_busy(claim).await? {
            return Ok(Answer::Busy);
        }
        for _ in 0..ATTEMPTS {
            let (place, nodes) = match found.take() {
                Some(found) => found,
                None => self.stand(claim).await?,
            };
            if let Some(answer) = self.decide(claim, place, nodes, asked).await? {
                return Ok(answer);
            }
        }
        Err(fault::in_doubt(
            "the node of the claim is deleted again and again",
        ))
    }

    /// Whether others are in the way, for names that were so a moment ago: looking is cheaper than asking in vain.
    async fn is_busy(&self, claim: &Claim) -> Result<bool> {
        let seen = self.busy.lock().get(&claim.name).copied();
        let is_recent = seen.is_some_and(|seen| self.clock.now().since(seen) < BUSY_FOR);
        // Owners may join, and leases by hand may have ended.
        if !is_recent || claim.owner.is_some() {
            return Ok(false);
        }
        let nodes = self.nodes(&claim.name).await?;
        if nodes.iter().any(Node::ends_by_ttl) {
            return Ok(false);
        }
        let mut rows = rows(&nodes);
        let own = Row {
            place: rows.last().map_or(0, |last| last.place) + 1,
            owner: None,
            mode: claim.mode,
            is_nobodys: false,
        };
        rows.push(own);
        if judge(&rows) == rows.len() {
            return Ok(false);
        }
        self.ring(&claim.name, &nodes).await?;
        Ok(true)
    }

    /// Decides a claim that has a place; `None` if that is gone.
    async fn decide(
        &self,
        claim: &Claim,
        mut place: Place,
        nodes: Vec<Node>,
        asked: Tick,
    ) -> Result<Option<Answer>> {
        let mut nodes = Some(nodes);
        for _ in 0..ATTEMPTS {
            let listed = match nodes.take() {
                Some(nodes) => nodes,
                None => self.nodes(&claim.name).await.map_err(Error::in_doubt)?,
            };
            match self.look(claim, &mut place, listed, asked).await? {
                Look::Decided(answer) => return Ok(Some(answer)),
                Look::Again(listed) => nodes = listed,
                Look::Gone => {
                    self.claims.remove(&claim.name, &claim.id);
                    return Ok(None);
                }
            }
        }
        Err(fault::in_doubt(
            "the line changes faster than it can be read",
        ))
    }

    async fn look(
        &self,
        claim: &Claim,
        place: &mut Place,
        nodes: Vec<Node>,
        asked: Tick,
    ) -> Result<Look> {
        let Some(index) = nodes.iter().position(|node| node.child == place.child) else {
            return Ok(Look::Gone);
        };
        let rows = rows(&nodes);
        let holders = judge(&rows);
        let mut found = verdict(&rows, holders, index);
        let mut ask_again = None;
        if found != Verdict::Holds && nodes[..index].iter().any(Node::ends_by_ttl) {
            match self.end_overdue(claim, place, &nodes[..index]).await? {
                Some(next) => ask_again = Some(next),
                None => return Ok(Look::Again(None)),
            }
        }
        if let Verdict::Joins(mate)
        | Verdict::Waits {
            conflict: Some(mate),
            ..
        } = found
        {
            match self.join(claim, place, &nodes[mate], found, asked).await? {
                Joined::In(grant) => return Ok(Look::Decided(Answer::Granted(grant))),
                Joined::Again => return Ok(Look::Again(None)),
                Joined::Conflict if !place.is_old => {
                    self.give_up(claim, &place.child).await?;
                    let name = claim.name.clone();
                    return Err(Error::ModeConflict { name });
                }
                Joined::Conflict => {}
                // Two owners with the same hash: wait for any change.
                Joined::Stranger => {
                    let (conflict, behind) = (None, Behind::Any);
                    found = Verdict::Waits { conflict, behind };
                }
            }
        }
        match found {
            Verdict::Holds => self.enter(claim, place, &nodes[holders..], asked).await,
            Verdict::Joins(_) => Ok(Look::Again(None)),
            Verdict::Waits { .. } if claim.wait == Wait::No && !place.is_old => {
                self.note_busy(&claim.name);
                self.ring(&claim.name, &nodes[..holders])
                    .await
                    .map_err(Error::in_doubt)?;
                self.give_up(claim, &place.child).await?;
                Ok(Look::Decided(Answer::Busy))
            }
            Verdict::Waits { behind, .. } => {
                self.wait_behind(claim, place, &nodes, holders, behind, ask_again)
                    .await
            }
        }
    }

    /// Takes the name for a claim whose turn it is.
    async fn enter(
        &self,
        claim: &Claim,
        place: &Place,
        line: &[Node],
        asked: Tick,
    ) -> Result<Look> {
        let fence = fence_of(place.change);
        let fence = fence.ok_or_else(|| fault::in_doubt(TOO_MANY_ELECTIONS))?;
        let fences = claim.fences.clamp(1, FENCES);
        if claim.life == Life::Ttl {
            let mut tags = Tags::of(claim);
            (tags.kind, tags.change) = (Kind::Hand, Some(place.change));
            let child = tags.child(claim.mode, self.settings.layout, place.number);
            let replaced = self.replace(claim, &place.child, &child, NodeKind::Persistent, None);
            if !replaced.await? {
                return Ok(Look::Gone);
            }
            self.claims.remove(&claim.name, &claim.id);
            let grant = Grant::new(fence, claim.ttl).with_fences(fences);
            return Ok(Look::Decided(Answer::Granted(grant)));
        }
        let good_for = self
            .good_for(place.session, asked, claim.ttl, Patience::Usual)
            .await;
        let valid = good_for.map_err(Error::in_doubt)?;
        let now = self.clock.now();
        let held = Held {
            session: place.session,
            fence,
            fences,
            since: now,
            ends: now + claim.ttl,
            is_watched: false,
        };
        let is_own = |node: &Node, own: &[Entry]| {
            own.iter()
                .any(|entry| entry.child.as_ref() == Some(&node.child))
        };
        let own = self.claims.of(&claim.name);
        let is_waited_for = line.iter().any(|node| !is_own(node, &own));
        self.hold(claim, held, is_waited_for)?;
        let grant = Grant::new(fence, valid).with_fences(fences);
        Ok(Look::Decided(Answer::Granted(grant)))
    }

    /// Notes a lease, and tells its holder if others want the name already.
    pub(super) fn hold(&self, claim: &Claim, held: Held, is_waited_for: bool) -> Result<()> {
        let wanted = self.claims.change(&claim.name, &claim.id, |entry| {
            entry.stage = Stage::Held(held);
            let is_wanted = is_waited_for || entry.is_rung;
            is_wanted.then(|| entry.ring()).flatten()
        });
        let wanted = wanted.ok_or_else(|| fault::in_doubt(EXPIRED))?;
        if let Some((id, fence)) = wanted {
            self.tell(News::Wanted {
                name: claim.name.clone(),
                claim: id,
                fence,
            });
        }
        let first_look = (held.since + WATCHED_AFTER).min(held.ends);
        self.remind(first_look, &claim.name, &claim.id);
        Ok(())
    }

    /// Watches what stands in the way of a claim.
    async fn wait_behind(
        &self,
        claim: &Claim,
        place: &Place,
        nodes: &[Node],
        holders: usize,
        behind: Behind,
        ask_again: Option<Duration>,
    ) -> Result<Look> {
        let parent = self.parent(&claim.name);
        let known = self.claims.change(&claim.name, &claim.id, |entry| {
            entry.stage = Stage::Waiting;
        });
        known.ok_or_else(|| fault::in_doubt(EXPIRED))?;
        let watch = match behind {
            Behind::Row(index) => data(&format!("{parent}/{}", nodes[index].child), Watch::Once),
            Behind::Any => children(&parent, Watch::Once),
        };
        let watched = self.one(watch).await.map_err(Error::in_doubt)?;
        match watched {
            Ok(wire::Answer::Children(now)) => {
                let now = Node::parse_all(&now);
                if now != nodes {
                    return Ok(Look::Again(Some(now)));
                }
            }
            Ok(_) => {}
            Err(Code::NO_NODE) => return Ok(Look::Again(None)),
            Err(code) => return Err(fault::refused(code, &parent).in_doubt()),
        }
        if !place.is_old {
            let rung = self.ring(&claim.name, &nodes[..holders]).await;
            rung.map_err(Error::in_doubt)?;
        }
        Ok(Look::Decided(Answer::Queued { ask_again }))
    }

    /// Tells holders of other clients that somebody wants the name, if one of them wants to know: by writing to the node
    /// of the name, which they watch.
    async fn ring(&self, name: &Name, holders: &[Node]) -> Result<()> {
        let own = self.claims.of(name);
        let is_own = |child: &String| own.iter().any(|entry| entry.child.as_ref() == Some(child));
        let tells =
            |node: &Node| node.tags().is_some_and(|tags| tags.tells) && !is_own(&node.child);
        if !holders.iter().any(tells) {
            return Ok(());
        }
        let ring = Operation::SetData {
            path: self.parent(name),
            data: Vec::new(),
            version: None,
        };
        // A right that is missing only costs the holders time.
        self.one(ring).await.map(drop)
    }

    fn note_busy(&self, name: &Name) {
        let now = self.clock.now();
        let mut busy = self.busy.lock();
        if busy.len() >= MOST_BUSY {
            busy.retain(|_, seen| now.since(*seen) < BUSY_FOR);
        }
        busy.insert(name.clone(), now);
    }

    /// Deletes the node of a claim that is not to wait.
    async fn give_up(&self, claim: &Claim, child: &str) -> Result<()> {
        self.claims
            .change(&claim.name, &claim.id, |entry| entry.stage = Stage::Leaving);
        let path = self.path(&claim.name, child);
        match self
            .one(delete(&path, None))
            .await
            .map_err(Error::in_doubt)?
        {
            Ok(_) | Err(Code::NO_NODE) => {
                self.claims.remove(&claim.name, &claim.id);
                Ok(())
            }
            Err(code) => Err(fault::refused(code, &path).in_doubt()),
        }
    }

    /// Restarts the lease of a claim that is asked for again; `None` if it is over.
    async fn still_holds(
        &self,
        claim: &Claim,
        held: Held,
        child: &str,
        asked: Tick,
    ) -> Result<Option<Grant>> {
        let path = self.path(&claim.name, child);
        let flown = self.fly(vec![sync(&path), data(&path, Watch::Once)]);
        let answers = flown.await.map_err(Error::in_doubt)?.answers;
        if !matches!(answers.last(), Some(Ok(_))) {
            self.claims.remove(&claim.name, &claim.id);
            return Ok(None);
        }
        let good_for = self
            .good_for(held.session, asked, claim.ttl, Patience::Usual)
            .await;
        let valid = good_for.map_err(Error::in_doubt)?;
        let ends = self.clock.now() + claim.ttl;
        let known = self.claims.change(&claim.name, &claim.id, |entry| {
            let Stage::Held(held) = &mut entry.stage else {
                return false;
            };
            (held.ends, held.is_watched) = (ends, true);
            true
        });
        if known != Some(true) {
            return Err(fault::in_doubt("the lease ended meanwhile"));
        }
        self.remind(ends, &claim.name, &claim.id);
        Ok(Some(Grant::new(held.fence, valid).with_fences(held.fences)))
    }
}

/// How often a decision is tried that others disturb.
pub(super) const ATTEMPTS: usize = 16;

pub(super) const TOO_MANY_ELECTIONS: &str =
    "after 131,072 elections of a leader a fence does not fit into 63 bits any more";

/// How old a lease is before its node is watched: most are over by then.
const WATCHED_AFTER: Duration = Duration::from_millis(50);

/// How long a name that was found taken is looked at before it is asked for.
const BUSY_FOR: Duration = Duration::from_secs(1);

const MOST_BUSY: usize = 1000;
