//! A client of the lab: this program again, which locks, writes and stops at breakpoints on
//! command.

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, setrlimit};
use tenure::Owner;
use tenure_testkit::Parent;
use tokio::sync::mpsc;

use crate::lab::messages::{Action, Message, Setup, Step, Who};
use crate::lab::{NAME, cases};
use crate::process::{OrFail, failure};
use crate::recipes::breakpoint::{self, Reached};
use crate::recipes::{self, AnyLock};
use tenure_cli::{Result, exit_code};

mod claim;

use claim::Claim;

/// Runs one client.
pub(crate) async fn run() -> Result<ExitCode> {
    // One of the recipes crashes on purpose, and nobody needs its core dump.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(std::io::Error::from)?;
    let (setup, mut parent): (Setup, _) = Parent::listen("lab-client", "tenure lab").or_fail()?;
    match open(&setup).await {
        Ok(lock) => {
            let client = Client {
                process: setup.process,
                lock: Arc::new(lock),
                claims: HashMap::new(),
                breakpoints: HashSet::new(),
                waiting: HashMap::new(),
            };
            client.run(&mut parent).await?;
        }
        Err(error) => Parent::send(&Message::Failed(error.to_string()))?,
    }
    Ok(exit_code::DONE)
}

/// Opens the broken lock, or tenure instead.
async fn open(setup: &Setup) -> recipes::Result<AnyLock> {
    let Setup { who, urls, ttl, .. } = setup;
    match who {
        Who::Broken(name) => {
            let recipe = cases::recipe(name).ok_or(recipes::Error::NoRecipe)?;
            AnyLock::of_recipe(recipe, urls, *ttl).await
        }
        Who::Tenure => {
            let client = tenure::open(urls.first().map_or("", String::as_str)).await?;
            // One owner for the whole process, as nested calls need it.
            let lock = client.mutex(NAME).ttl(*ttl).owner(Owner::unique());
            Ok(AnyLock::Tenure(lock))
        }
    }
}

/// The state of a client.
#[derive(Debug)]
struct Client {
    process: u32,
    lock: Arc<AnyLock>,
    claims: HashMap<u64, mpsc::UnboundedSender<Action>>,
    /// The breakpoints at which it must wait.
    breakpoints: HashSet<String>,
    /// The calls that wait at a breakpoint.
    waiting: HashMap<String, Reached>,
}

impl Client {
    async fn run(mut self, parent: &mut Parent) -> Result<()> {
        let reached = breakpoint::listen();
        let mut reached = reached.ok_or_else(|| failure(parent.not_by_hand()))?;
        Parent::send(&Message::Ready)?;
        loop {
            tokio::select! {
                step = parent.next() => match step.or_fail()? {
                    Step::End => return Ok(()),
                    step => self.take(step),
                },
                Some(reached) = reached.recv() => self.reached(reached)?,
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Lock { claim, name } => {
                let (sender, actions) = mpsc::unbounded_channel();
                self.claims.insert(claim, sender);
                let claim = Claim {
                    number: claim,
                    process: self.process,
                    name,
                };
                tokio::spawn(claim.run(Arc::clone(&self.lock), actions));
            }
            Step::Hold { claim, action } => {
                if let Some(actions) = self.claims.get(&claim) {
                    // A claim that has ended has nothing left to do.
                    let _ = actions.send(action);
                }
            }
            Step::BreakAt { point } => {
                self.breakpoints.insert(point);
            }
            // Dropping it is the signal to continue.
            Step::Continue { point } => drop(self.waiting.remove(&point)),
            Step::End => {}
        }
    }

    /// Holds the call if the lab has set this breakpoint; otherwise it continues.
    fn reached(&mut self, reached: Reached) -> Result<()> {
        if !self.breakpoints.remove(reached.point) {
            return Ok(());
        }
        let point = reached.point.to_owned();
        self.waiting.insert(point.clone(), reached);
        Ok(Parent::send(&Message::At { point })?)
    }
}
