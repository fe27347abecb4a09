//! Runs a plan from its start to its end, in virtual time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::driver::Driver;
use tenure::store::redlock::simulation::{self as redlock, Node};
use tenure::{Client, Name, Owner};
use tenure_checker::{History, What};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::bugs::Bug;
use crate::driver::SimDriver;
use crate::faults;
use crate::monitor;
use crate::network::{self, Link};
use crate::plan::{Plan, StorePlan, TaskPlan};
use crate::record::{Breach, Line};
use crate::sql;
use crate::store::Store;
use crate::workload::{Process, Task, millis};
use crate::world::World;

/// The result of a run, before it is judged.
#[derive(Debug, PartialEq)]
pub struct Ran {
    /// What the clients recorded.
    pub history: History,
    /// What was observed to be wrong while it happened.
    pub breaches: Vec<Breach>,
    /// What happened, for people; empty unless requested.
    pub lines: Vec<Line>,
}

/// Runs a plan; the same plan produces the same run.
pub fn run(plan: &Plan, bug: Option<Bug>, with_lines: bool) -> Ran {
    // The library chooses the id of this process once. This must not use the seed of the first run.
    drop(Owner::current());
    tenure::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => unreachable!("a runtime without I/O needs nothing of the system: {error}"),
    };
    runtime.block_on(async {
        let world = World::new(plan, bug, with_lines);
        simulate(&world).await;
        world.close();
        let (history, breaches, lines) = world.recorder.finish();
        Ran {
            history,
            breaches,
            lines,
        }
    })
}

async fn simulate(world: &Arc<World>) {
    let crew = Arc::new(Crew::default());
    let wire = tokio::spawn(network::deliver(Arc::clone(world)));
    for client in 0..world.plan.clients.len() {
        crew.start(world, client, 0);
    }
    let watch = world
        .plan
        .is_watched()
        .then(|| tokio::spawn(monitor::watch(Arc::clone(world))));
    let sweeps = world
        .plan
        .is_swept()
        .then(|| tokio::spawn(sql::sweep(Arc::clone(world))));
    let faults = world.plan.faults.iter().map(|fault| {
        tokio::spawn(faults::make(
            Arc::clone(world),
            Arc::clone(&crew),
            fault.clone(),
        ))
    });
    let faults: Vec<_> = faults.collect();
    let healed = tokio::time::Instant::now() + world.plan.healed();
    for fault in faults {
        // A panic in a fault is a bug of the simulator, and prints its own message.
        let _ = fault.await;
    }
    tokio::time::sleep_until(healed).await;
    world.recorder.note(0, What::Healed);
    let done = timeout(world.plan.patience() + Duration::from_secs(1), crew.done()).await;
    world.sample();
    world.compare();
    if done.is_err() && world.beliefs().pending.is_empty() {
        world
            .recorder
            .breach("liveness", || "a task did not come to its end".to_owned());
    }
    if done.is_ok() {
        settle(world, &crew).await;
    }
    for task in [watch, sweeps].into_iter().flatten() {
        task.abort();
    }
    // Shows how long those that still wait have waited.
    world.recorder.note(
        0,
        What::Over {
            kind: "run".to_owned(),
            target: None,
        },
    );
    if done.is_ok() {
        look_for_leftovers(world, &crew).await;
        for process in crew.living() {
            let ended = What::Ended { crashed: false };
            world.recorder.note(process.link.process, ended);
        }
    }
    crew.end();
    wire.abort();
}

/// Waits until every client is at rest.
async fn settle(world: &Arc<World>, crew: &Crew) {
    for process in crew.living() {
        let Some(client) = process.client() else {
            continue;
        };
        if timeout(world.plan.patience(), client.settled())
            .await
            .is_err()
        {
            let who = process.link.called();
            world
                .recorder
                .breach("liveness", || format!("client {who} does not come to rest"));
        }
    }
    if world.plan.is_calm() {
        // Clients that were dropped cannot report when they are at rest.
        sleep(millis(world.plan.slowest_way_ms(6) + 10)).await;
        monitor::look_at_rest(world);
    } else if let Some(tidy) = world.plan.tidy_after().filter(|_| world.plan.is_redlock()) {
        sleep(tidy).await;
        monitor::look_at_rest(world);
    }
}

/// Ends all clients, waits for the longest lease, and checks what is left.
async fn look_for_leftovers(world: &Arc<World>, crew: &Crew) {
    for process in crew.living() {
        process.drop_client();
    }
    let longest = world.plan.longest_ttl();
    sleep(longest + longest / 50).await;
    while !world.wire.is_empty() {
        sleep(longest).await;
    }
    for (number, store) in world.stores.iter().enumerate() {
        let called = world.called(number);
        for name in &world.names {
            if !comes_free(world, store, name).await {
                let found = format!("a lease on {name} that never ends in {called}");
                world.recorder.note(0, What::Left { found });
                return;
            }
        }
        for entry in store.look(None) {
            let found = format!(
                "{} with {} holders and {} waiters in {called}",
                entry.name,
                entry.holders.len(),
                entry.waiters.len()
            );
            world.recorder.note(0, What::Left { found });
        }
    }
}

/// Returns whether a name becomes available once everything left in its line has had its turn.
///
/// A server that votes lets waiters ask again before long, whatever they wait for.
async fn comes_free(world: &World, store: &Store, name: &Name) -> bool {
    let id = tenure::ClaimId::unique();
    let entries = store.look(Some(name));
    let left = entries
        .iter()
        .map(|entry| entry.waiters.len() + entry.holders.len());
    let mut tries = 2 * left.sum::<usize>() + 4;
    while let Some(again) = store.probe(name, &id) {
        tries -= 1;
        if tries == 0 {
            return false;
        }
        let again = if world.plan.is_redlock() {
            world.plan.longest_ttl().mul_f64(1.01)
        } else {
            again.min(Duration::from_secs(60))
        };
        sleep(again + Duration::from_millis(2)).await;
    }
    true
}

/// Returns the driver of a process: that of its single server, or redlock over all of them.
fn driver(world: &Arc<World>, links: &[Arc<Link>]) -> Arc<dyn Driver> {
    let node = |link: &Arc<Link>| SimDriver(Arc::clone(link));
    match world.plan.store {
        StorePlan::Single => Arc::new(node(&links[0])),
        StorePlan::Sql { connections, .. } => sql::driver(&links[0], connections),
        StorePlan::Redlock {
            restart_delay_ms, ..
        } => {
            for link in links {
                tokio::spawn(network::keep_connected(Arc::clone(link)));
            }
            let nodes = links
                .iter()
                .map(|link| Arc::new(node(link)) as Arc<dyn Node>);
            let client = redlock::client(
                nodes.collect(),
                restart_delay_ms.map(millis),
                world.planted.tie_rule(),
            );
            world.planted.around(client, &links[0].clock)
        }
    }
}

/// The processes of a run and their tasks.
#[derive(Debug, Default)]
pub(crate) struct Crew(Mutex<Vec<Member>>);

#[derive(Debug)]
struct Member {
    process: Arc<Process>,
    tasks: Vec<JoinHandle<()>>,
    is_killed: bool,
}

impl Crew {
    /// Starts a process of a client: its first, or one after a restart.
    fn start(&self, world: &Arc<World>, client: usize, generation: u32) {
        let plan = &world.plan.clients[client];
        let number = u32::try_from(client).unwrap_or(u32::MAX) + 1 + 10 * generation;
        let links = world.open_links(client, number);
        world.recorder.note(number, What::Started);
        let engine = Client::with_driver(driver(world, &links));
        let process = Arc::new(Process::new(world, Arc::clone(&links[0]), engine, plan));
        let tasks = if generation == 0 {
            &plan.tasks
        } else {
            &plan.after_restart
        };
        let tasks = tasks.iter().enumerate();
        let tasks = tasks.map(|(number, TaskPlan { start_ms, steps })| {
            let task = Task {
                world: Arc::clone(world),
                process: Arc::clone(&process),
                number,
            };
            tokio::spawn(task.follow(*start_ms, steps.clone()))
        });
        let tasks = tasks.collect();
        self.members().push(Member {
            process,
            tasks,
            is_killed: false,
        });
    }

    /// Starts another process to replace one that was killed.
    pub(crate) fn restart(&self, world: &Arc<World>, client: usize) {
        let members = self.members();
        let before = members
            .iter()
            .filter(|member| member.process.link.client == client);
        let generation = u32::try_from(before.count()).unwrap_or(u32::MAX);
        drop(members);
        world
            .recorder
            .line(|| format!("client {} starts again", client + 1));
        self.start(world, client, generation);
    }

    /// Kills a process: its tasks are gone, and it sends no more messages.
    pub(crate) fn kill(&self, world: &Arc<World>, link: &Arc<Link>) {
        link.clock.end();
        world.forget_process(link.process);
        let mut members = self.members();
        for member in members
            .iter_mut()
            .filter(|it| it.process.link.process == link.process)
        {
            member.is_killed = true;
            for task in &member.tasks {
                task.abort();
            }
        }
        if let Some(after_ms) = world.plan.setting.sees_ends_after_ms {
            let (world, id) = (Arc::clone(world), link.id);
            tokio::spawn(async move {
                sleep(millis(after_ms)).await;
                world
                    .recorder
                    .line(|| "the store sees that a client has ended".to_owned());
                world.stores.iter().for_each(|store| store.disconnect(id));
                world.tell_news();
            });
        }
    }

    /// Waits until all tasks are done.
    async fn done(&self) {
        loop {
            let task = {
                let mut members = self.members();
                members.iter_mut().find_map(|member| member.tasks.pop())
            };
            let Some(task) = task else {
                return;
            };
            // A killed task is done as well; a panic prints its own message.
            let _ = task.await;
        }
    }

    /// Returns the processes that were not killed.
    fn living(&self) -> Vec<Arc<Process>> {
        let members = self.members();
        let living = members.iter().filter(|member| !member.is_killed);
        living.map(|member| Arc::clone(&member.process)).collect()
    }

    /// Ends all tasks that are still running.
    fn end(&self) {
        for member in self.members().drain(..) {
            for task in &member.tasks {
                task.abort();
            }
        }
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
