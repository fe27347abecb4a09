//! The place of a claim in the line: how it is made, and how it is found again.

use crate::driver::{Claim, Life};
use crate::error::{Error, Result};
use crate::store::zookeeper::acquire::ATTEMPTS;
use crate::store::zookeeper::claims::Stage;
use crate::store::zookeeper::core::{Core, EXPIRED, children, data, nodes_in};
use crate::store::zookeeper::fault;
use crate::store::zookeeper::node::{Kind, Node, NodeData, Tags};
use crate::store::zookeeper::settings::Layout;
use crate::store::zookeeper::wire::{self, Code, NodeKind, Operation, Watch};

/// The place of a claim in the order of the store.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) child: String,
    pub(super) session: i64,
    pub(super) number: i32,
    /// The change that made it.
    pub(super) change: i64,
    /// Whether it stood in line before this request.
    pub(super) is_old: bool,
    /// The leader's wall clock when it was made, if that was just now.
    pub(super) now: Option<i64>,
}

impl Core {
    /// Makes a place at the end of the line, and lists the line.
    pub(super) async fn stand(&self, claim: &Claim) -> Result<(Place, Vec<Node>)> {
        let parent = self.parent(&claim.name);
        let front = Tags::of(claim).front(claim.mode, self.settings.layout);
        let make = Operation::Create {
            path: format!("{parent}/{front}"),
            data: NodeData::of(claim).bytes(),
            kind: NodeKind::EphemeralSequential,
        };
        for attempt in 0..ATTEMPTS {
            self.claims.expect(claim, self.clock.now());
            self.claims.change(&claim.name, &claim.id, |entry| {
                (entry.stage, entry.child, entry.is_rung) = (Stage::Asked, None, false);
            });
            let mut operations = Vec::new();
            if attempt > 0 || !self.parents.lock().contains_key(&claim.name) {
                operations.push(self.make_parent(&parent));
            }
            let index = operations.len();
            operations.push(make.clone());
            self.look_operations(claim, &parent, &mut operations);
            let flown = match self.fly(operations).await {
                Ok(flown) => flown,
                Err(error) => {
                    if error.nothing_changed() {
                        self.claims.remove(&claim.name, &claim.id);
                    }
                    return Err(error);
                }
            };
            let session = flown.session;
            let mut answers = flown.answers.into_iter();
            let parent_made = (index > 0).then(|| answers.next()).flatten();
            match answers.next() {
                Some(Ok(wire::Answer::Created { path, stat })) => {
                    self.parents
                        .lock()
                        .insert(claim.name.clone(), self.clock.now());
                    let place = self.placed(claim, session, &path, stat)?;
                    let listed = answers.next_back();
                    let nodes = nodes_in(listed.unwrap_or(Err(Code::NO_NODE)), &parent);
                    return Ok((place, nodes.map_err(Error::in_doubt)?));
                }
                // Deleted because it was empty, at this very moment.
                Some(Err(Code::NO_NODE)) if !is_refused(parent_made.as_ref()) => {}
                Some(Err(code)) => {
                    self.claims.remove(&claim.name, &claim.id);
                    let code = match parent_made {
                        Some(Err(why)) if code == Code::NO_NODE => why,
                        _ => code,
                    };
                    if code == Code::NO_NODE {
                        self.make_root().await?;
                    }
                    return Err(fault::refused(code, &parent));
                }
                _ => return Err(fault::in_doubt("an answer to another request")),
            }
            if attempt == 1 {
                // Somebody has deleted the root.
                self.make_root().await?;
            }
        }
        self.claims.remove(&claim.name, &claim.id);
        let why = "the node of the name is deleted again and again";
        Err(Error::unavailable(super::KIND, why))
    }

    /// Notes the place that was made.
    fn placed(&self, claim: &Claim, session: i64, path: &str, stat: wire::Stat) -> Result<Place> {
        let child = path.rsplit('/').next().unwrap_or_default().to_owned();
        let number = Node::parse(&child).map(|node| node.number);
        let number = number.ok_or_else(|| fault::in_doubt("a node without a number"))?;
        let known = self.claims.change(&claim.name, &claim.id, |entry| {
            (entry.child, entry.session) = (Some(child.clone()), session);
        });
        known.ok_or_else(|| fault::in_doubt(EXPIRED))?;
        Ok(Place {
            child,
            session,
            number,
            change: stat.czxid,
            is_old: false,
            now: Some(stat.ctime),
        })
    }

    fn make_parent(&self, path: &str) -> Operation {
        Operation::Create {
            path: path.to_owned(),
            data: Vec::new(),
            kind: match self.settings.layout {
                // kazoo takes it for granted that a node that it has seen stays.
                Layout::Kazoo => NodeKind::Persistent,
                Layout::Curator | Layout::ReadWrite => NodeKind::Container,
            },
        }
    }

    /// What lists the line. Whoever wants to hear of others hears of all that come after the list.
    fn look_operations(&self, claim: &Claim, parent: &str, operations: &mut Vec<Operation>) {
        if claim.tell_if_wanted && claim.life == Life::Client {
            operations.push(data(parent, Watch::Once));
        }
        operations.push(children(parent, Watch::No));
    }

    /// Lists the line for a claim that stands in it; `None` if its place is gone.
    pub(super) async fn place_of(
        &self,
        claim: &Claim,
        child: &str,
    ) -> Result<Option<(Place, Vec<Node>)>> {
        let parent = self.parent(&claim.name);
        let mut operations = vec![data(&self.path(&claim.name, child), Watch::No)];
        self.claims
            .change(&claim.name, &claim.id, |entry| entry.is_rung = false);
        self.look_operations(claim, &parent, &mut operations);
        let flown = self.fly(operations).await?;
        let (session, mut answers) = (flown.session, flown.answers);
        let listed = answers.pop().unwrap_or(Err(Code::NO_NODE));
        let (Some(Ok(wire::Answer::Data(_, stat))), Some(node)) =
            (answers.into_iter().next(), Node::parse(child))
        else {
            return Ok(None);
        };
        let tags = node.tags();
        let place = Place {
            child: child.to_owned(),
            session,
            number: node.number,
            change: tags.and_then(|tags| tags.change).unwrap_or(stat.czxid),
            is_old: true,
            now: None,
        };
        Ok(Some((place, nodes_in(listed, &parent)?)))
    }

    /// Looks for the node of a claim whose request was not answered.
    ///
    /// What it finds is certain: the servers refuse what is left of an old connection once the session has another one.
    pub(super) async fn find_own(&self, claim: &Claim) -> Result<Option<(Place, Vec<Node>)>> {
        let nodes = self.fresh_nodes(&claim.name).await?;
        for node in nodes
            .iter()
            .filter(|node| node.is_of(&claim.id, Kind::Client))
        {
            let path = self.path(&claim.name, &node.child);
            let found = self.one(data(&path, Watch::No)).await?;
            if let Ok(wire::Answer::Data(_, stat)) = found
                && stat.ephemeral_owner == self.wire.session().id
            {
                let known = self.claims.change(&claim.name, &claim.id, |entry| {
                    (entry.child, entry.session) = (Some(node.child.clone()), stat.ephemeral_owner);
                });
                known.ok_or_else(|| fault::in_doubt(EXPIRED))?;
                return self.place_of(claim, &node.child).await;
            }
        }
        Ok(None)
    }
}

fn is_refused(parent_made: Option<&Result<wire::Answer, Code>>) -> bool {
    matches!(parent_made, Some(Err(code)) if !matches!(*code, Code::NODE_EXISTS | Code::NO_NODE))
}
