//! Changes a string only if it has a certain value: by a command of the server's own, by a script,
//! or by `WATCH`.

use std::time::Duration;

use redis::{Pipeline, Value};

use crate::error::Result;
use crate::name::ClaimId;
use crate::store::redis::fault;
use crate::store::redis::hash::millis;
use crate::store::redis::link::Link;
use crate::store::redis::script::Script;
use crate::store::redis::watch::Watch;

/// Compares and changes in the way that suits a server.
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

/// A compare-and-delete of the server's own; both also know `SET … IFEQ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// `DELEX … IFEQ`.
    Delex,
    /// Valkey's name for it.
    Delifeq,
}

impl Native {
    /// What asks for it.
    pub(crate) const ASK: [&str; 4] = ["COMMAND", "INFO", "DELEX", "DELIFEQ"];

    /// Which one the answer to [`ASK`](Self::ASK) names, if any.
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
    /// Finds out which way the server has. Without a command of its own, or where it will not say,
    /// it is a script, or `WATCH` if it runs none.
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

    /// Whether the server has neither a command for it nor scripts.
    pub(crate) fn is_by_watch(&self) -> bool {
        matches!(self.way, Way::Watch(_))
    }

    /// Writes a value that ends so long from now, if the key has the claim; returns whether it had.
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
                // Unlike SET, this is not refused by a server that is full.
                change.cmd("PEXPIRE").arg(key).arg(ttl);
                watch.change(link, key, claim, change).await
            }
        }
    }

    /// Deletes the key, if it has the claim; returns whether it had.
    pub(crate) async fn delete(&self, link: &Link, key: &str, claim: &ClaimId) -> Result<bool> {
        let claim = claim.as_str();
        match &self.way {
            Way::Script => {
                let mut cmd = self.delete.call(1);
                cmd.arg(key).arg(claim);
                is_one(&link.call(&self.delete, &cmd).await?)
            }
            Way::Native(native) => {
                let mut cmd = match native {
                    Native::Delex => redis::cmd("DELEX"),
                    Native::Delifeq => redis::cmd("DELIFEQ"),
                };
                cmd.arg(key);
                if *native == Native::Delex {
                    cmd.arg("IFEQ");
                }
                cmd.arg(claim);
                is_one(&link.send(&cmd).await?)
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
