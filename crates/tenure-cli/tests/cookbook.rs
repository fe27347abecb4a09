//! Runs the shell recipes of the cookbook as the page shows them, and the migration from `SETNX`.
//!
//! The Rust recipes of the cookbook are doc tests of `tenure`.

mod common;
mod markdown;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use tenure_testkit::RedisServer;

use crate::common::{Ended, Place, Running, end, path_with_tenure};
use crate::markdown::{Block, Page};

/// The shells in which every recipe has to work.
const SHELLS: [&str; 2] = ["dash", "bash"];

/// The recipes that this file runs.
const RUN_HERE: [&str; 7] = ["1", "2", "5", "6", "8", "9", "10"];

#[test]
fn every_recipe_is_run() {
    let headings = Page::open(PAGE).headings();
    let recipes = headings.iter().filter(|heading| heading.level == 2);
    let numbers = recipes.map(|heading| heading.text.split('.').next().unwrap());
    let expected: Vec<_> = (1..=10).map(|number| number.to_string()).collect();
    assert_eq!(numbers.collect::<Vec<_>>(), expected);

    let blocks = Page::open(PAGE).blocks();
    let of_language = |language: &str| -> BTreeSet<String> {
        let blocks = blocks.iter().filter(|block| block.language == language);
        blocks.map(number).collect()
    };
    let (shell, rust) = (of_language("sh"), of_language("rust"));
    assert_eq!(shell, RUN_HERE.map(str::to_owned).into());
    assert_eq!(shell.union(&rust).count(), 10);
    let sources = include_str!("../../tenure/src/lib.rs");
    assert!(sources.contains("docs/cookbook.md"), "no doc tests");
}

#[test]
fn a_cron_job_runs_once_across_hosts() {
    for shell in SHELLS {
        let place = Place::new();
        place.script("report.sh", "echo ran >> reports");
        for _host in 0..3 {
            let ended = run(&place, shell, "1");
            assert_eq!(ended.code, 0, "{}", ended.err);
        }
        assert_eq!(place.lines("reports"), ["ran"]);
    }
}

#[test]
fn a_migration_runs_before_all_servers_and_never_twice_at_once() {
    for shell in SHELLS {
        let place = Place::new();
        let migrate = "mkdir migrating || exit 9\n\
                       [ -e schema ] || echo migrated >> migrations\n\
                       touch schema; rmdir migrating";
        place.script("migrate.sh", migrate);
        place.script("server.sh", "[ -e schema ] && echo up >> servers");
        let replicas = [(); 3].map(|()| start(&place, shell, "2"));
        for replica in replicas {
            assert_eq!(replica.ended().code, 0);
        }
        assert_eq!(place.lines("migrations"), ["migrated"]);
        assert_eq!(place.lines("servers"), ["up"; 3]);
    }
}

#[test]
fn a_server_does_not_start_after_a_failed_migration() {
    for shell in SHELLS {
        let place = Place::new();
        place.script("migrate.sh", "exit 3");
        place.script("server.sh", "touch up");
        assert_eq!(run(&place, shell, "2").code, 3);
        assert!(!place.path("up").exists());
    }
}

#[test]
fn each_partition_has_one_consumer_and_a_standby() {
    for shell in SHELLS {
        let place = Place::new();
        // Ends when all partitions are being consumed at the same time.
        let consume = "mkdir \"busy-$1\" || echo \"$1\" >> overlaps\n\
                       touch \"started-$1\"; echo \"$1\" >> consumed\n\
                       until [ \"$(ls -d started-* | wc -l)\" -eq 4 ]; do sleep 0.02; done\n\
                       rmdir \"busy-$1\"";
        place.script("consume.sh", consume);
        let hosts = [(); 2].map(|()| start(&place, shell, "5"));
        for host in hosts {
            assert_eq!(host.ended().code, 0);
        }
        let mut consumed = place.lines("consumed");
        consumed.sort();
        assert_eq!(consumed, ["0", "0", "1", "1", "2", "2", "3", "3"]);
        assert!(!place.path("overlaps").exists());
    }
}

#[test]
fn a_deploy_lock_excludes_and_says_whose_it_is() {
    for shell in SHELLS {
        let place = Place::new();
        let deploy = "mkdir deploying || exit 9\n\
                      tenure show deploy/production --json > shown.json\n\
                      echo deployed >> deployments; rmdir deploying";
        place.script("deploy.sh", deploy);
        let deployments = [(); 2].map(|()| start(&place, shell, "6"));
        for deployment in deployments {
            assert_eq!(deployment.ended().code, 0);
        }
        assert_eq!(place.lines("deployments").len(), 2);
        let shown = fs::read_to_string(place.path("shown.json")).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["holders"][0]["reason"], "release 1.4 by ann");
    }
}

#[test]
fn an_operator_can_end_a_deployment() {
    for shell in SHELLS {
        let place = Place::new();
        place.script("deploy.sh", "echo on >> deploying; exec sleep 600");
        let deployment = start(&place, shell, "6");
        place.content("deploying");
        assert_eq!(place.run(&["evict", "deploy/production"]).code, 0);
        assert_eq!(deployment.ended().code, 76);
    }
}

#[test]
fn two_jobs_run_at_a_time() {
    for shell in SHELLS {
        let place = Place::new();
        // The first two wait for each other, so they certainly run at the same time.
        let encode = "mkdir \"slot-$1\"; ls -d slot-* | wc -l >> counts\n\
                      echo \"$1\" >> encoded\n\
                      until [ \"$(wc -l < encoded)\" -ge 2 ]; do sleep 0.02; done\n\
                      rmdir \"slot-$1\"";
        place.script("encode.sh", encode);
        for file in ["a.wav", "b.wav", "c.wav", "d.wav", "e.wav"] {
            fs::write(place.path(file), "").unwrap();
        }
        let ended = run(&place, shell, "8");
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(place.lines("encoded").len(), 5);
        let counts = place.lines("counts");
        assert!(
            counts
                .iter()
                .all(|count| ["1", "2"].contains(&count.trim())),
            "{counts:?}"
        );
    }
}

#[test]
fn a_row_refuses_a_write_with_an_older_fence() {
    for shell in SHELLS {
        let place = Place::new();
        fs::write(place.path("sell.sql"), block("9", "sql")).unwrap();
        fs::write(place.path("sell.py"), block("9", "python")).unwrap();
        let create = "CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL); \
                      INSERT INTO item VALUES (7, 3); ";
        let page = fs::read_to_string(markdown::root().join(PAGE)).unwrap();
        let column = page.split("`ALTER TABLE").nth(1).unwrap();
        let column = column.split('`').next().unwrap();
        sql(&place, &format!("{create} ALTER TABLE{column}"));

        let paused = fence(&place);
        let ended = run(&place, shell, "9");
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(stock(&place), "2");

        let mut late = Command::new("python3");
        late.arg("sell.py").current_dir(place.path(""));
        let late = end(late.env("TENURE_FENCE", paused));
        assert_eq!((late.code, late.err.as_str()), (1, ""));
        assert_eq!(stock(&place), "2");
    }
}

#[test]
fn a_script_holds_the_lock_by_hand() {
    for shell in SHELLS {
        let place = Place::new();
        let held = "tenure run job --no-wait -- true 2>/dev/null; echo $? >> busy";
        place.script("first-half.sh", held);
        place.script("second-half.sh", held);
        let ended = run(&place, shell, "10");
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(place.lines("busy"), ["75", "75"]);
        assert!(place.is_free("job"));
    }
}

#[test]
fn a_script_that_has_lost_its_lock_does_not_go_on() {
    for shell in SHELLS {
        let place = Place::new();
        place.script("first-half.sh", "tenure evict job");
        place.script("second-half.sh", "touch went-on");
        assert_eq!(run(&place, shell, "10").code, 76);
        assert!(!place.path("went-on").exists());
    }
}

#[test]
fn an_old_client_and_tenure_share_a_key_during_a_migration() {
    let server = RedisServer::start().unwrap();
    let blocks = Page::open("docs/migrating-from-setnx.md").blocks();
    let commands = blocks.iter().find(|block| block.language == "sh").unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    let script = commands.code.replace("redis.internal:6379", &address);
    let old_client = |ttl| server.cli(&["SET", "lock:invoice-run", "old", "NX", "PX", ttl]);
    for shell in SHELLS {
        let place = Place::new();
        let old_client_inside = format!(
            "redis-cli -p {} SET lock:invoice-run old NX PX 60000 > inside; echo done >> invoices",
            server.port()
        );
        place.script("invoices.sh", &old_client_inside);
        let run = || end(&mut shell_command(&place, shell, &script));

        assert_eq!(old_client("500").trim(), "OK");
        // Waits until the old client's lock has expired. Nobody holds it afterwards, so `show`
        // exits with 1.
        let ended = run();
        assert_eq!(ended.code, 1, "{}", ended.err);
        assert_eq!(place.lines("invoices"), ["done"]);
        assert_eq!(place.lines("inside"), [""], "the old client got in");

        assert_eq!(old_client("60000").trim(), "OK");
        let impatient = script.replace("tenure run", "tenure run --no-wait");
        let shown = end(&mut shell_command(&place, shell, &impatient));
        assert_eq!(shown.code, 0, "{}", shown.err);
        assert!(shown.out.contains("invoice-run"), "{}", shown.out);
        assert_eq!(place.lines("invoices"), ["done"]);
        server.cli(&["DEL", "lock:invoice-run"]);
    }
}

/// Runs a recipe to its end.
fn run(place: &Place, shell: &str, recipe: &str) -> Ended {
    end(&mut command(place, shell, recipe))
}

/// Starts a recipe, as each of several hosts does.
fn start(place: &Place, shell: &str, recipe: &str) -> Running {
    Running::start(&mut command(place, shell, recipe))
}

fn command(place: &Place, shell: &str, recipe: &str) -> Command {
    shell_command(place, shell, &block(recipe, "sh"))
}

fn shell_command(place: &Place, shell: &str, script: &str) -> Command {
    let mut command = Command::new(shell);
    command
        .args(["-c", script])
        .current_dir(place.path(""))
        .env("PATH", path_with_tenure())
        .env("TENURE_STORE", place.store())
        .env("VERSION", "1.4")
        .env("USER", "ann");
    command
}

/// Returns the only block of a recipe in this language.
fn block(recipe: &str, language: &str) -> String {
    let blocks = Page::open(PAGE).blocks();
    let mut blocks = blocks
        .into_iter()
        .filter(|block| block.language == language && number(block) == recipe);
    let found = blocks.next().unwrap();
    assert!(blocks.next().is_none(), "{recipe} has two blocks");
    found.code
}

/// Returns the number of the recipe that a block belongs to.
fn number(block: &Block) -> String {
    block.heading.split('.').next().unwrap().to_owned()
}

/// Returns the fence of a new grant; the next grant has a larger one.
fn fence(place: &Place) -> String {
    let granted = place.run(&["run", "item/7", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    granted.out.trim().to_owned()
}

fn stock(place: &Place) -> String {
    sql(place, "SELECT stock FROM item WHERE id = 7")
}

/// Runs statements on the shop's database, and returns the first value of the last one.
fn sql(place: &Place, statements: &str) -> String {
    let program = "import sqlite3, sys\n\
                   database = sqlite3.connect('shop.db')\n\
                   with database:\n    \
                       for statement in sys.argv[1].split(';'):\n        \
                           row = database.execute(statement).fetchone()\n\
                   print(row[0] if row else '')";
    let mut python = Command::new("python3");
    python.args(["-c", program, statements]);
    let ended = end(python.current_dir(place.path("")));
    assert_eq!(ended.code, 0, "{}", ended.err);
    ended.out.trim().to_owned()
}

const PAGE: &str = "docs/cookbook.md";
