//! `tenure run`: holds a lock around a command.

mod child;
pub(crate) mod guardian;
pub(crate) mod raw;
mod supervise;
mod terminal;

use std::process::ExitCode;
use std::time::Duration;

use rustix::process::Signal;
use tenure::{Client, Guard, Health, Loss, Name, Outcome, Owner};
use tokio::time::timeout;

use crate::ask::{self, LONGEST_GOODBYE, SHORT_GOODBYE, Wait};
use crate::cli::RunArgs;
use crate::duration::Rounded;
use crate::error::{Failure, Result};
use crate::exit_code;
use crate::run::child::{Child, Exit};
use crate::run::guardian::Guardian;
use crate::run::supervise::{Ended, Supervisor, cause};
use crate::signals::Signals;
use crate::store::Store;

/// Waits for the lock, runs the command, and releases the lock.
pub(crate) async fn run(store: &Store, args: RunArgs) -> Result<ExitCode> {
    let name = Name::new(&args.name)?;
    let mut signals = Signals::listen()?;
    let mut wait = args.ask.wait();
    let client = signals.unless(wait.open(store)).await??;
    let guard = granted(&client, &name, &args, wait, &mut signals).await?;
    let ended = match start(&guard, &args, store) {
        Ok((child, guardian)) => Supervisor::new(&guard, child, guardian, &args)
            .keep(&mut signals)
            .await
            .map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let is_away = matches!(ended, Ok(Ended::Early(_))) && is_store_away(&guard);
    if !is_away {
        let released = let_go(guard, LONGEST_GOODBYE).await;
        ask::settle(&client).await;
        return finish(&name, ended?, released);
    }
    // A lease that is over needs no release.
    let patience = SHORT_GOODBYE.min(guard.time_left());
    let released = let_go(guard, patience).await;
    finish(&name, ended?, released).map_err(Failure::while_store_is_away)
}

/// Returns whether the store does not answer renewals.
fn is_store_away(guard: &Guard) -> bool {
    matches!(
        guard.health(),
        Health::AtRisk | Health::Lost(Loss::Unreachable)
    )
}

/// Waits for the lock, unless a signal arrives first.
async fn granted(
    client: &Client,
    name: &Name,
    args: &RunArgs,
    mut wait: Wait,
    signals: &mut Signals,
) -> Result<Guard> {
    let mut lock = args.ask.lock(client, name)?;
    warn_of_a_short_ttl(client, args);
    if !args.ask.has_owner() && client.capabilities().shared_owners {
        // Commands that the command runs may share its lock: they find the owner in TENURE_OWNER.
        lock = lock.owner(Owner::unique());
    }
    if let Some(shortest) = args.at_least {
        lock = lock.at_least(shortest);
    }
    if let Some(longest) = args.max_hold {
        lock = lock.max_hold(longest);
    }
    let nesting = args.ask.check_nesting(client, name);
    signals.unless(nesting).await??;
    let answer = signals.unless(wait.guard(client, &lock, name)).await;
    let failure = match answer {
        Ok(Ok(guard)) => return Ok(guard),
        Ok(Err(failure)) if failure.is_busy() => failure.with_code(args.busy_code),
        Ok(Err(failure)) => failure,
        Err(signal) => signal.into(),
    };
    ask::settle_after(client, &failure).await;
    Err(failure)
}

/// Warns if a single lost reply would end the lease.
fn warn_of_a_short_ttl(client: &Client, args: &RunArgs) {
    let ttl = args.ask.ttl;
    let least = client.capabilities().shortest_safe_ttl();
    if let Some(timeout) = client.capabilities().timeout
        && ttl < least
        && !args.ask.quiet
    {
        let (ttl, least, timeout) = (Rounded(ttl), Rounded(least), Rounded(timeout));
        anstream::eprintln!(
            "tenure: --ttl {ttl} is short for a store whose replies may take {timeout}: one lost reply can \
             end the lease; use --ttl {least}, or set a shorter timeout in the store's URL"
        );
    }
}

/// Starts the command and its guardian.
fn start(guard: &Guard, args: &RunArgs, store: &Store) -> Result<(Child, Guardian)> {
    let mut guardian = Guardian::start().map_err(|error| {
        let sentence = format!("the command was not started, no process can be made: {error}");
        Failure::new(exit_code::CANNOT_RUN, sentence)
    })?;
    // Set before the command starts: `tenure` may be stopped as soon as it runs.
    guardian.end_after(guard.time_left());
    let mut environment = vec![
        ("TENURE_NAME", guard.name().to_string()),
        ("TENURE_FENCE", guard.fence().to_string()),
    ];
    if let Some(owner) = guard.owner() {
        environment.push(("TENURE_OWNER", owner.to_string()));
    }
    environment.extend(store.environment());
    match Child::start(&args.command, &environment, &guardian) {
        Ok(child) => Ok((child, guardian)),
        Err(failure) => {
            guardian.dismiss();
            Err(failure)
        }
    }
}

/// Releases the lock, and waits for the reply for `patience`.
async fn let_go(guard: Guard, patience: Duration) -> Released {
    let cause = cause(&guard);
    match timeout(patience, guard.release()).await {
        Ok(Ok(Outcome::NotHeld(loss @ (Loss::Expired | Loss::Unreachable)))) => {
            let cause = cause.map(|cause| format!(": {cause}"));
            Released::WasLost(format!("{loss}{}", cause.unwrap_or_default()))
        }
        Ok(Ok(Outcome::NotHeld(loss))) => Released::WasLost(loss.to_string()),
        Ok(Ok(_)) => Released::Yes,
        Ok(Err(error)) => Released::Unknown(Failure::from(error).to_string()),
        Err(_) => Released::Unknown("the store does not answer".to_owned()),
    }
}

/// The result of the release.
enum Released {
    Yes,
    WasLost(String),
    Unknown(String),
}

/// Turns the result into an exit code and, if needed, a message.
fn finish(name: &Name, ended: Ended, released: Released) -> Result<ExitCode> {
    match (ended, released) {
        (Ended::Early(why), _) => Err(Failure::new(
            exit_code::LOST,
            format!("the command was ended because '{name}' could not be kept: {why}"),
        )),
        (Ended::ByItself(_), Released::WasLost(why)) => {
            let sentence = format!("'{name}' was lost before the command ended: {why}");
            Err(Failure::new(exit_code::LOST, sentence))
        }
        (Ended::ByItself(Exit::Code(code)), Released::Yes) => Ok(ExitCode::from(code)),
        (Ended::ByItself(Exit::Signal(death)), Released::Yes) => {
            Err(Failure::silent(0).dying(death))
        }
        (Ended::ByItself(exit), Released::Unknown(why)) => {
            let sentence = format!("'{name}' was not released, its lease ends by itself: {why}");
            Err(match exit {
                Exit::Code(code) => Failure::new(code, sentence),
                Exit::Signal(death) => Failure::new(0, sentence).dying(death),
            })
        }
    }
}

/// Signals that stop and continue the command. They do not matter before it runs.
const JOB_CONTROL: [Signal; 2] = [Signal::TSTP, Signal::CONT];
