//! `acquire`, `renew` and `release`: leases for scripts, which belong to no process.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tenure::driver::{Holder, Life};
use tenure::{
    ClaimId, Client, DEFAULT_TTL, Error, Fence, Lease, LeaseRenewal, Loss, Name, Outcome,
};
use tokio::time::sleep;

use crate::cli::{AcquireArgs, HeldArgs, ReleaseArgs, RenewArgs};
use crate::duration::Rounded;
use crate::error::{Failure, Result};
use crate::output::{self, escape, millis, quote, shell_word, who};
use crate::signals::Signals;
use crate::store::Store;
use crate::{ask, exit_code};

/// Takes a lease and prints it; gives it back if it cannot be printed.
pub(crate) async fn acquire(store: &Store, args: AcquireArgs) -> Result<ExitCode> {
    let name = Name::new(&args.name)?;
    let mut signals = Signals::listen()?;
    let mut wait = args.ask.wait();
    let client = signals.unless(wait.open(store)).await??;
    let lock = args.ask.lock(&client, &name)?;
    signals
        .unless(args.ask.check_nesting(&client, &name))
        .await??;
    let granted = signals.unless(wait.lease(&client, &lock, &name)).await;
    let lease = match granted {
        Ok(Err(failure)) => {
            ask::settle_after(&client, &failure).await;
            return Err(failure);
        }
        granted => {
            ask::settle(&client).await;
            granted??
        }
    };
    let text = LeaseJson {
        name: lease.name.as_str(),
        owner: lease.owner.as_str(),
        claim: Some(lease.claim.as_str()),
        fence: lease.fence.map(Fence::get),
        ttl_ms: millis(lease.ttl),
        renewed: None,
        store: store.environment(),
    }
    .text(args.json)?;
    // Without this output the caller does not know the owner. This includes a pipe that nobody
    // reads.
    let Err(error) = output::print(&text) else {
        return Ok(exit_code::DONE);
    };
    let given_back = release_claim(&client, &lease).await;
    ask::settle(&client).await;
    let became = match given_back {
        Ok(_) => "was given back".to_owned(),
        Err(failure) => {
            let ttl = Rounded(lease.ttl);
            format!("stays taken for up to {ttl}, because it could not be given back ({failure})")
        }
    };
    let sentence = format!("the answer could not be written, so '{name}' {became}: {error}");
    Err(Failure::new(exit_code::OUTPUT, sentence))
}

/// Ends the script that evaluates the output of a failed `acquire`.
///
/// In `eval "$(tenure acquire …)"` the shell discards the exit code of the command and would
/// continue without the lock. An interactive shell stays open and only shows the failure.
pub(crate) fn end_script(failure: &Failure) {
    let mut arguments = std::env::args_os().skip(1);
    let mut is_acquire = false;
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--json") => return,
            Some("--store" | "--password-file") => _ = arguments.next(),
            Some(flag) if flag.starts_with('-') => {}
            verb if !is_acquire && verb != Some("acquire") => return,
            _ => is_acquire = true,
        }
    }
    if is_acquire && !io::stdout().is_terminal() {
        let code = failure.code();
        // If this cannot be written, nobody evaluates it.
        let _ = output::print(&format!(
            "case $- in (*i*) (exit {code}) ;; (*) exit {code} ;; esac\n"
        ));
    }
}

/// Restarts the ttl of all leases of an owner and prints what they have in common.
pub(crate) async fn renew(store: &Store, args: RenewArgs) -> Result<ExitCode> {
    let wanted = Wanted::new(&args.name, &args.held)?;
    // The library checks the ttl only when it renews a lease, and there may be no lease.
    if args.ttl.is_some_and(|ttl| ttl.is_zero()) {
        let sentence = "invalid ttl: it is zero; write for example --ttl 30s";
        return Err(Failure::usage(sentence));
    }
    let client = store.open().await?;
    let renewed = wanted.renew(&client, args.ttl).await;
    ask::settle(&client).await;
    let Renewed { fence, ttl, count } = renewed?;
    let text = LeaseJson {
        name: wanted.name.as_str(),
        owner: &wanted.owner,
        claim: None,
        fence: Some(fence.get()),
        ttl_ms: millis(ttl),
        renewed: Some(count),
        store: Vec::new(),
    }
    .text(args.held.json)?;
    tell(&text, &format!("'{}' was renewed", wanted.name))
}

/// Reports what was done. If nobody reads the output, the exit code is enough.
fn tell(text: &str, done: &str) -> Result<ExitCode> {
    match output::print(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let sentence = format!("{done}, but the answer could not be written: {error}");
            Err(Failure::new(exit_code::OUTPUT, sentence))
        }
        _ => Ok(exit_code::DONE),
    }
}

/// Releases the newest lease of an owner, and reports how many are left.
pub(crate) async fn release(store: &Store, args: ReleaseArgs) -> Result<ExitCode> {
    let wanted = Wanted::new(&args.name, &args.held)?;
    let client = store.open().await?;
    let released = wanted.release(&client).await;
    ask::settle(&client).await;
    let (left, name) = (released?, &wanted.name);
    let done = format!("'{name}' was released");
    if args.held.json {
        let text = output::json(&ReleasedJson {
            name: name.as_str(),
            released: true,
            left,
        })?;
        return tell(&text, &done);
    }
    let still = match left {
        0 => String::new(),
        1 => ", still held once by this owner".to_owned(),
        2 => ", still held twice by this owner".to_owned(),
        left => format!(", still held {left} times by this owner"),
    };
    let text = format!("released {}{still}\n", escape(name.as_str()));
    tell(&text, &done)
}

/// Selects leases that were acquired by hand.
#[derive(Debug)]
struct Wanted<'a> {
    name: Name,
    owner: String,
    claim: Option<&'a str>,
    fence: Option<Fence>,
}

/// Returns the owner in the environment, unless it belongs to another lock.
fn inherited_owner(name: &Name) -> Result<String> {
    let usage = |sentence| Failure::usage(sentence);
    let owner = std::env::var("TENURE_OWNER").map_err(|_| {
        let name = shell_word(name.as_str());
        usage(format!(
            "the owner is missing: give --owner, or write: eval \"$(tenure acquire {name})\""
        ))
    })?;
    match std::env::var("TENURE_NAME") {
        Ok(other) if other != name.as_str() => Err(usage(format!(
            "TENURE_OWNER is the owner of '{other}', not of '{name}': give --owner; a script that \
             acquires several locks acquires them with the same --owner"
        ))),
        _ => Ok(owner),
    }
}

/// The result of a renewal.
#[derive(Debug)]
struct Renewed {
    fence: Fence,
    /// The longest ttl of the renewed leases.
    ttl: Duration,
    /// How many leases were renewed.
    count: usize,
}

impl<'a> Wanted<'a> {
    fn new(name: &str, args: &'a HeldArgs) -> Result<Self> {
        let name = Name::new(name)?;
        let owner = match &args.owner {
            Some(owner) => owner.clone(),
            None => inherited_owner(&name)?,
        };
        // On a store that cannot share owners, the owner is used as the id of the claim.
        ClaimId::new(&owner)?;
        let zero = || Failure::usage("invalid fence: it is zero");
        let fence = args.fence.map(|number| Fence::new(number).ok_or_else(zero));
        Ok(Self {
            name,
            owner,
            claim: args.claim.as_deref(),
            fence: fence.transpose()?,
        })
    }

    /// Returns the selected leases, oldest first.
    async fn leases(&self, client: &Client, verb: &str) -> Result<Vec<Lease>> {
        let mut leases = client.leases(&self.name, &self.owner).await?;
        if leases.is_empty() {
            return Err(self.not_held(verb, "does not hold it by hand"));
        }
        leases.retain(|lease| self.is_wanted(&lease.claim, lease.fence));
        // The claim is enough: it was granted once. On servers that vote, a late server may have
        // stored another fence for it.
        leases.iter_mut().for_each(|lease| lease.fence = None);
        match (leases.is_empty(), self.claim) {
            (false, _) => Ok(leases),
            (true, Some(_)) => Err(self.not_held(verb, "does not hold it by this claim")),
            (true, None) => Err(self.not_held(verb, "does not hold it with this fence")),
        }
    }

    /// Renews for `told`, or for the ttl that `acquire` printed. In the second case it never
    /// shortens a lease.
    async fn renew(&self, client: &Client, told: Option<Duration>) -> Result<Renewed> {
        let printed = self.printed_ttl();
        let mut renewed: Option<Renewed> = None;
        let mut last_loss = Loss::Gone;
        let leases = match self.leases(client, "renewed").await {
            Err(failure) if failure.code() == exit_code::LOST => {
                return self.renewed_elsewhere(client).await?.ok_or(failure);
            }
            leases => leases?,
        };
        for mut lease in leases {
            lease.ttl = told.unwrap_or_else(|| lease.ttl.max(printed.unwrap_or(DEFAULT_TTL)));
            match client.renew(&lease).await? {
                LeaseRenewal::Renewed(fence) => {
                    let so_far = renewed.as_ref();
                    renewed = Some(Renewed {
                        fence,
                        ttl: so_far.map_or(lease.ttl, |so_far| so_far.ttl.max(lease.ttl)),
                        count: so_far.map_or(0, |so_far| so_far.count) + 1,
                    });
                }
                LeaseRenewal::Lost(loss) => last_loss = loss,
            }
        }
        let renewed = renewed.ok_or_else(|| self.lost("renewed", last_loss))?;
        if told.or(printed).is_none() && renewed.ttl > DEFAULT_TTL {
            let (name, ttl) = (escape(self.name.as_str()), Rounded(renewed.ttl));
            anstream::eprintln!(
                "tenure: '{name}' still ends in {ttl}: its original ttl is not known here; \
                 use --ttl, or 'eval' what 'tenure acquire' prints"
            );
        }
        Ok(renewed)
    }

    /// Returns the ttl in the environment, if it was printed for this name and owner.
    fn printed_ttl(&self) -> Option<Duration> {
        let is = |variable, text| std::env::var(variable).is_ok_and(|value| value == text);
        if !is("TENURE_NAME", self.name.as_str()) || !is("TENURE_OWNER", &self.owner) {
            return None;
        }
        let ttl_ms = std::env::var("TENURE_TTL_MS").ok()?.parse().ok()?;
        Some(Duration::from_millis(ttl_ms))
    }

    /// Looks for a process that holds the lock for this owner and renews its lease itself.
    async fn renewed_elsewhere(&self, client: &Client) -> Result<Option<Renewed>> {
        let entries = client.list(Some(&self.name)).await?;
        let mut holders = entries.iter().flat_map(|entry| &entry.holders);
        let is_wanted = |holder: &&Holder| {
            let is_live = holder.life == Life::Client && holder.depth > 0;
            is_live
                && holder.owner.as_str() == self.owner
                && self.is_wanted(&holder.claim, Some(holder.fence))
        };
        Ok(holders.find(is_wanted).map(|holder| {
            let (name, who) = (escape(self.name.as_str()), who(&holder.about));
            anstream::eprintln!(
                "tenure: '{name}' is renewed by the process that holds it, {who}: nothing was changed"
            );
            Renewed {
                fence: holder.fence,
                ttl: holder.expires_in,
                count: 0,
            }
        }))
    }

    fn is_wanted(&self, claim: &ClaimId, fence: Option<Fence>) -> bool {
        let is_named = self.claim.is_none_or(|wanted| claim.as_str() == wanted);
        is_named && (self.fence.is_none() || self.fence == fence)
    }

    /// Releases one lease, and returns how many claims of the owner are left.
    async fn release(&self, client: &Client) -> Result<u32> {
        let mut last_loss = Loss::Gone;
        // Newest first, in the order in which nested calls end. If somebody else releases a lease
        // in the meantime, this call releases the next one, so that each of several concurrent
        // releases frees a different lease.
        for lease in self.leases(client, "released").await?.iter().rev() {
            match release_claim(client, lease).await? {
                Outcome::NotHeld(loss) => last_loss = loss,
                Outcome::Lowered { depth } => return Ok(depth),
                _ => return Ok(0),
            }
        }
        Err(self.lost("released", last_loss))
    }

    fn lost(&self, verb: &str, loss: Loss) -> Failure {
        self.not_held(verb, &format!("does not hold it any more: {loss}"))
    }

    fn not_held(&self, verb: &str, why: &str) -> Failure {
        let sentence = format!("'{}' was not {verb}, this owner {why}", self.name);
        Failure::new(exit_code::LOST, sentence)
    }
}

/// Releases one claim, and retries with the same claim if the reply was lost.
async fn release_claim(client: &Client, lease: &Lease) -> Result<Outcome> {
    let unknown = match client.release(lease).await {
        Err(error) if !error.nothing_changed() => error,
        answer => return Ok(answer?),
    };
    for _ in 0..RETRIES {
        sleep(AGAIN).await;
        match client.release(lease).await {
            // An earlier request has released it, but its reply was lost.
            Ok(Outcome::NotHeld(_)) => return Ok(outcome(client, lease).await?),
            Ok(outcome) => return Ok(outcome),
            Err(_) => {}
        }
    }
    Err(unknown.into())
}

/// Counts the remaining claims of the owner after a release whose reply was lost.
async fn outcome(client: &Client, lease: &Lease) -> Result<Outcome, Error> {
    let entries = client.list(Some(&lease.name)).await?;
    let holders = entries.iter().flat_map(|entry| &entry.holders);
    let own = holders.filter(|holder| holder.depth > 0 && holder.owner == lease.owner);
    Ok(match u32::try_from(own.count()).unwrap_or(u32::MAX) {
        0 => Outcome::Released,
        depth => Outcome::Lowered { depth },
    })
}

/// One lease, or several leases of one owner, as scripts see them.
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
    /// The variables with which `renew` and `release` find the store. They are not part of the JSON:
    /// a URL may contain a password, and nobody evaluates it there.
    #[serde(skip)]
    store: Vec<(&'static str, String)>,
}

impl LeaseJson<'_> {
    fn text(&self, json: bool) -> Result<String> {
        Ok(match json {
            true => output::json(self)?,
            false => self.assignments(),
        })
    }

    /// Returns assignments for a shell to evaluate. They are exported, so that `renew` and
    /// `release` find them.
    fn assignments(&self) -> String {
        let mut variables = vec![
            ("TENURE_NAME", quote(self.name)),
            ("TENURE_OWNER", quote(self.owner)),
        ];
        variables.extend(self.claim.map(|claim| ("TENURE_CLAIM", quote(claim))));
        variables.extend(self.fence.map(|fence| ("TENURE_FENCE", fence.to_string())));
        variables.push(("TENURE_TTL_MS", self.ttl_ms.to_string()));
        variables.extend(self.store.iter().map(|(key, value)| (*key, quote(value))));
        let mut text = String::new();
        for (variable, value) in &variables {
            text += &format!("{variable}={value}\n");
        }
        let names: Vec<_> = variables.iter().map(|(variable, _)| *variable).collect();
        text + &format!("export {}\n", names.join(" "))
    }
}

#[derive(Debug, Serialize)]
struct ReleasedJson<'a> {
    name: &'a str,
    released: bool,
    /// How many claims of the same owner still hold the name.
    left: u32,
}

/// How often to retry a release whose reply was lost.
const RETRIES: u32 = 3;

/// The pause between two attempts, long enough to replace a broken connection.
const AGAIN: Duration = Duration::from_millis(100);
