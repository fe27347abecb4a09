//! A client of a torture run: a process that locks, works and releases until it is told to finish.
//!
//! Two tasks share one client of the store, so that there is a local line as well. A third task has
//! its own client. They choose at random what to do, from a seed.

use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use tenure::Client;
use tenure_testkit::Parent;

use crate::process::OrFail;
use tenure_cli::{Failure, Result, Store, exit_code};

use super::messages::{FINISH, Message, Setup};
use notes::Notes;
use task::Task;

mod ask;
mod choices;
mod held;
mod notes;
mod register_client;
mod task;

/// Runs one client.
pub(crate) async fn run(store: &Store) -> Result<ExitCode> {
    let (setup, mut parent): (Setup, _) =
        Parent::listen("torture-client", "tenure torture").or_fail()?;
    let notes = Notes::new(setup.process);
    let finish = Rc::new(Cell::new(false));
    let told = async {
        while let Ok(told) = parent.next::<String>().await {
            if told == FINISH {
                finish.set(true);
            }
        }
        // The thread that reads messages ends the process before this returns.
        std::future::pending::<()>().await;
    };
    let worked = tokio::select! {
        worked = work(store, setup, &notes, &finish) => worked,
        () = told => Ok(()),
    };
    if let Err(failure) = &worked {
        notes.send(&Message::Failed(failure.to_string()));
    }
    worked.map(|()| exit_code::DONE)
}

async fn work(store: &Store, setup: Setup, notes: &Notes, finish: &Rc<Cell<bool>>) -> Result<()> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        match open(store, finish).await? {
            Some(client) => clients.push(client),
            None => return Ok(()),
        }
    }
    let tasks = tokio::task::LocalSet::new();
    let mut ends = Vec::new();
    for (number, client) in (0..TASKS).zip(clients.iter().cycle()) {
        let task = Task::new(client, &setup, number, notes, finish).await?;
        ends.push(tasks.spawn_local(task.run()));
    }
    let all = async {
        for end in ends {
            end.await.map_err(|error| {
                Failure::unavailable(format!("a task of the client failed: {error}"))
            })??;
        }
        // Dropped guards are released in the background.
        for client in &clients {
            client.settled().await;
        }
        Ok(())
    };
    tasks.run_until(all).await
}

/// Opens the store, which may be down at the moment; returns `None` if it is time to finish.
async fn open(store: &Store, finish: &Cell<bool>) -> Result<Option<Client>> {
    while !finish.get() {
        match tenure::open(store.url()).await {
            Ok(client) => return Ok(Some(client)),
            Err(tenure::Error::Unavailable { .. } | tenure::Error::Indeterminate { .. }) => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// How many clients of the store a process has.
const CLIENTS: u32 = 2;

/// How many tasks of a process lock at the same time.
const TASKS: u32 = 3;

/// When to retry to open a store that is down.
const AGAIN: Duration = Duration::from_millis(50);
