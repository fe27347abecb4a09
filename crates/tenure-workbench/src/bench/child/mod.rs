//! A process of the benchmark: runs the part that its parent sends it.

use std::process::ExitCode;

use tenure_testkit::Parent;

use crate::bench::contender::{Contender, Source};
use crate::bench::figures::Figures;
use crate::bench::messages::{Message, Part, Setup, Step, Times};
use crate::clock::now_ns;
use crate::process::{OrFail, failure};
use tenure_cli::{Result, Store, exit_code};

mod held;
mod loops;

/// Runs one part.
pub(crate) async fn run(store: &Store) -> Result<ExitCode> {
    let (setup, mut parent) = Parent::listen("bench-child", "tenure bench").or_fail()?;
    let done = part(store, setup, &mut parent).await;
    Parent::send(&done.unwrap_or_else(|failure| Message::Failed(failure.to_string())))?;
    Ok(exit_code::DONE)
}

async fn part(store: &Store, setup: Setup, parent: &mut Parent) -> Result<Message> {
    let source = Source::open(setup.who, setup.ttl, setup.keep, store).await?;
    let done = act(&source, &setup.name, setup.part, parent).await;
    source.settled().await;
    done
}

async fn act(source: &Source, name: &str, part: Part, parent: &mut Parent) -> Result<Message> {
    let figures = match part {
        Part::Pairs { time } => loops::pairs(source.contender(name)?, time, parent).await?,
        Part::Turns { time } => loops::turns(source.contender(name)?, time, parent).await?,
        Part::Tasks {
            tasks,
            names,
            work,
            time,
        } => {
            let name_of = |task: u32| match names {
                1 => name.to_owned(),
                _ => format!("{name}/{}", task % names),
            };
            let all = (0..tasks).map(|task| source.contender(&name_of(task)));
            let all = all.collect::<Result<Vec<_>>>()?;
            loops::tasks(all, work, time, parent).await?
        }
        Part::Crowd { rest, time } => {
            loops::crowd(source.contender(name)?, rest, time, parent).await?
        }
        Part::Steps => return steps(source.contender(name)?, parent).await,
        Part::Idle { waiters, time } => {
            held::idle(source.client()?, name, waiters, time, parent).await?
        }
        Part::Many { leases, ttl, time } => {
            held::many(source.client()?, name, leases, ttl, time, parent).await?
        }
    };
    Ok(Message::Figures(figures))
}

/// Locks and releases when told to, and records the times.
async fn steps(mut contender: Contender, parent: &mut Parent) -> Result<Message> {
    let mut times = Times::default();
    Parent::send(&Message::Ready)?;
    loop {
        match parent.next().await.or_fail()? {
            Step::Lock => {
                times.asked.push(now_ns());
                contender.acquire().await?;
                times.locked.push(now_ns());
                Parent::send(&Message::Locked)?;
            }
            Step::Release => {
                times.let_go.push(now_ns());
                contender.release().await?;
            }
            Step::Go { .. } | Step::End => return Ok(Message::Times(times)),
        }
    }
}

/// Reports that this process is ready, and waits for the time to begin.
async fn ready(parent: &mut Parent) -> Result<u64> {
    Parent::send(&Message::Ready)?;
    match parent.next().await.or_fail()? {
        Step::Go { at_ns } => Ok(at_ns),
        _ => Err(failure(parent.not_by_hand())),
    }
}
