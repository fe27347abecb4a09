//! A process of the benchmark: plays the part that it is told on its standard input.

use std::process::ExitCode;

use crate::bench::clock::now_ns;
use crate::bench::contender::{Contender, Source};
use crate::bench::figures::Figures;
use crate::bench::wire::{Answer, Order, Part, Step, Times};
use crate::parent::{Parent, tell};
use tenure_cli::error::Result;
use tenure_cli::exit_code;
use tenure_cli::store::Store;

mod held;
mod loops;

/// Plays one part.
pub(crate) async fn play(store: &Store) -> Result<ExitCode> {
    let (order, mut parent) = Parent::listen("bench-child", "bench")?;
    match part(store, order, &mut parent).await {
        Ok(answer) => tell(&answer)?,
        Err(failure) => tell(&Answer::Failed(failure.to_string()))?,
    }
    Ok(exit_code::DONE)
}

async fn part(store: &Store, order: Order, parent: &mut Parent) -> Result<Answer> {
    let Order {
        name,
        who,
        ttl,
        keep,
        part,
    } = order;
    let source = Source::open(who, ttl, keep, store).await?;
    let answer = act(&source, &name, part, parent).await;
    source.settled().await;
    answer
}

async fn act(source: &Source, name: &str, part: Part, parent: &mut Parent) -> Result<Answer> {
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
    Ok(Answer::Done(figures))
}

/// Locks and releases when told, and notes when.
async fn steps(mut contender: impl Contender, parent: &mut Parent) -> Result<Answer> {
    let mut times = Times::default();
    tell(&Answer::Ready)?;
    loop {
        match parent.hear().await? {
            Step::Lock => {
                times.asked.push(now_ns());
                contender.acquire().await?;
                times.locked.push(now_ns());
                tell(&Answer::Held)?;
            }
            Step::Release => {
                times.let_go.push(now_ns());
                contender.release().await?;
            }
            Step::Go { .. } | Step::End => return Ok(Answer::Times(times)),
        }
    }
}

/// Says that all is ready, and waits for the moment to begin.
async fn ready(parent: &mut Parent) -> Result<u64> {
    tell(&Answer::Ready)?;
    match parent.hear().await? {
        Step::Go { at_ns } => Ok(at_ns),
        _ => Err(parent.not_by_hand()),
    }
}
