//! `ls`, `show` and `evict`: inspect locks from outside, and take them away.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use tenure::Name;
use tenure::driver::Entry;

use crate::cli::{EvictArgs, LsArgs, ShowArgs};
use crate::duration::Rounded;
use crate::error::{Failure, Result};
use crate::holding::Holding;
use crate::output::{self, LockJson, escape, holders_json, print_json, short};
use crate::pattern::Pattern;
use crate::store::Store;
use crate::table::print_table;
use crate::{ask, exit_code};

/// Lists the locks that match.
pub(crate) async fn ls(store: &Store, args: LsArgs) -> Result<ExitCode> {
    let client = store.open().await?;
    let pattern = Pattern::new(args.pattern.as_deref());
    let mut entries = client.list(None).await?;
    entries.retain(|entry| pattern.matches(entry.name.as_str()));
    if args.json {
        let locks: Vec<_> = entries.iter().map(LockJson::from).collect();
        print_json(&locks)?;
    } else if !entries.is_empty() {
        print_table(&entries)?;
    } else if std::io::stdout().is_terminal() {
        output::print("nobody holds or waits for a lock\n")?;
    }
    Ok(exit_code::DONE)
}

/// Shows one lock.
pub(crate) async fn show(store: &Store, args: ShowArgs) -> Result<ExitCode> {
    let name = Name::new(&args.name)?;
    let client = store.open().await?;
    let found = client.list(Some(&name)).await?.into_iter().next();
    let free = found.as_ref().is_none_or(Entry::is_empty);
    let entry = found.unwrap_or_else(|| Entry::new(name.clone()));
    if args.json {
        print_json(&LockJson::from(&entry))?;
    } else if !free {
        print_table(&[entry])?;
    }
    match (free, args.json) {
        (false, _) => Ok(exit_code::DONE),
        (true, true) => Err(Failure::silent(exit_code::NOTHING)),
        (true, false) => Err(nobody(&name)),
    }
}

/// Takes a lock away, and prints from whom.
pub(crate) async fn evict(store: &Store, args: EvictArgs) -> Result<ExitCode> {
    let name = Name::new(&args.name)?;
    let client = store.open().await?;
    let evicted = client.evict(&name).await;
    ask::settle(&client).await;
    let holders = evicted?;
    if args.json {
        print_json(&holders_json(&holders))?;
    }
    if holders.is_empty() {
        return Err(match args.json {
            true => Failure::silent(exit_code::NOTHING),
            false => nobody(&name),
        });
    }
    if !args.json {
        let mut out = output::stdout();
        let name = escape(name.as_str());
        for holding in Holding::all(&holders) {
            let owner = short(holding.first.owner.as_str());
            let (who, held) = (holding.who(), Rounded(holding.held()));
            let fence = holding.first.fence;
            writeln!(
                out,
                "took {name} from {who}, owner {owner}, held for {held}, fence {fence}"
            )?;
        }
    }
    Ok(exit_code::DONE)
}

fn nobody(name: &Name) -> Failure {
    Failure::new(exit_code::NOTHING, format!("nobody holds '{name}'"))
}
