//! Each condition of each script has a test that fails without it.
//!
//! `cut` forces the conditions of the scripts to be true and to be false, one at a time, and runs a
//! rule of the suite or a scenario against the wrong script, in a real server. `table.txt` names for
//! each change the one that notices, or after `=` why nobody can.
//!
//! After a change of a script, find anew what notices:
//!
//! ```text
//! cargo test -p tenure --lib find_what_notices_each_change -- --ignored
//! ```

mod cut;
mod lab;
mod scenarios;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, timeout};

use self::cut::{Cut, cuts};
use self::lab::Lab;
use crate::conformance::Fixture;
use crate::store::redis::script::Scripts;

type Test = for<'a> fn(&'a Lab) -> Pin<Box<dyn Future<Output = ()> + 'a>>;
type Rule = for<'a> fn(&'a dyn Fixture) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

macro_rules! rules {
    ($($rule:ident,)+) => {
        &[$((stringify!($rule), |fixture| Box::pin(crate::conformance::$rule(fixture)))),+]
    };
}

const RULES: &[(&str, Rule)] = crate::conformance!(@rules [rules!] []);

const TABLE: &str = include_str!("table.txt");

macro_rules! files {
    ($($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../scripts/", $file, ".lua")))),+]
    };
}

const FILES: &[(&str, &str)] = files![
    "acquire",
    "evict",
    "extend",
    "give",
    "ledger",
    "look",
    "release",
    "renew",
    "string_acquire",
    "string_extend",
    "string_release",
    "take",
    "withdraw",
];

fn text(file: &str) -> &'static str {
    let found = FILES.iter().find(|(name, _)| *name == file);
    found.expect("a script of ours").1
}

fn all_cuts() -> Vec<Cut> {
    let files = FILES.iter();
    files.flat_map(|(file, text)| cuts(file, text)).collect()
}

/// What notices a change.
#[derive(Debug, Clone, Copy)]
enum Check {
    Rule(Rule),
    Scenario(Test),
}

fn checks() -> BTreeMap<&'static str, Check> {
    // A list of all names shows what other wrong scripts left in the same server.
    let rules = RULES.iter().filter(|(name, _)| !LISTS_ALL.contains(name));
    let rules = rules.map(|(name, rule)| (*name, Check::Rule(*rule)));
    let scenarios = scenarios::ALL.iter();
    let scenarios = scenarios.map(|(name, test)| (*name, Check::Scenario(*test)));
    rules.chain(scenarios).collect()
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed(Duration),
    Failed,
    Late,
}

async fn run(check: Check, lab: Lab, limit: Duration) -> Verdict {
    let started = Instant::now();
    // A set ends its tasks when it is dropped.
    let mut task = JoinSet::new();
    task.spawn_local(async move {
        match check {
            Check::Rule(rule) => rule(&lab).await,
            Check::Scenario(test) => test(&lab).await,
        }
    });
    match timeout(limit, task.join_next()).await {
        Ok(Some(Ok(()))) => Verdict::Passed(started.elapsed()),
        Ok(_) => Verdict::Failed,
        Err(_) => Verdict::Late,
    }
}

/// Runs checks, some at once; what each is about comes back with its verdict.
async fn run_all<T: 'static>(all: Vec<(T, Check, Lab, Duration)>) -> Vec<(T, Verdict)> {
    start_all(all).join_all().await
}

fn start_all<T: 'static>(all: Vec<(T, Check, Lab, Duration)>) -> JoinSet<(T, Verdict)> {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (about, check, lab, limit) in all {
        let permits = Arc::clone(&permits);
        running.spawn_local(async move {
            let _permit = permits.acquire_owned().await.unwrap();
            (about, run(check, lab, limit).await)
        });
    }
    running
}

/// How long each check takes with the scripts as they are; fails if one does not pass.
async fn measure(
    lab: &Lab,
    names: impl Iterator<Item = &'static str>,
) -> BTreeMap<&'static str, Duration> {
    let checks = checks();
    let all = names
        .map(|name| (name, checks[name], lab.clone(), PATIENCE))
        .collect();
    let mut times = BTreeMap::new();
    let mut failed = Vec::new();
    for (name, verdict) in run_all(all).await {
        match verdict {
            Verdict::Passed(time) => _ = times.insert(name, time),
            Verdict::Failed | Verdict::Late => failed.push(name),
        }
    }
    assert!(
        failed.is_empty(),
        "fail with the scripts as they are: {failed:?}"
    );
    times
}

/// How long a check may take with a wrong script until it counts as failed.
fn limit(usual: Duration) -> Duration {
    (usual * 4).max(Duration::from_secs(2))
}

/// The table: what notices each change, by label.
fn table() -> BTreeMap<String, String> {
    let lines = TABLE.lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let pairs = lines.map(|line| {
        line.split_once(" | ")
            .expect("what notices, and the change")
    });
    pairs
        .map(|(check, label)| (label.to_owned(), check.trim().to_owned()))
        .collect()
}

#[test]
fn each_condition_of_each_script_matters() {
    in_silence(async {
        let (lab, table, checks) = (Lab::start(), table(), checks());
        let cuts = all_cuts();
        let missing: Vec<_> = cuts
            .iter()
            .map(|cut| &cut.label)
            .filter(|label| !table.contains_key(*label))
            .collect();
        assert!(
            missing.is_empty(),
            "not in the table, see the head of this file: {missing:#?}"
        );
        let stale: Vec<_> = table
            .keys()
            .filter(|label| !cuts.iter().any(|cut| cut.label == **label))
            .collect();
        assert!(
            stale.is_empty(),
            "in the table, but in no script: {stale:#?}"
        );
        let known = |name: &str| {
            checks
                .get_key_value(name)
                .map(|(name, check)| (*name, *check))
        };
        let used = |name: &&'static str| table.values().any(|check| check == name);
        let times = measure(&lab, checks.keys().copied().filter(used)).await;
        let mut all = Vec::new();
        for cut in cuts {
            let check = &table[&cut.label];
            if check.starts_with("= ") {
                continue;
            }
            let (name, check) =
                known(check).unwrap_or_else(|| panic!("no rule or scenario {check}"));
            all.push((cut.label.clone(), check, lab.with(cut), limit(times[name])));
        }
        let verdicts = run_all(all).await.into_iter();
        let unnoticed: Vec<_> = verdicts
            .filter(|(_, verdict)| matches!(verdict, Verdict::Passed(_)))
            .map(|(label, _)| label)
            .collect();
        assert!(
            unnoticed.is_empty(),
            "nobody notices any more: {unnoticed:#?}"
        );
    });
}

#[test]
fn the_scripts_are_made_of_the_files() {
    let same = Scripts::of(|file| text(file).to_owned());
    assert_eq!(same.hashes(), Scripts::new().hashes());
}

/// Writes the table anew: keeps what holds, looks for what does not.
#[test]
#[ignore = "takes minutes, and writes a file of the source"]
fn find_what_notices_each_change() {
    in_silence(async {
        let (lab, table, checks) = (Lab::start(), table(), checks());
        let times = measure(&lab, checks.keys().copied()).await;
        let mut known = Vec::new();
        for cut in all_cuts() {
            let check = table.get(&cut.label).map(String::as_str);
            let check = check.and_then(|check| checks.get_key_value(check));
            if let Some((name, check)) = check {
                let label = cut.label.clone();
                known.push((label, *check, lab.with(cut), limit(times[name])));
            }
        }
        let mut known = run_all(known).await;
        known.retain(|(_, verdict)| !matches!(verdict, Verdict::Passed(_)));
        // What has noticed most lately is asked first.
        let mut order: Vec<_> = checks.keys().copied().collect();
        order.sort_by_key(|name| times[name]);
        let head = TABLE.lines().filter(|line| line.starts_with('#'));
        let mut lines: String = head.map(|line| format!("{line}\n")).collect();
        for cut in all_cuts() {
            let label = cut.label.clone();
            let before = table.get(&label).filter(|check| {
                check.starts_with("= ") || known.iter().any(|(known, _)| *known == label)
            });
            let found = match before {
                Some(check) => check.clone(),
                None => {
                    let found = find(lab.with(cut), &mut order, &times).await;
                    found.unwrap_or("?").to_owned()
                }
            };
            eprintln!("{found} | {label}");
            writeln!(lines, "{found} | {label}").unwrap();
        }
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/store/redis/mutants/table.txt"
        );
        std::fs::write(path, lines).unwrap();
    });
}

/// The check that notices a change soonest.
async fn find(
    lab: Lab,
    order: &mut Vec<&'static str>,
    times: &BTreeMap<&'static str, Duration>,
) -> Option<&'static str> {
    let checks = checks();
    let fails = |name: &'static str| {
        let again = run(checks[name], lab.clone(), limit(times[name]));
        async { again.await == Verdict::Failed }
    };
    let all = order.iter();
    let all = all.map(|name| (*name, checks[name], lab.clone(), limit(times[name])));
    let mut running = start_all(all.collect());
    let mut late = None;
    while let Some(ended) = running.join_next().await {
        match ended.unwrap() {
            // A busy machine may have been in the way of a check: it has to fail again.
            (name, Verdict::Failed) if fails(name).await => {
                order.retain(|other| *other != name);
                order.insert(0, name);
                return Some(name);
            }
            (name, Verdict::Late) => late = late.or(Some(name)),
            (_, Verdict::Failed | Verdict::Passed(_)) => {}
        }
    }
    late
}

/// Runs what is expected to panic in many tasks, without a word of each.
fn in_silence(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        LocalSet::new().block_on(&runtime, test);
    }));
    std::panic::set_hook(loud);
    if let Err(panic) = outcome {
        let text = panic
            .downcast_ref::<String>()
            .map_or("failed", String::as_str);
        panic!("{text}");
    }
}

/// How many checks run at once.
const AT_ONCE: usize = 16;

/// How long a check may take with the scripts as they are.
const PATIENCE: Duration = Duration::from_secs(20);

const LISTS_ALL: &[&str] = &[
    "names_used_once_leave_nothing_in_the_list",
    "the_list_is_sorted_and_filtered_by_name",
];
