//! The scripts, and how they are sent: by their hash, or in full to a server that does not know them.

use std::borrow::Cow;

use redis::{Cmd, Script as Body};

use crate::name::Name;
use crate::store::redis::keys::{ENDS, FENCE, Keys, LINE, PLACES};

/// One script: its text, and the hash that a server knows it by.
pub(crate) struct Script {
    text: Cow<'static, str>,
    hash: String,
}

impl Script {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let hash = Body::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// Returns a call by hash.
    pub(crate) fn call(&self, count: usize) -> Cmd {
        // Room for most calls, so that adding arguments reallocates nothing.
        let mut cmd = Cmd::with_capacity(16, 384);
        cmd.arg("EVALSHA").arg(&self.hash).arg(count);
        cmd
    }

    /// Returns the same call in full, which also makes the server cache the script.
    ///
    /// This takes one round trip, and no flush can come between loading and calling the script.
    pub(crate) fn in_full(&self, call: &Cmd) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(&*self.text);
        for arg in call.args_iter().skip(2) {
            if let redis::Arg::Simple(arg) = arg {
                cmd.arg(arg);
            }
        }
        cmd
    }
}

/// Shows only the hash: the text would fill pages wherever a guard is printed.
impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Script").field(&self.hash).finish()
    }
}

/// All scripts of the hash layout.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// For exclusive claims.
    pub(crate) acquire: Script,
    /// For all other claims.
    pub(crate) join: Script,
    pub(crate) release: Script,
    pub(crate) withdraw: Script,
    pub(crate) renew: Script,
    pub(crate) look: Script,
    pub(crate) evict: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            acquire: Script::new(ACQUIRE),
            join: Script::new(JOIN),
            release: Script::new(RELEASE),
            withdraw: Script::new(WITHDRAW),
            renew: Script::new(RENEW),
            look: Script::new(LOOK),
            evict: Script::new(EVICT),
        }
    }

    /// Makes the same scripts from other texts, to see which tests fail.
    #[cfg(test)]
    pub(crate) fn of(text: impl Fn(&str) -> String) -> Self {
        let script =
            |files: &[&str]| Script::new(files.iter().map(|file| text(file)).collect::<String>());
        Self {
            acquire: script(&["take", "ledger", "acquire"]),
            join: script(&["ledger", "acquire"]),
            release: script(&["give", "ledger", "release"]),
            withdraw: script(&["ledger", "withdraw"]),
            renew: script(&["extend", "ledger", "renew"]),
            look: script(&["look"]),
            evict: script(&["ledger", "evict"]),
        }
    }

    /// Returns the hashes of all scripts.
    #[cfg(test)]
    pub(crate) fn hashes(&self) -> Vec<&str> {
        let all = [
            &self.acquire,
            &self.join,
            &self.release,
            &self.withdraw,
            &self.renew,
            &self.look,
            &self.evict,
        ];
        all.map(|script| &*script.hash).to_vec()
    }
}

/// Adds the keys of a lock: its lease, and for a cluster the four that share its slot.
pub(crate) fn add_keys(cmd: &mut Cmd, keys: &Keys, name: &Name, count: usize) {
    let mut key = keys.lease(name);
    let length = key.len();
    cmd.arg(&key);
    for suffix in [LINE, PLACES, ENDS, FENCE].iter().take(count - 1) {
        key.truncate(length);
        key.push_str(suffix);
        cmd.arg(&key);
    }
}

macro_rules! lua {
    ($($file:literal),+) => {
        concat!($(include_str!(concat!("scripts/", $file, ".lua"))),+)
    };
}

/// The fast path comes first: it needs none of the rules, and most calls take it.
const ACQUIRE: &str = lua!("take", "ledger", "acquire");
const JOIN: &str = lua!("ledger", "acquire");
const RELEASE: &str = lua!("give", "ledger", "release");
const WITHDRAW: &str = lua!("ledger", "withdraw");
const RENEW: &str = lua!("extend", "ledger", "renew");
const LOOK: &str = lua!("look");
const EVICT: &str = lua!("ledger", "evict");
