//! `acquire`, `renew` and `release`: leases that belong to no process, for scripts.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tenure::{ClaimId, Client, Error, Fence, Lease, Loss, Name, Outcome};
use tokio::time::sleep;

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
    let mut wait = args.ask.wait();
    let client = signals.unless(wait.open(store)).await??;
    let lock = args.ask.lock(&client, &name)?;
    let granted = signals.unless(wait.lease(&lock, &name)).await;
    ask::settle(&client).await;
    let lease = granted??;
    LeaseJson {
        name: lease.name.as_str(),
        owner: lease.owner.as_str(),
        claim: Some(lease.claim.as_str()),
        fence: lease.fence.map(Fence::get),
        ttl_ms: millis(lease.ttl),
        renewed: None,
    }
    .print(args.json)
}

/// Restarts the ttl of all leases of an owner and prints what they have in common.
pub(crate) async fn renew(store: &Store, args: RenewArgs) -> Result<ExitCode> {
    let wanted = Wanted::new(&args.name, &args.held)?;
    // The library checks a ttl where a lease is renewed, and there may be none.
    if args.ttl.is_zero() {
        let sentence = "invalid ttl: it is zero; write for example --ttl 30s";
        return Err(Failure::new(exit_code::USAGE, sentence));
    }
    let client = store.open().await?;
    let renewed = wanted.renew(&client, args.ttl).await;
    ask::settle(&client).await;
    let Renewed { fence, count } = renewed?;
    LeaseJson {
        name: wanted.name.as_str(),
        owner: wanted.owner,
        claim: None,
        fence: Some(fence.get()),
        ttl_ms: millis(args.ttl),
        renewed: Some(count),
    }
    .print(args.held.json)
}

/// Frees the newest lease of an owner, and says how many are left.
pub(crate) async fn release(store: &Store, args: ReleaseArgs) -> Result<ExitCode> {
    let wanted = Wanted::new(&args.name, &args.held)?;
    let client = store.open().await?;
    let released = wanted.release(&client).await;
    ask::settle(&client).await;
    let (left, name) = (released?, &wanted.name);
    if args.held.json {
        print_json(&ReleasedJson {
            name: name.as_str(),
            released: true,
            left,
        })?;
        return Ok(exit_code::DONE);
    }
    let still = match left {
        0 => String::new(),
        1 => ", still held once by this owner".to_owned(),
        2 => ", still held twice by this owner".to_owned(),
        left => format!(", still held {left} times by this owner"),
    };
    writeln!(std::io::stdout(), "released {name}{still}")?;
    Ok(exit_code::DONE)
}

/// Which leases by hand are meant.
#[derive(Debug)]
struct Wanted<'a> {
    name: Name,
    owner: &'a str,
    claim: Option<&'a str>,
    fence: Option<Fence>,
}

/// What became of a renewal.
#[derive(Debug)]
struct Renewed {
    fence: Fence,
    /// How many leases go on.
    count: usize,
}

impl<'a> Wanted<'a> {
    fn new(name: &str, args: &'a HeldArgs) -> Result<Self> {
        let name = Name::new(name)?;
        // Where a store cannot share owners, a claim stands for its owner.
        ClaimId::new(&args.owner)?;
        let zero = || Failure::new(exit_code::USAGE, "invalid fence: it is zero");
        let fence = args.fence.map(|number| Fence::new(number).ok_or_else(zero));
        Ok(Self {
            name,
            owner: &args.owner,
            claim: args.claim.as_deref(),
            fence: fence.transpose()?,
        })
    }

    /// Returns the leases that are meant, oldest first.
    async fn leases(&self, client: &Client, verb: &str) -> Result<Vec<Lease>> {
        let mut leases = client.leases(&self.name, self.owner).await?;
        if leases.is_empty() {
            return Err(self.not_held(verb, "does not hold it by hand"));
        }
        let is_wanted = |lease: &Lease| {
            let fence = self.fence.is_none() || lease.fence == self.fence;
            fence && self.claim.is_none_or(|claim| lease.claim.as_str() == claim)
        };
        leases.retain(is_wanted);
        // The claim says enough: it has had one grant. Where servers vote, one that was late may have another fence.
        leases.iter_mut().for_each(|lease| lease.fence = None);
        match (leases.is_empty(), self.claim) {
            (false, _) => Ok(leases),
            (true, Some(_)) => Err(self.not_held(verb, "does not hold it by this claim")),
            (true, None) => Err(self.not_held(verb, "does not hold it with this fence")),
        }
    }

    async fn renew(&self, client: &Client, ttl: Duration) -> Result<Renewed> {
        let mut renewed: Option<Renewed> = None;
        let mut last_loss = Loss::Gone;
        for lease in self.leases(client, "renewed").await? {
            match client.renew(&Lease { ttl, ..lease }).await? {
                Ok(fence) => {
                    let count = renewed.map_or(0, |so_far| so_far.count) + 1;
                    renewed = Some(Renewed { fence, count });
                }
                Err(loss) => last_loss = loss,
            }
        }
        renewed.ok_or_else(|| self.lost("renewed", last_loss))
    }

    /// Releases one lease, and returns how many claims of the owner are left.
    async fn release(&self, client: &Client) -> Result<u32> {
        let mut last_loss = Loss::Gone;
        // The newest first, as nested calls end. Somebody else may release one of them meanwhile, and then it is the turn of
        // the next: of as many releases as there are leases, each frees one.
        for lease in self.leases(client, "released").await?.iter().rev() {
            match self.release_claim(client, lease).await? {
                Outcome::NotHeld(loss) => last_loss = loss,
                Outcome::Lowered { depth } => return Ok(depth),
                _ => return Ok(0),
            }
        }
        Err(self.lost("released", last_loss))
    }

    /// Releases one claim; asks again for the same one if the answer was lost.
    async fn release_claim(&self, client: &Client, lease: &Lease) -> Result<Outcome> {
        let unknown = match client.release(lease).await {
            Err(error) if !error.nothing_changed() => error,
            answer => return Ok(answer?),
        };
        for _ in 0..RETRIES {
            sleep(AGAIN).await;
            match client.release(lease).await {
                // A request before has freed it, though its answer was lost.
                Ok(Outcome::NotHeld(_)) => return Ok(self.outcome(client).await?),
                Ok(outcome) => return Ok(outcome),
                Err(_) => {}
            }
        }
        Err(unknown.into())
    }

    /// Counts the claims that are left of the owner, after a release whose answer was lost.
    async fn outcome(&self, client: &Client) -> Result<Outcome, Error> {
        let entries = client.list(Some(&self.name)).await?;
        let holders = entries.iter().flat_map(|entry| &entry.holders);
        let own = holders.filter(|holder| holder.depth > 0 && holder.owner.as_str() == self.owner);
        Ok(match u32::try_from(own.count()).unwrap_or(u32::MAX) {
            0 => Outcome::Released,
            depth => Outcome::Lowered { depth },
        })
    }

    fn lost(&self, verb: &str, loss: Loss) -> Failure {
        self.not_held(verb, &format!("does not hold it any more: {loss}"))
    }

    fn not_held(&self, verb: &str, why: &str) -> Failure {
        let sentence = format!("{} was not {verb}, this owner {why}", self.name);
        Failure::new(exit_code::LOST, sentence)
    }
}

/// A lease, or several of one owner, as scripts see it.
#[derive(Debug, Serialize)]
struct LeaseJson<'a> {
    name: &'a str,
    owner: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<&'a str>,
    fence: Option<u64>,
    ttl_ms: u64,
    /// How many leases were renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    renewed: Option<usize>,
}

impl LeaseJson<'_> {
    fn print(&self, json: bool) -> Result<ExitCode> {
        match json {
            true => print_json(self)?,
            false => self.print_assignments()?,
        }
        Ok(exit_code::DONE)
    }

    /// Prints assignments that a shell can evaluate.
    fn print_assignments(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "TENURE_NAME={}", quote(self.name))?;
        writeln!(out, "TENURE_OWNER={}", quote(self.owner))?;
        if let Some(claim) = self.claim {
            writeln!(out, "TENURE_CLAIM={}", quote(claim))?;
        }
        if let Some(fence) = self.fence {
            writeln!(out, "TENURE_FENCE={fence}")?;
        }
        writeln!(out, "TENURE_TTL_MS={}", self.ttl_ms)?;
        Ok(())
    }
}

#[derive(Debug, Serialize)]
struct ReleasedJson<'a> {
    name: &'a str,
    released: bool,
    /// How many claims of the same owner still hold the name.
    left: u32,
}

/// How often a release is tried again whose answer was lost.
const RETRIES: u32 = 3;

/// Between two tries: long enough for a connection that was cut to be made again.
const AGAIN: Duration = Duration::from_millis(100);
