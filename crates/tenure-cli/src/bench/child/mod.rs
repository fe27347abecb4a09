//! A process of the benchmark: plays the part that it is told on its standard input.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::bench::clock::now_ns;
use crate::bench::contender::{Contender, Source};
use crate::bench::figures::Figures;
use crate::bench::wire::{Answer, Order, Part, Step, Times};
use crate::error::{Failure, Result};
use crate::exit_code;
use crate::store::Store;

mod held;
mod loops;

/// Plays one part.
pub(crate) async fn play(store: &Store) -> Result<ExitCode> {
    let mut parent = Parent::listen();
    let order: Order = parent.hear().await?;
    match part(store, order, &mut parent).await {
        Ok(answer) => parent.tell(&answer)?,
        Err(failure) => parent.tell(&Answer::Failed(failure.to_string()))?,
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
    parent.tell(&Answer::Ready)?;
    loop {
        match parent.hear().await? {
            Step::Lock => {
                times.asked.push(now_ns());
                contender.acquire().await?;
                times.locked.push(now_ns());
                parent.tell(&Answer::Held)?;
            }
            Step::Release => {
                times.let_go.push(now_ns());
                contender.release().await?;
            }
            Step::Go { .. } | Step::End => return Ok(Answer::Times(times)),
        }
    }
}

/// The process that started this one.
#[derive(Debug)]
struct Parent(mpsc::UnboundedReceiver<String>);

impl Parent {
    /// Listens on a thread of its own, so that this process ends with its parent, whatever it is
    /// doing or blocked by.
    fn listen() -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                // Nobody listens when the part is over.
                let _ = sender.send(line);
            }
            end_now();
        });
        Self(lines)
    }

    async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.0.recv().await.ok_or_else(not_by_hand)?;
        serde_json::from_str(&line).map_err(|_| not_by_hand())
    }

    fn tell(&self, answer: &Answer) -> Result<()> {
        let mut text = serde_json::to_string(answer).map_err(std::io::Error::from)?;
        text.push('\n');
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Says that all is ready, and waits for the moment to begin.
    async fn ready(&mut self) -> Result<u64> {
        self.tell(&Answer::Ready)?;
        match self.hear().await? {
            Step::Go { at_ns } => Ok(at_ns),
            _ => Err(not_by_hand()),
        }
    }
}

#[expect(
    clippy::exit,
    reason = "the parent is gone, and nothing is worth cleaning up"
)]
fn end_now() {
    std::process::exit(0);
}

fn not_by_hand() -> Failure {
    let sentence = "bench-child is a part of 'tenure bench' and not called by hand";
    Failure::new(exit_code::USAGE, sentence)
}
