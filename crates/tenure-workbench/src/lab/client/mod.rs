//! A client of the lab: this program again, which locks, writes and halts as it is told on its standard input.

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use tokio::sync::mpsc;

use crate::lab::wire::{Order, Say, Step, Who};
use crate::parent::{Parent, tell};
use crate::recipes::{Reached, Recipe, Stage};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod claim;
mod tenure_lock;

use claim::Deed;
use tenure_lock::TenureLock;

/// Plays the part of one client.
pub(crate) async fn play() -> Result<ExitCode> {
    // Also while it stands still: it does not see then that the lab is gone.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    // One of the recipes crashes on purpose; nobody wants its memory on disk.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(std::io::Error::from)?;
    let (order, mut parent) = Parent::listen::<Order>("lab-client", "lab")?;
    match open(&order).await {
        Ok(recipe) => Client::new(order.process, recipe).play(&mut parent).await?,
        Err(failure) => tell(&Say::Failed(failure.to_string()))?,
    }
    Ok(exit_code::DONE)
}

async fn open(order: &Order) -> Result<Arc<dyn Recipe>> {
    match order.who {
        Who::Tenure => Ok(Arc::new(TenureLock::open(order).await?)),
        Who::Recipe(kind) => kind
            .open(&order.urls, order.ttl)
            .await
            .map_err(|trouble| Failure::new(exit_code::UNAVAILABLE, trouble.to_string())),
    }
}

/// What a client has under way.
#[derive(Debug)]
struct Client {
    process: u32,
    recipe: Arc<dyn Recipe>,
    claims: HashMap<u64, mpsc::UnboundedSender<Deed>>,
    /// The points at which it has to halt.
    halts: HashSet<String>,
    /// The points at which it halts.
    halted: HashMap<String, Reached>,
}

impl Client {
    fn new(process: u32, recipe: Arc<dyn Recipe>) -> Self {
        Self {
            process,
            recipe,
            claims: HashMap::new(),
            halts: HashSet::new(),
            halted: HashMap::new(),
        }
    }

    async fn play(mut self, parent: &mut Parent) -> Result<()> {
        let mut points = Stage::open().ok_or_else(|| parent.not_by_hand())?;
        tell(&Say::Ready)?;
        loop {
            tokio::select! {
                step = parent.hear() => match step? {
                    Step::End => return Ok(()),
                    step => self.take(step),
                },
                Some(reached) = points.recv() => self.reached(reached)?,
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Lock { claim, name } => {
                let (deeds, told) = mpsc::unbounded_channel();
                self.claims.insert(claim, deeds);
                let claim = claim::Claim::new(claim, self.process, name);
                tokio::spawn(claim.play(Arc::clone(&self.recipe), told));
            }
            Step::Read { claim } => self.tell(claim, Deed::Read),
            Step::Version { claim, version } => self.tell(claim, Deed::Version(version)),
            Step::Write { claim } => self.tell(claim, Deed::Write),
            Step::Written { claim } => self.tell(claim, Deed::Written),
            Step::Release { claim } => self.tell(claim, Deed::Release),
            Step::Halt { point } => {
                self.halts.insert(point);
            }
            Step::Go { point } => {
                // Dropping it is the sign to go on.
                self.halted.remove(&point);
            }
            Step::End => {}
        }
    }

    fn tell(&self, claim: u64, deed: Deed) {
        if let Some(deeds) = self.claims.get(&claim) {
            // A claim that is over has nothing left to do.
            let _ = deeds.send(deed);
        }
    }

    /// Halts if it was told so; otherwise the call goes on.
    fn reached(&mut self, reached: Reached) -> Result<()> {
        if !self.halts.remove(reached.point) {
            return Ok(());
        }
        let point = reached.point.to_owned();
        self.halted.insert(point.clone(), reached);
        tell(&Say::At { point })
    }
}
