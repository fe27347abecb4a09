//! Each condition of each script has a test that fails without it.
//!
//! `cut` forces the conditions of the scripts to be true and to be false, one at a time, and runs a
//! rule of the suite or a scenario against the wrong script, on a real server. `table.txt` names
//! for each change the test that detects it, or after `=` why none can.
//!
//! The tests use the library's own scripts and clients, so `src/store/redis/mod.rs` includes this
//! directory as a module of its unit tests; it is not a separate test target.
//!
//! After a change of a script, update the table:
//!
//! ```text
//! cargo test -p tenure --lib find_what_notices_each_change -- --ignored
//! ```

mod cut;
mod lab;
mod run;
mod scenarios;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use self::cut::{Cut, cuts};
use self::lab::Lab;
use self::run::{Job, Verdict, checks, run_all, run_until};
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
        &[$(($file, include_str!(concat!("../../src/store/redis/scripts/", $file, ".lua")))),+]
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

#[test]
fn each_condition_of_each_script_matters() -> Result<(), Findings> {
    let (lab, table, cuts) = (Lab::start(), table(), all_cuts());
    is_complete(&table, &cuts)?;
    let used = |name: &&'static str| table.values().any(|check| check == name);
    let checks = checks();
    let times = measure(&lab, checks.keys().copied().filter(used))?;
    let mut jobs = Vec::new();
    for cut in cuts {
        let check = &table[&cut.label];
        if check.starts_with("= ") {
            continue;
        }
        let known = checks.get_key_value(check.as_str());
        let (name, check) = known.unwrap_or_else(|| panic!("no rule or scenario {check}"));
        jobs.push(Job {
            name,
            check: *check,
            limit: limit(times[name]),
            lab: lab.with(cut),
        });
    }
    let mut unnoticed = run_all(jobs);
    unnoticed.retain(|(_, verdict)| matches!(verdict, Verdict::Passed(_)));
    // It is enough that a wrong script is detected once. A check that has to observe a lease before
    // its end, or a client that is dead by now, may miss it on a busy machine.
    unnoticed.retain(|(job, _)| (0..2).all(|_| matches!(job.run_again(), Verdict::Passed(_))));
    let unnoticed = unnoticed.iter();
    let unnoticed = unnoticed.map(|(job, _)| format!("{} does not notice {}", job.name, job.lab));
    none(
        "changes that nobody notices any more",
        &unnoticed.collect::<Vec<_>>(),
    )
}

/// Fails unless the table has all changes and no others.
fn is_complete(table: &BTreeMap<String, String>, cuts: &[Cut]) -> Result<(), Findings> {
    let labels: Vec<_> = cuts.iter().map(|cut| &cut.label).collect();
    let missing = labels.iter().filter(|label| !table.contains_key(**label));
    none(
        "changes that the table lacks, see the head of this file",
        &missing.collect::<Vec<_>>(),
    )?;
    let stale = table.keys().filter(|label| !labels.contains(label));
    none(
        "changes in the table that no script has",
        &stale.collect::<Vec<_>>(),
    )
}

/// Returns how long each check takes with the original scripts; fails if one does not pass.
fn measure(
    lab: &Lab,
    names: impl Iterator<Item = &'static str>,
) -> Result<BTreeMap<&'static str, Duration>, Findings> {
    let checks = checks();
    let jobs = names.map(|name| Job {
        name,
        check: checks[name],
        lab: lab.clone(),
        limit: PATIENCE,
    });
    let mut times = BTreeMap::new();
    let mut failed = Vec::new();
    for (job, verdict) in run_all(jobs.collect()) {
        // Only the duration matters here, so a check that was disturbed may run again. The tests of
        // `scenarios` and the tests of the rules on Redis show that they pass.
        let verdict = match verdict {
            Verdict::Passed(_) => verdict,
            Verdict::Failed(_) | Verdict::Late => {
                eprintln!("disturbed: {}: {verdict:?}", job.name);
                job.run_again()
            }
        };
        match verdict {
            Verdict::Passed(time) => _ = times.insert(job.name, time),
            Verdict::Failed(said) => failed.push(format!("{}: {said}", job.name)),
            Verdict::Late => failed.push(format!("{} takes more than {PATIENCE:?}", job.name)),
        }
    }
    none("checks that fail with the scripts as they are", &failed)?;
    Ok(times)
}

/// Fails if there are any, with one line for each.
fn none(what: &str, found: &[impl fmt::Display]) -> Result<(), Findings> {
    if found.is_empty() {
        return Ok(());
    }
    let mut text = format!("{what}: {}", found.len());
    for found in found {
        write!(text, "\n- {found}").unwrap();
    }
    Err(Findings(text))
}

/// Why the test fails. It is returned, so that there is no backtrace between the text and the end
/// of a log.
struct Findings(String);

impl fmt::Debug for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns how long a check may take with a wrong script before it counts as failed.
fn limit(usual: Duration) -> Duration {
    (usual * 4).max(Duration::from_secs(2))
}

/// Returns the table: what detects each change, by label.
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
fn the_scripts_are_made_of_the_files() {
    let same = Scripts::of(|file| text(file).to_owned());
    assert_eq!(same.hashes(), Scripts::new().hashes());
}

/// Writes the table again: keeps valid entries, and searches for the others.
#[test]
#[ignore = "takes minutes, and writes a file of the source"]
fn find_what_notices_each_change() -> Result<(), Findings> {
    let (lab, table, checks) = (Lab::start(), table(), checks());
    let times = measure(&lab, checks.keys().copied())?;
    let mut known = Vec::new();
    for cut in all_cuts() {
        let check = table.get(&cut.label).map(String::as_str);
        if let Some((name, check)) = check.and_then(|check| checks.get_key_value(check)) {
            known.push(Job {
                name,
                check: *check,
                limit: limit(times[name]),
                lab: lab.with(cut),
            });
        }
    }
    let known = run_all(known).into_iter();
    let holds = known.filter(|(_, verdict)| !matches!(verdict, Verdict::Passed(_)));
    let holds: Vec<_> = holds.map(|(job, _)| job.lab.to_string()).collect();
    // The fastest check comes first; later, the one that detected a change most recently.
    let mut order: Vec<_> = checks.keys().copied().collect();
    order.sort_by_key(|name| times[name]);
    let head = TABLE.lines().filter(|line| line.starts_with('#'));
    let mut lines: String = head.map(|line| format!("{line}\n")).collect();
    for cut in all_cuts() {
        let label = cut.label.clone();
        let before = table.get(&label);
        let before = before.filter(|check| check.starts_with("= ") || holds.contains(&label));
        let found = match before {
            Some(check) => check,
            None => find(&lab.with(cut), &mut order, &times).unwrap_or("?"),
        };
        eprintln!("{found} | {label}");
        writeln!(lines, "{found} | {label}").unwrap();
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/redis_script_mutants/table.txt"
    );
    std::fs::write(path, lines).unwrap();
    Ok(())
}

/// Returns the check that detects a change soonest.
fn find(
    lab: &Lab,
    order: &mut Vec<&'static str>,
    times: &BTreeMap<&'static str, Duration>,
) -> Option<&'static str> {
    let checks = checks();
    let jobs = order.iter().map(|name| Job {
        name,
        check: checks[name],
        lab: lab.clone(),
        limit: limit(times[name]),
    });
    let (mut found, mut late) = (None, None);
    run_until(jobs.collect(), |job, verdict| {
        match verdict {
            // A check may have been disturbed by a busy machine, so it has to fail again.
            Verdict::Failed(_) if matches!(job.run(), Verdict::Failed(_)) => {
                found = Some(job.name);
                return ControlFlow::Break(());
            }
            Verdict::Late => late = late.or(Some(job.name)),
            Verdict::Failed(_) | Verdict::Passed(_) => {}
        }
        ControlFlow::Continue(())
    });
    if let Some(name) = found {
        order.retain(|other| *other != name);
        order.insert(0, name);
    }
    found.or(late)
}

/// How long a check may take with the original scripts.
const PATIENCE: Duration = Duration::from_secs(20);
