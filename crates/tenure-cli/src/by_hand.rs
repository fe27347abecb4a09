//! `acquire`, `renew` and `release`: leases that belong to no process, for scripts.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use tenure::{Fence, Lease, Loss, Name, Outcome, Owner};

use crate::cli::{AcquireArgs, HeldArgs, ReleaseArgs, RenewArgs};
use crate::error::{Failure, Result};
use crate::output::{millis, print_json, quote};
use crate::signals::Signals;
use crate::store::Store;
use crate::{ask, exit_code};

/// Takes a lease and prints it.
pub(crate) async fn acquire(store: &Store, args: AcquireArgs) -> Result<ExitCode> {
    let name = Name::new(&args.name)?;
    let mut signals = Signals::listen()?;
    let client = store.open().await?;
    let lock = args.ask.lock(&client, &name)?;
    let granted = signals.unless(args.ask.lease(&lock, &name)).await;
    ask::settle(&client).await;
    let lease = granted.map_err(|signal| Failure::silent(exit_code::of_signal(signal)))??;
    match args.json {
        true => print_json(&LeaseJson::from(&lease))?,
        false => print_assignments(&lease)?,
    }
    Ok(exit_code::DONE)
}

/// Restarts the ttl of a lease and prints it.
pub(crate) async fn renew(store: &Store, args: RenewArgs) -> Result<ExitCode> {
    let mut lease = args.held.lease(&args.name)?;
    lease.ttl = args.ttl;
    // The library checks options where a lock is asked for, and so not here.
    if args.ttl.is_zero() {
        let sentence = "invalid ttl: it is zero; write for example --ttl 30s";
        return Err(Failure::new(exit_code::USAGE, sentence));
    }
    let client = store.open().await?;
    let renewed = client.renew(&lease).await;
    ask::settle(&client).await;
    match renewed? {
        Ok(fence) => lease.fence = Some(fence),
        Err(loss) => return Err(not_held(&lease, loss, "renewed")),
    }
    match args.held.json {
        true => print_json(&LeaseJson::from(&lease))?,
        false => print_assignments(&lease)?,
    }
    Ok(exit_code::DONE)
}

/// Frees a lease.
pub(crate) async fn release(store: &Store, args: ReleaseArgs) -> Result<ExitCode> {
    let lease = args.held.lease(&args.name)?;
    let client = store.open().await?;
    let released = client.release(&lease).await;
    ask::settle(&client).await;
    if let Outcome::NotHeld(loss) = released? {
        return Err(not_held(&lease, loss, "released"));
    }
    if args.held.json {
        print_json(&ReleasedJson {
            name: lease.name.as_str(),
            released: true,
        })?;
    }
    Ok(exit_code::DONE)
}

impl HeldArgs {
    fn lease(&self, name: &str) -> Result<Lease> {
        let zero = || Failure::new(exit_code::USAGE, "invalid fence: it is zero");
        let fence = self.fence.map(|number| Fence::new(number).ok_or_else(zero));
        Ok(Lease {
            name: Name::new(name)?,
            owner: Owner::named(&self.owner)?,
            fence: fence.transpose()?,
            ttl: tenure::DEFAULT_TTL,
        })
    }
}

#[derive(Debug, Serialize)]
struct LeaseJson<'a> {
    name: &'a str,
    owner: &'a str,
    fence: Option<u64>,
    ttl_ms: u64,
}

impl<'a> From<&'a Lease> for LeaseJson<'a> {
    fn from(lease: &'a Lease) -> Self {
        Self {
            name: lease.name.as_str(),
            owner: lease.owner.as_str(),
            fence: lease.fence.map(Fence::get),
            ttl_ms: millis(lease.ttl),
        }
    }
}

#[derive(Debug, Serialize)]
struct ReleasedJson<'a> {
    name: &'a str,
    released: bool,
}

/// Prints a lease as assignments that a shell can evaluate.
fn print_assignments(lease: &Lease) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "TENURE_NAME={}", quote(lease.name.as_str()))?;
    writeln!(out, "TENURE_OWNER={}", quote(lease.owner.as_str()))?;
    if let Some(fence) = lease.fence {
        writeln!(out, "TENURE_FENCE={fence}")?;
    }
    writeln!(out, "TENURE_TTL_MS={}", millis(lease.ttl))?;
    Ok(())
}

fn not_held(lease: &Lease, loss: Loss, wanted: &str) -> Failure {
    let name = &lease.name;
    let sentence = format!("{name} was not {wanted}, this owner does not hold it: {loss}");
    Failure::new(exit_code::LOST, sentence)
}
