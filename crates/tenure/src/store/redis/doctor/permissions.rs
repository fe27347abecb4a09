//! Checks the user's permissions, with `ACL DRYRUN` where that is allowed, otherwise by trial.

use redis::Value;

use crate::doctor::{Finding, RIGHTS};
use crate::random::random_u128;
use crate::store::redis::acl::{self, Right, Use};
use crate::store::redis::doctor::node::{Node, is_forbidden, said};
use crate::store::redis::keys::Keys;
use crate::store::redis::string::fence_key;
use crate::store::redis::url::{Layout, Settings};

/// Finds missing permissions, and gives the ACL rule that grants all of them.
pub(crate) async fn check(settings: &Settings, node: &Node, of: Use) -> Finding {
    let line = acl::line(settings, of);
    // A separate connection: some calls change the state of the connection.
    let mut own = match node.another(settings).await {
        Ok(own) => own,
        Err(error) => return unknown(&said(&error), &line),
    };
    let missing = match Missing::by_dry_run(settings, &mut own, of).await {
        Some(missing) => missing,
        None => Missing::by_trial(settings, &mut own, of).await,
    };
    match own.is_silent {
        true => unknown("no answer", &line),
        false => missing.finding(&line),
    }
}

fn unknown(why: &str, line: &str) -> Finding {
    let found = format!("not checked: {why}");
    RIGHTS.unknown(found, format!("the least that works: {line}"))
}

/// The permissions that a user lacks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Missing {
    commands: Vec<&'static str>,
    keys: bool,
    channels: bool,
    /// Commands that could not be tried without leaving a key behind.
    untried: Vec<&'static str>,
}

impl Missing {
    /// Asks the server what the user may do; `None` if it does not support that.
    async fn by_dry_run(settings: &Settings, node: &mut Node, of: Use) -> Option<Self> {
        let user = settings.access.user.as_deref().unwrap_or("default");
        let mut missing = Self::default();
        for (rule, call) in calls(settings, of) {
            let mut words = vec!["ACL", "DRYRUN", user];
            words.extend(call.iter().map(String::as_str));
            match node.ask(&words).await.ok()? {
                Value::Okay => {}
                Value::BulkString(why) => missing.add(rule, &String::from_utf8_lossy(&why)),
                Value::SimpleString(why) => missing.add(rule, &why),
                _ => return None,
            }
        }
        Some(missing)
    }

    /// Tries every command on a key that nobody uses.
    async fn by_trial(settings: &Settings, node: &mut Node, of: Use) -> Self {
        let mut missing = Self::default();
        let mut calls = calls(settings, of);
        calls.sort_by_key(|(rule, _)| match *rule {
            // Creates the string that makes other writes fail, and that expires.
            "set" => 0,
            // Calls after this would not find the string.
            "del" => 2,
            // Calls after this are only queued, or refused.
            "multi" => 3,
            _ => 1,
        });
        let mut is_safe = false;
        for (rule, call) in calls {
            // It creates the key if there is none.
            if rule == "rpush" && !is_safe {
                missing.untried.push(rule);
                continue;
            }
            let words: Vec<_> = call.iter().map(String::as_str).collect();
            match node.ask(&words).await {
                Err(error) if is_forbidden(&error) => missing.add(rule, &said(&error)),
                // Any other error means that the user may call it, for example when another node owns
                // the slot.
                _ => is_safe |= rule == "set",
            }
        }
        missing
    }

    /// Records a refusal, by its text.
    fn add(&mut self, rule: &'static str, why: &str) {
        if why.contains("command") {
            self.commands.push(rule);
        } else if why.contains("channel") {
            self.channels = true;
        } else {
            self.keys = true;
        }
    }

    fn finding(self, line: &str) -> Finding {
        let mut lacks = Vec::new();
        if !self.commands.is_empty() {
            lacks.push(format!("the right to {}", self.commands.join(", ")));
        }
        if self.keys {
            lacks.push("the keys".to_owned());
        }
        if self.channels {
            lacks.push("the channels".to_owned());
        }
        let line = format!("the least that works: {line}");
        if !lacks.is_empty() {
            let mut found = format!("the user lacks {}", lacks.join(" and "));
            if !self.untried.is_empty() {
                found = format!("{found}; not tried: {}", self.untried.join(", "));
            }
            return RIGHTS.problem(found, line);
        }
        Finding {
            advice: Some(line),
            ..RIGHTS.fine("the user may do all that locks need")
        }
    }
}

/// Returns a call of each command that is needed, with keys and channels of a random name.
fn calls(settings: &Settings, of: Use) -> Vec<(&'static str, Vec<String>)> {
    let name = format!("doctor-{:016x}", random_u128() >> 64);
    let keys = Keys::new(&settings.prefix);
    let channel = format!("{}{name}", keys.inboxes());
    let key = match settings.layout {
        Layout::Hash => format!("{}{{{name}}}", settings.prefix),
        Layout::String { .. } => format!("{}{name}", settings.prefix),
    };
    let own = |right: &'static Right, key: &str| {
        let words = right.call(key, &channel).into_iter().map(str::to_owned);
        (right.rule, words.collect())
    };
    let mut calls: Vec<_> = Right::needed(of).map(|right| own(right, &key)).collect();
    if of.has_fence_keys() {
        let exists = Right::needed(of).find(|right| right.rule == "exists");
        calls.extend(exists.map(|right| own(right, &fence_key(&key))));
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_refusal_says_what_is_missing() {
        let mut missing = Missing::default();
        // The wording of Redis 7.0 and 7.2, and of ACL DRYRUN.
        missing.add(
            "set",
            "NOPERM this user has no permissions to run the 'set' command",
        );
        missing.add(
            "get",
            "User ann has no permissions to run the 'get' command",
        );
        assert!(!missing.keys && !missing.channels);
        missing.add(
            "del",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
        );
        missing.add("publish", "No permissions to access a channel");
        let commands = vec!["set", "get"];
        let all = Missing {
            commands,
            keys: true,
            channels: true,
            untried: Vec::new(),
        };
        assert_eq!(missing, all);
        let found = missing.finding("ACL SETUSER …");
        assert_eq!(found.verdict, Verdict::Problem);
        assert_eq!(
            found.found,
            "the user lacks the right to set, get and the keys and the channels"
        );
    }
}
