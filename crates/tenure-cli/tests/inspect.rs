//! `ls`, `show`, `watch` and `evict`.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Place, Terminal, wait_for};

#[test]
fn ls_prints_json_of_a_fixed_shape() {
    let place = Place::new();
    let holder = place.hold("a", &["--reason", "nightly", "--owner", "job-7"]);
    let waiter = place.start(&["a", "--reason", "later"], "true");
    wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
    let all = place.ls();
    let lock = &all[0];
    assert_eq!(keys(lock), ["holders", "mode", "name", "waiters"]);
    assert_eq!(
        (&lock["name"], &lock["mode"]),
        (&"a".into(), &"exclusive".into())
    );
    let held = &lock["holders"][0];
    let of_a_holder = [
        "depth",
        "expires_in_ms",
        "fence",
        "held_ms",
        "host",
        "owner",
        "pid",
        "reason",
    ];
    assert_eq!(keys(held), of_a_holder);
    assert_eq!(
        (&held["owner"], &held["depth"]),
        (&"job-7".into(), &1.into())
    );
    assert_eq!(
        (&held["reason"], &held["pid"]),
        (&"nightly".into(), &holder.id().into())
    );
    assert!(held["expires_in_ms"].as_u64().unwrap() <= 30_000);
    let waiting = &lock["waiters"][0];
    assert_eq!(
        (&waiting["reason"], &waiting["pid"]),
        (&"later".into(), &waiter.id().into())
    );
    assert!(waiting["waited_ms"].is_u64());
}

#[test]
fn an_owner_is_one_holder_however_many_claims_it_has() {
    let place = Place::new();
    for ttl in ["10m", "30s", "1m"] {
        place.run(&["acquire", "a", "--owner", "job-7", "--ttl", ttl]);
    }
    let all = place.ls();
    let holders = all[0]["holders"].as_array().unwrap();
    assert_eq!(holders.len(), 1, "{all:#}");
    assert_eq!(holders[0]["depth"], 3);
    assert!(holders[0]["expires_in_ms"].as_u64().unwrap() > 500_000);
    let table = place.run(&["show", "a"]).out;
    assert_eq!(table.matches("job-7").count(), 1, "{table}");
    assert!(table.contains("exclusive ×3"), "{table}");
    let evicted: Value = serde_json::from_str(&place.run(&["evict", "a", "--json"]).out).unwrap();
    assert_eq!(evicted.as_array().unwrap().len(), 1);
    assert_eq!(evicted[0]["depth"], 3);
}

#[test]
fn an_empty_store_lists_nothing() {
    let place = Place::new();
    assert_eq!(place.run(&["ls", "--json"]).out.trim(), "[]");
    assert_eq!(place.run(&["ls"]).out, "");
}

#[test]
fn ls_keeps_to_a_pattern() {
    let place = Place::new();
    for name in ["deploy/eu", "deploy/us", "report"] {
        place.run(&["acquire", name]);
    }
    let listed = |pattern| {
        let all: Value = serde_json::from_str(&place.run(&["ls", pattern, "--json"]).out).unwrap();
        let names = all.as_array().unwrap().iter();
        names
            .map(|lock| lock["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("deploy/*"), ["deploy/eu", "deploy/us"]);
    assert_eq!(listed("deploy/?u"), ["deploy/eu"]);
    assert_eq!(listed("report"), ["report"]);
    assert!(listed("rep").is_empty());
}

#[test]
fn a_table_shows_who_and_why_but_not_the_whole_owner() {
    let place = Place::new();
    place.run(&[
        "acquire",
        "a",
        "--owner",
        "a-rather-long-secret",
        "--reason",
        "nightly",
    ]);
    for verb in [&["ls"][..], &["show", "a"]] {
        let table = place.run(verb).out;
        assert!(
            table.contains("nightly") && table.contains("a-rather…"),
            "{table}"
        );
        assert!(
            !table.contains("secret") && !table.contains('\u{1b}'),
            "{table}"
        );
    }
}

#[test]
fn a_table_in_a_pipe_has_plain_columns() {
    let place = Place::new();
    let long = "deploy/".repeat(20);
    place.run(&["acquire", "a", "--owner", "ann", "--reason", "nightly"]);
    place.run(&["acquire", &long, "--owner", "bob"]);
    let waiter = place.start(&["a", "--owner", "eve", "--quiet"], "true");
    wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
    let table = place.run(&["ls"]).out;
    drop(waiter);
    assert!(table.is_ascii(), "{table}");
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    let column = lines[0].find("OWNER").unwrap();
    for (line, owner) in lines[1..].iter().zip(["ann", "eve", "bob"]) {
        assert!(line[column..].starts_with(owner), "{table}");
        assert!(!line.ends_with(' '), "{table}");
    }
    assert!(lines[3].starts_with(&long), "nothing is cut: {table}");
    let fields: Vec<_> = lines[2].split("  ").filter(|one| !one.is_empty()).collect();
    assert_eq!(fields.len(), 7, "no empty field but the reason: {table}");
}

#[test]
fn a_table_on_a_narrow_terminal_has_a_line_for_each_row() {
    let place = Place::new();
    let long = "deploy/".repeat(20);
    let reason = "a reason of many words ".repeat(10);
    place.run(&["acquire", "a"]);
    place.run(&["acquire", &long, "--reason", &reason]);
    for columns in [60, 80, 120] {
        let program = format!("stty cols {columns}; exec tenure ls");
        let shown = Terminal::start(&place, &program, "").ended().out;
        let shown = shown.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 6, "a frame and a line for each: {shown}");
        for line in &lines {
            assert_eq!(line.chars().count(), columns, "{shown}");
        }
        assert!(
            lines[1].contains("NAME") && lines[1].contains("REASON"),
            "{shown}"
        );
        assert_eq!(lines[1].contains("OWNER"), columns >= 120, "{shown}");
        assert!(lines[4].starts_with("│ deploy"), "{shown}");
        assert!(
            lines[4].matches('…').count() >= 2,
            "name and reason: {shown}"
        );
    }
}

#[test]
fn show_prints_one_lock_and_gives_1_if_it_is_free() {
    let place = Place::new();
    place.run(&["acquire", "a", "--shared"]);
    let held = place.run(&["show", "a", "--json"]);
    let lock: Value = serde_json::from_str(&held.out).unwrap();
    assert_eq!((held.code, &lock["mode"]), (0, &"shared".into()));
    let free = place.run(&["show", "b", "--json"]);
    let lock: Value = serde_json::from_str(&free.out).unwrap();
    assert_eq!(
        (free.code, &lock["holders"]),
        (1, &Value::Array(Vec::new()))
    );
    assert_eq!(place.run(&["show", "b"]).err, "tenure: nobody holds 'b'\n");
}

#[test]
fn evict_says_whom_from_and_lets_the_next_in() {
    let place = Place::new();
    place.run(&["acquire", "a", "--owner", "job-7"]);
    let waiter = place.start(&["a"], "exit 4");
    wait_for("the waiter", || !place.pids("a", "waiters").is_empty());
    let evicted = place.run(&["evict", "a"]);
    assert_eq!(evicted.code, 0);
    assert!(evicted.out.starts_with("took a from "), "{}", evicted.out);
    assert!(evicted.out.contains("job-7"), "{}", evicted.out);
    assert_eq!(waiter.ended().code, 4);
    let nobody = place.run(&["evict", "a"]);
    assert_eq!(
        (nobody.code, nobody.err.as_str()),
        (1, "tenure: nobody holds 'a'\n")
    );
    place.run(&["acquire", "b", "--owner", "job-8"]);
    let evicted: Value = serde_json::from_str(&place.run(&["evict", "b", "--json"]).out).unwrap();
    assert_eq!(evicted[0]["owner"], "job-8");
}

#[test]
fn a_watch_in_a_pipe_prints_a_line_for_each_change() {
    let place = Place::new();
    place.run(&["acquire", "a", "--owner", "ann"]);
    let watch = Watch::start(&place, &["watch", "?", "--every", "20ms"]);
    watch.until("held     a ");
    place.run(&["acquire", "ignored"]);
    let waiter = place.start(
        &["a", "--owner", "bob"],
        "until [ -e end ]; do sleep 0.02; done",
    );
    watch.until("waiting  a ");
    place.run(&["release", "a", "--owner", "ann"]);
    watch.until("released a ");
    let granted = watch.until("granted  a ");
    assert!(
        granted.contains("owner bob") && granted.contains("fence"),
        "{granted}"
    );
    let left = place.start(&["a"], "true");
    watch.until("waiting  a ");
    left.signal(rustix::process::Signal::TERM);
    watch.until("left     a ");
    place.end_holders();
    waiter.ended();
    watch.until("released a ");
    place.run(&["acquire", "b", "--ttl", "2s"]);
    watch.until("granted  b ");
    watch.until("expired  b ");
}

#[test]
fn a_watch_prints_json_for_scripts() {
    let place = Place::new();
    place.run(&["acquire", "first"]);
    let watch = Watch::start(&place, &["watch", "--json", "--every", "20ms"]);
    watch.until("held");
    place.run(&["acquire", "a", "--permits", "1/2", "--reason", "why"]);
    let line = watch.until("granted");
    let change: Value = serde_json::from_str(&line).unwrap();
    let all = [
        "at_ms", "event", "fence", "host", "mode", "name", "of", "owner", "pid", "reason", "take",
    ];
    assert_eq!(keys(&change), all);
    assert_eq!(
        (&change["event"], &change["reason"]),
        (&"granted".into(), &"why".into())
    );
}

#[test]
fn output_that_nobody_reads_is_no_fault() {
    let place = Place::new();
    place.run(&["acquire", "a"]);
    let mut watch = place.tenure(&["watch", "--every", "10ms"]);
    let mut watch = watch
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(watch.stdout.take());
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    while watch.try_wait().unwrap().is_none() {
        assert!(std::time::Instant::now() < give_up);
        place.run(&["evict", "a"]);
        place.run(&["acquire", "a"]);
    }
    let output = watch.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

/// Characters that change the text direction, have no width, or select variants of others.
const HIDDEN: [char; 12] = [
    '\u{ad}',
    '\u{34f}',
    '\u{200b}',
    '\u{200d}',
    '\u{200f}',
    '\u{202e}',
    '\u{2028}',
    '\u{2066}',
    '\u{3164}',
    '\u{fe0f}',
    '\u{feff}',
    '\u{e0041}',
];

#[test]
fn what_people_see_has_no_hidden_characters() {
    let place = Place::new();
    for hidden in HIDDEN {
        let text = format!("größe{hidden}txt");
        let waiting = ["run", &text, "--reason", &text, "--", "true"];
        let own = ["--owner", text.as_str(), "--reason", text.as_str()];
        assert_eq!(place.run(&[&["acquire", &text], &own[..]].concat()).code, 0);
        let waiter = common::Running::start(&mut place.tenure(&waiting));
        wait_for("the waiter", || !place.pids(&text, "waiters").is_empty());
        let watch = Watch::start(&place, &["watch", "--plain", "--every", "20ms"]);
        let mut shown = vec![watch.until("held"), watch.until("waiting")];
        let busy = place.run(&["acquire", &text, "--no-wait"]);
        shown.push(busy.err);
        for verb in [&["ls"][..], &["show", &text], &["evict", &text]] {
            shown.push(place.run(verb).out);
        }
        waiter.ended();
        place.run(&[&["acquire", &text], &own[..]].concat());
        shown.push(place.run(&["release", &text, "--owner", &text]).out);
        shown.push(place.run(&["show", &text]).err);
        shown.push(place.run(&["-v", "run", &text, "--", "true"]).err);
        let code = format!("\\u{{{:x}}}", u32::from(hidden));
        for shown in shown {
            assert!(!shown.contains(HIDDEN), "{hidden:?}: {shown:?}");
            assert!(shown.contains(&code), "{hidden:?}: {shown}");
            assert!(shown.contains("größe"), "{hidden:?}: {shown}");
        }
    }
}

#[test]
fn json_is_exact_and_shows_hidden_characters() {
    let place = Place::new();
    let name: String = HIDDEN.iter().collect();
    let taken = place.run(&["acquire", &name, "--reason", &name, "--json"]);
    let watch = Watch::start(&place, &["watch", "--json", "--every", "20ms"]);
    let mut shown = vec![taken.out, watch.until("held")];
    for verb in [&["ls"][..], &["show", &name], &["evict", &name]] {
        shown.push(place.run(&[verb, &["--json"]].concat()).out);
    }
    for shown in shown {
        assert!(!shown.contains(HIDDEN), "{shown:?}");
        let value: Value = serde_json::from_str(&shown).unwrap();
        assert!(value.to_string().contains(&name), "{shown}");
    }
}

/// A watch whose lines are read on a separate thread.
struct Watch {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.tenure(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (read, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if read.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Reads lines until one contains `text`, and returns that line.
    fn until(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60));
            let line = line.unwrap_or_else(|_| panic!("waited for {text:?} in vain"));
            assert!(!line.contains("ignored"), "{line}");
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}
