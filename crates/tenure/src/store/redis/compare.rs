//! Compare-and-set of a string: with a native command of the server, with a script, or with `WATCH`.

use std::time::Duration;

use redis::{Pipeline, Value};

use crate::error::Result;
use crate::name::ClaimId;
use crate::store::redis::fault;
use crate::store::redis::hash::millis;
use crate::store::redis::link::Link;
use crate::store::redis::script::Script;
use crate::store::redis::watch::Watch;

/// Compares and changes strings in the way that the server supports.
#[derive(Debug)]
pub(crate) struct Compare {
    way: Way,
    delete: Script,
    set: Script,
}

#[derive(Debug)]
enum Way {
    Native(Native),
    Script,
    Watch(Watch),
}

/// A native compare-and-delete; servers that have one also have `SET … IFEQ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// `DELEX … IFEQ`.
    Delex,
    /// Valkey's name for it.
    Delifeq,
}

impl Native {
    /// The command that asks the server which one it supports.
    pub(crate) const ASK: [&str; 4] = ["COMMAND", "INFO", "DELEX", "DELIFEQ"];

    /// Parses the reply to [`ASK`](Self::ASK).
    pub(crate) fn read(answer: &Value) -> Option<Self> {
        let Value::Array(commands) = answer else {
            return None;
        };
        let has = |index: usize| matches!(commands.get(index), Some(Value::Array(_)));
        if has(0) {
            Some(Self::Delex)
        } else if has(1) {
            Some(Self::Delifeq)
        } else {
            None
        }
    }
}

impl Compare {
    /// Determines which way the server supports.
    ///
    /// If the server has no native command, or does not tell, that is a script, or `WATCH` if the
    /// server runs no scripts.
    pub(crate) async fn find(link: &Link, runs_scripts: bool) -> Self {
        let mut cmd = redis::cmd(Native::ASK[0]);
        cmd.arg(&Native::ASK[1..]);
        let answer = link.send(&cmd).await.ok();
        let way = match answer.as_ref().and_then(Native::read) {
            Some(native) => Way::Native(native),
            None if runs_scripts => Way::Script,
            None => Way::Watch(Watch::default()),
        };
        Self {
            way,
            delete: Script::new(include_str!("scripts/string_release.lua")),
            set: Script::new(include_str!("scripts/string_extend.lua")),
        }
    }

    /// Returns whether the server has neither a native command nor scripts.
    pub(crate) fn is_by_watch(&self) -> bool {
        matches!(self.way, Way::Watch(_))
    }

    /// Writes a value with this ttl if the key holds the claim; returns whether it did.
    pub(crate) async fn set(
        &self,
        link: &Link,
        key: &str,
        claim: &ClaimId,
        value: &str,
        ttl: Duration,
    ) -> Result<bool> {
        let (claim, ttl) = (claim.as_str(), millis(ttl));
        match &self.way {
            Way::Script => {
                let mut cmd = self.set.call(1);
                cmd.arg(key).arg(claim).arg(ttl);
                if value != claim {
                    cmd.arg(value);
                }
                is_one(&link.call(&self.set, &cmd).await?)
            }
            Way::Native(_) => {
                let mut cmd = redis::cmd("SET");
                cmd.arg(key).arg(value);
                cmd.arg("IFEQ").arg(claim).arg("PX").arg(ttl);
                Ok(link.send(&cmd).await? == Value::Okay)
            }
            Way::Watch(watch) => {
                let mut change = Pipeline::new();
                if value != claim {
                    change.cmd("SET").arg(key).arg(value).ignore();
                }
                // Unlike SET, this works on a server that is out of memory.
                change.cmd("PEXPIRE").arg(key).arg(ttl);
                watch.change(link, key, claim, change).await
            }
        }
    }

    /// Deletes the key if it holds the claim; returns whether it did.
    pub(crate) async fn delete(&self, link: &Link, key: &str, claim: &ClaimId) -> Result<bool> {
        let claim = claim.as_str();
        match &self.way {
            Way::Script => {
                let mut cmd = self.delete.call(1);
                cmd.arg(key).arg(claim);
                is_one(&link.call(&self.delete, &cmd).await?)
            }
            Way::Native(native) => {
                let mut cmd = redis::Cmd::new();
                match native {
                    Native::Delex => cmd.arg("DELEX").arg(key).arg("IFEQ"),
                    Native::Delifeq => cmd.arg("DELIFEQ").arg(key),
                };
                is_one(&link.send(cmd.arg(claim)).await?)
            }
            Way::Watch(watch) => {
                let mut change = Pipeline::new();
                change.cmd("DEL").arg(key);
                watch.change(link, key, claim, change).await
            }
        }
    }
}

fn is_one(answer: &Value) -> Result<bool> {
    match answer {
        Value::Int(number) => Ok(*number == 1),
        _ => Err(fault::garbled()),
    }
}
