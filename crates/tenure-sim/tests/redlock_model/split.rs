//! Split votes: whatever clients see of the nodes, everybody can still be served.
//!
//! Clients ask for one lock, each once. Every request reaches each node at a different time,
//! because of latency. Each client has its own order of the nodes, and reaches only some of them. A
//! node grants to the first client that asks, queues the others, and hands over to the first in
//! line. A client that has replies from all reachable nodes and no majority looks at all of them
//! later. It then stays, waits in line or gives way, as `tie.rs` decides.
//!
//! Waits are random, so a client that may take a step will take it sooner or later. The lock is
//! therefore live if there is a path from each state to one in which all clients were served: a
//! livelock is a set of states without such a path. [`traps`] checks this for every state.

use std::collections::HashMap;

use stateright::Model;

/// The maximum number of nodes and clients.
const NODES: usize = 5;
const CLIENTS: [Who; 3] = [Who::Ann, Who::Bob, Who::Eve];

/// The clients, the nodes that they reach, and how they decide who stays.
#[derive(Clone, Debug)]
struct Split {
    majority: usize,
    /// The nodes that each client reaches, in its own order.
    reach: &'static [&'static [usize]],
    looks: Looks,
    first: First,
    last_resort: LastResort,
}

/// A client, by its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Who {
    Ann,
    Bob,
    Eve,
}

/// How a client finds out who holds the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    /// From all of them at the same time: there are too many states otherwise.
    AtOnce,
    /// From one after another, so that what it has seen may be outdated when it decides.
    OneByOne,
}

/// Which of the claims that split a vote stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// The first one by a rank that all clients see alike.
    ByRank,
    /// The one with the most nodes, and among equals the one with the first node, as this client
    /// sees it.
    ByNodes,
}

/// Whether the claim that stays gives way in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastResort {
    None,
    GivesWay,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; NODES],
    clients: [Client; CLIENTS.len()],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    holder: Option<Who>,
    line: [Option<Who>; CLIENTS.len()],
}

/// The state of a client; nodes are one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    /// It has replies from some nodes, and some of these have granted it the lock.
    Asking {
        told: u8,
        granted: u8,
    },
    /// It has found out who holds some nodes.
    Looking {
        looked: u8,
        seen: [Option<Who>; NODES],
    },
    /// It waits in line, or has given way, and may ask again at any time.
    Waiting,
    /// It withdraws its claim, and has done so at some nodes.
    Leaving {
        left: u8,
        is_served: bool,
    },
    Holding,
    Served,
}

impl Default for Client {
    fn default() -> Self {
        Self::Asking {
            told: 0,
            granted: 0,
        }
    }
}

/// A request of a client reaches a node, or the client takes a step by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Reach { client: Who, node: usize },
    AskAgain { client: Who },
    Decide { client: Who, choice: Choice },
    Release { client: Who },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Stay,
    Stand,
    GiveWay,
}

impl Model for Split {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut start = State::default();
        start.clients[self.reach.len()..].fill(Client::Served);
        vec![start]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (client, reach) in CLIENTS.into_iter().zip(self.reach) {
            let nodes = match state.clients[client as usize] {
                Client::Asking { told: done, .. }
                | Client::Looking { looked: done, .. }
                | Client::Leaving { left: done, .. } => {
                    reach.iter().filter(move |node| done & (1 << **node) == 0)
                }
                Client::Waiting => {
                    steps.push(Step::AskAgain { client });
                    continue;
                }
                Client::Holding => {
                    steps.push(Step::Release { client });
                    continue;
                }
                Client::Served => continue,
            };
            match self.seen(client, state) {
                None => steps.extend(nodes.map(|&node| Step::Reach { client, node })),
                Some(seen) => {
                    let choices = self.choices(client, &seen).into_iter().flatten();
                    steps.extend(choices.map(|choice| Step::Decide { client, choice }));
                }
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = *state;
        match step {
            Step::Reach { client, node } => self.arrive(&mut next, client, node),
            Step::AskAgain { client } => next.clients[client as usize] = Client::default(),
            Step::Decide { client, choice } => {
                next.clients[client as usize] = match choice {
                    Choice::Stay => Client::default(),
                    Choice::Stand => Client::Waiting,
                    Choice::GiveWay => leaving(false),
                }
            }
            Step::Release { client } => next.clients[client as usize] = leaving(true),
        }
        Some(next)
    }
}

impl Split {
    /// Handles a request at a node, and its reply at the client.
    fn arrive(&self, state: &mut State, who: Who, place: usize) {
        let (bit, reach) = (1 << place, self.reach[who as usize]);
        let node = &mut state.nodes[place];
        let client = &mut state.clients[who as usize];
        match client {
            Client::Asking { told, granted } => {
                *told |= bit;
                if node.ask(who) {
                    *granted |= bit;
                }
                if granted.count_ones() as usize >= self.majority {
                    *client = Client::Holding;
                } else if told.count_ones() as usize == reach.len() {
                    *client = match *granted {
                        0 => Client::Waiting,
                        _ => Client::Looking {
                            looked: 0,
                            seen: [None; NODES],
                        },
                    };
                }
            }
            Client::Looking { looked, seen } => {
                *looked |= bit;
                seen[place] = node.holder;
            }
            Client::Leaving { left, is_served } => {
                *left |= bit;
                node.leave(who);
                if left.count_ones() as usize == reach.len() {
                    *client = match is_served {
                        true => Client::Served,
                        false => Client::Waiting,
                    };
                }
            }
            Client::Waiting | Client::Holding | Client::Served => {}
        }
    }

    /// Returns who holds which nodes, for a client that has looked at all of them.
    fn seen(&self, who: Who, state: &State) -> Option<[Option<Who>; NODES]> {
        let Client::Looking { looked, mut seen } = state.clients[who as usize] else {
            return None;
        };
        let reach = self.reach[who as usize];
        if self.looks == Looks::AtOnce {
            for &node in reach {
                seen[node] = state.nodes[node].holder;
            }
            return Some(seen);
        }
        (looked.count_ones() as usize == reach.len()).then_some(seen)
    }

    /// Returns what a client that has seen this may do.
    fn choices(&self, who: Who, seen: &[Option<Who>; NODES]) -> [Option<Choice>; 2] {
        let count = |holder: Who| seen.iter().filter(|one| **one == Some(holder)).count();
        let others = || {
            CLIENTS
                .into_iter()
                .filter(|other| *other != who && count(*other) > 0)
        };
        if others().any(|other| count(other) >= self.majority) {
            return [Some(Choice::Stand), None];
        }
        let first_node = |holder: Who| {
            let mut nodes = self.reach[who as usize].iter();
            nodes.position(|node| seen[*node] == Some(holder))
        };
        let is_before = |other: Who| match self.first {
            First::ByRank => who < other,
            First::ByNodes => {
                let (own, its) = (count(who), count(other));
                own > its || (own == its && first_node(who) < first_node(other))
            }
        };
        if count(who) == 0 || !others().all(is_before) {
            [Some(Choice::GiveWay), None]
        } else if self.last_resort == LastResort::GivesWay {
            [Some(Choice::Stay), Some(Choice::GiveWay)]
        } else {
            [Some(Choice::Stay), None]
        }
    }
}

impl Node {
    /// Handles a request; returns whether it is granted.
    fn ask(&mut self, client: Who) -> bool {
        let holder = *self.holder.get_or_insert(client);
        if holder != client && !self.line.contains(&Some(client)) {
            let end = self.line.iter_mut().find(|place| place.is_none());
            *end.expect("there is a place for each") = Some(client);
        }
        holder == client
    }

    /// Removes a client, and hands over to the first in line.
    fn leave(&mut self, client: Who) {
        if let Some(place) = self.line.iter().position(|one| *one == Some(client)) {
            self.take(place);
        }
        if self.holder == Some(client) {
            self.holder = self.take(0);
        }
    }

    fn take(&mut self, place: usize) -> Option<Who> {
        let taken = self.line[place].take();
        self.line[place..].rotate_left(1);
        taken
    }
}

fn leaving(is_served: bool) -> Client {
    Client::Leaving { left: 0, is_served }
}

/// Returns how many states there are, and how many of them have no path to one in which all were
/// served.
fn traps(model: &Split) -> (usize, usize) {
    let mut numbers: HashMap<State, usize> = HashMap::new();
    let mut states = model.init_states();
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    numbers.insert(states[0], 0);
    let mut number = 0;
    while number < states.len() {
        let holds = |client: &&Client| **client == Client::Holding;
        let holders = states[number].clients.iter().filter(holds).count();
        assert!(holders <= 1, "{:?}", states[number]);
        for (_, next) in model.next_steps(&states[number]) {
            let new = states.len();
            let next_number = *numbers.entry(next).or_insert(new);
            if next_number == new {
                states.push(next);
                before.push(Vec::new());
            }
            before[next_number].push(number);
        }
        number += 1;
    }
    let is_over = |state: &State| state.clients.iter().all(|one| *one == Client::Served);
    let over = states.iter().map(is_over);
    let mut has_way: Vec<bool> = over.collect();
    let mut open: Vec<usize> = (0..states.len()).filter(|one| has_way[*one]).collect();
    while let Some(number) = open.pop() {
        for &one in &before[number] {
            if !std::mem::replace(&mut has_way[one], true) {
                open.push(one);
            }
        }
    }
    let trapped = has_way.iter().filter(|has| !**has).count();
    (states.len(), trapped)
}

/// Three nodes and three zones; clients in each zone list their own node first.
const ZONES: Split = Split {
    majority: 2,
    reach: &[&[0, 1, 2], &[1, 2, 0], &[2, 0, 1]],
    looks: Looks::AtOnce,
    first: First::ByRank,
    last_resort: LastResort::None,
};

/// Five nodes, one of them dead, and two clients that list them in opposite orders.
const OPPOSITE: Split = Split {
    majority: 3,
    reach: &[&[0, 1, 3, 4], &[4, 3, 1, 0]],
    looks: Looks::OneByOne,
    ..ZONES
};

/// Five nodes, and two clients that reach different majorities of them.
const PARTITION: Split = Split {
    majority: 3,
    reach: &[&[0, 1, 3], &[1, 3, 4]],
    looks: Looks::OneByOne,
    ..ZONES
};

/// Five nodes, and three clients that each reach a majority; these majorities have one node in
/// common.
const RING: Split = Split {
    majority: 3,
    reach: &[&[0, 1, 2], &[2, 3, 4], &[4, 0, 2]],
    ..ZONES
};

const ALL: [Split; 4] = [ZONES, OPPOSITE, PARTITION, RING];

#[test]
fn a_rank_that_all_see_alike_lets_everybody_be_served() {
    for model in ALL {
        let (states, trapped) = traps(&model);
        println!("{states} states");
        assert_eq!(trapped, 0, "{model:?}");
    }
}

#[test]
fn the_order_of_nodes_is_a_livelock() {
    for model in [ZONES, OPPOSITE, PARTITION] {
        let first = First::ByNodes;
        let (states, trapped) = traps(&Split { first, ..model });
        println!("{trapped} of {states} states");
        assert!(trapped > 0, "{model:?}");
    }
}

#[test]
fn giving_way_in_the_end_is_enough_for_everybody_to_be_served() {
    for model in [OPPOSITE, PARTITION, RING] {
        let model = Split {
            first: First::ByNodes,
            last_resort: LastResort::GivesWay,
            ..model
        };
        assert_eq!(traps(&model).1, 0, "{model:?}");
    }
}
