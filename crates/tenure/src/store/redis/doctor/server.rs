//! Checks the settings of one server: what it may lose, and when.

use redis::Value;

use crate::doctor::{Check, Finding};
use crate::store::redis::compare::Native;
use crate::store::redis::doctor::node::{Facts, Node, said};
use crate::store::redis::url::{Servers, Settings};

/// Checks whether the server evicts locks when its memory is full.
pub(crate) fn eviction(facts: &Facts) -> Finding {
    const CHECK: Check = Check("eviction");
    let Some(policy) = facts.either("maxmemory-policy", "maxmemory_policy") else {
        return not_shown(CHECK, "maxmemory-policy");
    };
    if policy == "noeviction" {
        return CHECK.fine("maxmemory-policy is noeviction");
    }
    let advice = "set maxmemory-policy to noeviction, or give locks a server of their own";
    match facts.either("maxmemory", "maxmemory") {
        Some("0") => CHECK.warning(format!("maxmemory-policy is {policy}, which evicts nothing only as long as maxmemory is not set"),
            advice,
        ),
        Some(limit) => CHECK.problem(format!(
                "the server evicts locks when full: maxmemory-policy is {policy}, maxmemory is {limit}"
            ),
            advice,
        ),
        None => not_shown(CHECK, "maxmemory"),
    }
}

/// Checks what the server loses in a restart or a power cut.
pub(crate) fn persistence(facts: &Facts) -> Finding {
    const CHECK: Check = Check("persistence");
    let Some(appends) = appends(facts) else {
        return not_shown(CHECK, "appendonly");
    };
    let advice =
        "set appendonly to yes, and appendfsync to always if a power cut must not free a lock";
    if !appends {
        return match facts.config("save") {
            Some("") => {
                let found = "nothing is kept on disk: a restart forgets all locks, held or not";
                CHECK.problem(found, advice)
            }
            Some(save) => {
                let found = format!(
                    "only snapshots are kept (save {save}): a crash forgets the locks since the last one"
                );
                CHECK.warning(found, advice)
            }
            None => {
                let found = "appendonly is no, and the server does not show its setting save";
                CHECK.unknown(found, advice)
            }
        };
    }
    let lost = match facts.config("appendfsync") {
        Some("always") => {
            return CHECK.fine("every change is on disk before its answer (appendfsync always)");
        }
        Some("everysec") => "the last second or two",
        Some(_) => "the last half a minute or so",
        None => return not_shown(CHECK, "appendfsync"),
    };
    let how = facts.config("appendfsync").unwrap_or_default();
    CHECK.warning(
        format!(
            "a power cut forgets the locks of {lost} (appendfsync {how}), a killed process none"
        ),
        "set appendfsync to always if a power cut must not free a lock",
    )
}

/// Returns a setting because of which a power cut loses locks, even if the server hides others.
pub(crate) fn forgetful(facts: &Facts) -> Option<String> {
    if appends(facts) == Some(false) {
        return Some("appendonly is no".to_owned());
    }
    let how = facts.config("appendfsync").filter(|how| *how != "always");
    how.map(|how| format!("appendfsync is {how}"))
}

/// Returns whether there is an append-only file.
fn appends(facts: &Facts) -> Option<bool> {
    let appends = facts.either("appendonly", "aof_enabled");
    appends.map(|appends| matches!(appends, "yes" | "1"))
}

/// Checks how many replicas are in step, and whether grants wait for them.
pub(super) fn replicas(settings: &Settings, facts: &Facts, wait: &Result<(), String>) -> Finding {
    const CHECK: Check = Check("replicas");
    let wanted = settings.replicas;
    if let (Err(why), true) = (wait, wanted > 0) {
        return CHECK.problem(
            format!("replicas={wanted} needs WAIT, which the server refuses: {why}"),
            "allow WAIT, or leave replicas out of the URL",
        );
    }
    let role = facts.info("role");
    if role.is_some_and(|role| role != "master") {
        return CHECK.problem(
            "the server is a replica, where no lock can be taken",
            "name the master in the URL, or sentinels that know it",
        );
    }
    let Some(connected) = online_replicas(facts) else {
        return not_shown(CHECK, "connected_slaves");
    };
    let found = are_connected(connected);
    if connected < wanted {
        return CHECK.problem(
            format!("{found}, fewer than replicas={wanted}: every lock fails"),
            "start replicas, or lower replicas in the URL",
        );
    }
    if connected == 0 {
        let found = format!("{found}: while the server is away nobody can lock");
        let advice = "add a replica and sentinels, or accept it where one server is enough";
        return CHECK.warning(found, advice);
    }
    if wanted == 0 {
        let found = format!("{found}, asynchronously: a failover may forget a lock that is held");
        let advice = match wait {
            Ok(()) => {
                format!("add replicas={connected} to the URL, or let the resource check fences")
            }
            Err(_) => "let the resource check fences; WAIT is not possible here".to_owned(),
        };
        return CHECK.warning(found, advice);
    }
    let found = format!("{found}, {wanted} confirm each lock");
    match wanted < connected {
        true => CHECK.warning(
            format!("{found}: a failover to another may forget it"),
            format!("replicas={connected} is safer, but then none of them may be away"),
        ),
        false => CHECK.fine(found),
    }
}

/// Checks whether a master that is cut off from its replicas keeps granting locks.
pub(super) fn cut_off(settings: &Settings, facts: &Facts) -> Option<Finding> {
    const CHECK: Check = Check("cut-off");
    let has_failover = !matches!(settings.servers, Servers::One(_) | Servers::Socket(_));
    let connected = online_replicas(facts).unwrap_or(0);
    if !has_failover && connected == 0 {
        return None;
    }
    let Some(least) = facts.config("min-replicas-to-write") else {
        return Some(not_shown(CHECK, "min-replicas-to-write"));
    };
    let lag = facts.config("min-replicas-max-lag").unwrap_or("10");
    match least.parse::<u32>().unwrap_or(0) {
        0 => Some(CHECK.warning("a master that is cut off goes on granting locks (min-replicas-to-write is 0)",
            "set min-replicas-to-write to 1, or replicas in the URL",
        )),
        least if least > connected => Some(CHECK.problem(format!(
                "the server refuses every write: min-replicas-to-write is {least}, {connected} are connected"
            ),
            "start replicas, or lower min-replicas-to-write",
        )),
        least => Some(CHECK.fine(format!(
                "a master that is cut off stops after {lag} s (min-replicas-to-write is {least})"
            ),
        )),
    }
}

/// Checks how the driver compares and sets a string.
pub(super) fn compare(
    settings: &Settings,
    native: Option<Native>,
    scripts: bool,
    fences: bool,
) -> Finding {
    const CHECK: Check = Check("layout");
    let how = match native {
        Some(Native::Delex) => "DELEX",
        Some(Native::Delifeq) => "DELIFEQ",
        None if scripts => "a script",
        None => "WATCH and MULTI",
    };
    let found = format!("strings are compared and deleted by {how}");
    if !fences {
        let found = format!("{found}; fences=off gives every lock the fence 1");
        let advice = "leave out fences=off, unless nothing checks fences";
        return CHECK.warning(found, advice);
    }
    if settings.replicas > 0 {
        let found =
            format!("{found}; replicas is in the URL, but strings are not confirmed by replicas");
        return CHECK.warning(
            found,
            "use layout=hash if a failover must not forget a lock",
        );
    }
    CHECK.fine(found)
}

/// Checks how waiters for a string learn that it has changed.
pub(super) async fn news(settings: &Settings, node: &mut Node) -> Finding {
    const CHECK: Check = Check("news");
    if settings.is_cluster() {
        return CHECK.warning(
            "a cluster does not report changed strings: waiters poll every 250 ms",
            "use layout=hash if that is too slow",
        );
    }
    match node
        .ask(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"])
        .await
    {
        Ok(_) => CHECK.fine("the server tells waiters of changed strings (CLIENT TRACKING)"),
        Err(error) => CHECK.problem(
            format!(
                "the server refuses CLIENT TRACKING, which layout=string needs: {}",
                said(&error)
            ),
            "allow it, or use layout=hash",
        ),
    }
}

/// Asks for the server's native compare-and-delete, as the driver does.
pub(super) async fn native(node: &mut Node) -> Option<Native> {
    let answer = node.ask(&Native::ASK).await.ok()?;
    Native::read(&answer)
}

/// Checks whether `WAIT` is possible, and why not.
pub(super) async fn wait(node: &mut Node) -> Result<(), String> {
    match node.ask(&["WAIT", "0", "1"]).await {
        Ok(Value::Int(_)) => Ok(()),
        Ok(_) => Err("unexpected reply".to_owned()),
        Err(error) => Err(said(&error)),
    }
}

/// Returns the number of replicas of a master that are in step.
pub(crate) fn online_replicas(facts: &Facts) -> Option<u32> {
    let connected: u32 = facts.info("connected_slaves")?.parse().ok()?;
    let in_step = (0..connected).filter(|number| {
        let replica = facts.info(&format!("slave{number}"));
        replica.is_none_or(|replica| replica.contains("state=online"))
    });
    u32::try_from(in_step.count()).ok()
}

/// Describes how many replicas are connected.
pub(crate) fn are_connected(replicas: u32) -> String {
    match replicas {
        0 => "no replica is connected".to_owned(),
        1 => "1 replica is connected".to_owned(),
        some => format!("{some} replicas are connected"),
    }
}

/// Returns the finding for a setting that the server does not show; this is not a pass.
pub(crate) fn not_shown(check: Check, setting: &str) -> Finding {
    let found = format!("not checked: the server does not show {setting}");
    let advice = "run this as a user with +info and +config|get, or ask your provider";
    check.unknown(found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    fn settings(url: &str) -> Settings {
        Settings::parse(url).unwrap()
    }

    #[test]
    fn a_policy_that_evicts_is_a_problem_once_memory_is_limited() {
        let policies = [
            "allkeys-lru",
            "allkeys-random",
            "volatile-ttl",
            "volatile-lfu",
        ];
        for policy in policies {
            for (limit, verdict) in [("0", Verdict::Warning), ("1048576", Verdict::Problem)] {
                let config = [("maxmemory-policy", policy), ("maxmemory", limit)];
                assert_eq!(eviction(&Facts::of(&[], &config)).verdict, verdict);
                let info = [("maxmemory_policy", policy), ("maxmemory", limit)];
                assert_eq!(eviction(&Facts::of(&info, &[])).verdict, verdict);
            }
        }
        let config = [("maxmemory-policy", "noeviction"), ("maxmemory", "5")];
        assert_eq!(eviction(&Facts::of(&[], &config)).verdict, Verdict::Fine);
        assert_eq!(eviction(&Facts::default()).verdict, Verdict::Unknown);
    }

    #[test]
    fn persistence_is_as_good_as_its_weakest_setting() {
        let cases: [(&[(&str, &str)], Verdict); 7] = [
            (&[("appendonly", "no"), ("save", "")], Verdict::Problem),
            (
                &[("appendonly", "no"), ("save", "3600 1")],
                Verdict::Warning,
            ),
            (&[("appendonly", "no")], Verdict::Unknown),
            (
                &[("appendonly", "yes"), ("appendfsync", "no")],
                Verdict::Warning,
            ),
            (
                &[("appendonly", "yes"), ("appendfsync", "everysec")],
                Verdict::Warning,
            ),
            (
                &[("appendonly", "yes"), ("appendfsync", "always")],
                Verdict::Fine,
            ),
            (&[], Verdict::Unknown),
        ];
        for (config, verdict) in cases {
            let found = persistence(&Facts::of(&[], config));
            assert_eq!(found.verdict, verdict, "{config:?}: {found:?}");
        }
    }

    #[test]
    fn replicas_that_are_not_in_step_do_not_count() {
        let info = [
            ("connected_slaves", "2"),
            ("slave0", "ip=::1,port=1,state=online,offset=1,lag=0"),
            ("slave1", "ip=::1,port=2,state=wait_bgsave,offset=0,lag=0"),
        ];
        assert_eq!(online_replicas(&Facts::of(&info, &[])), Some(1));
    }

    #[test]
    fn replicas_are_counted_against_what_the_url_wants() {
        let cases = [
            ("redis://x", "0", Verdict::Warning),
            ("redis://x", "1", Verdict::Warning),
            ("redis://x?replicas=1", "0", Verdict::Problem),
            ("redis://x?replicas=1", "1", Verdict::Fine),
            ("redis://x?replicas=1", "2", Verdict::Warning),
        ];
        for (url, connected, verdict) in cases {
            let facts = Facts::of(&[("role", "master"), ("connected_slaves", connected)], &[]);
            let found = replicas(&settings(url), &facts, &Ok(()));
            assert_eq!(found.verdict, verdict, "{url}, {connected}: {found:?}");
        }
        let replica = Facts::of(&[("role", "slave"), ("connected_slaves", "0")], &[]);
        let found = replicas(&settings("redis://x"), &replica, &Ok(()));
        assert_eq!(found.verdict, Verdict::Problem);
        let no_wait = Err("ERR unknown command".to_owned());
        let found = replicas(&settings("redis://x?replicas=1"), &replica, &no_wait);
        assert!(
            found.verdict == Verdict::Problem && found.found.contains("WAIT"),
            "{found:?}"
        );
    }
}
