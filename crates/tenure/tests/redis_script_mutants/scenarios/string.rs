//! The scripts of `layout=string`.

use super::scenarios;
use crate::store::redis::mutants::lab::Lab;

scenarios![string_locks_compare, string_fences_grow,];

/// Only the owner of a string lock renews and releases it.
async fn string_locks_compare(lab: &Lab) {
    let key = format!("string:{}", crate::Owner::unique());
    let release = |owner: &str| lab.cli(&["EVAL", &lab.text("string_release"), "1", &key, owner]);
    let extend = |owner: &str| {
        lab.cli(&[
            "EVAL",
            &lab.text("string_extend"),
            "1",
            &key,
            owner,
            "60000",
        ])
    };
    assert_eq!((release("ann"), extend("ann")), ("0".into(), "0".into()));
    lab.cli(&["SET", &key, "ann", "PX", "10000"]);
    assert_eq!((release("bob"), extend("bob")), ("0".into(), "0".into()));
    assert_eq!(extend("ann"), "1");
    assert!(lab.cli(&["PTTL", &key]).parse::<u64>().unwrap() > 10_000);
    let keep = |owner: &str| {
        let script = lab.text("string_extend");
        lab.cli(&["EVAL", &script, "1", &key, owner, "60000", "nobody"])
    };
    assert_eq!((keep("bob"), keep("ann")), ("0".into(), "1".into()));
    assert_eq!(lab.cli(&["GET", &key]), "nobody");
    assert!(lab.cli(&["PTTL", &key]).parse::<u64>().unwrap() > 10_000);
    assert_eq!((release("ann"), extend("ann")), ("0".into(), "0".into()));
    lab.cli(&["SET", &key, "ann"]);
    assert_eq!(release("ann"), "1");
    assert_eq!(lab.cli(&["EXISTS", &key]), "0");
}

/// A string lock is granted to one owner, again if it asks again, with growing fences.
async fn string_fences_grow(lab: &Lab) {
    let key = format!("string:{}", crate::Owner::unique());
    let acquire = |owner: &str, ttl: &str| -> u64 {
        let last = format!("{key}:fence");
        let script = lab.text("string_acquire");
        let answer = lab.cli(&[
            "EVAL", &script, "2", &key, &last, owner, ttl, "64", "3600000",
        ]);
        answer.parse().unwrap()
    };
    let first = acquire("ann", "10000");
    assert!(first > 1_500_000_000_000_000, "a time, not {first}");
    assert_eq!(acquire("bob", "10000"), 0);
    let again = acquire("ann", "60000");
    assert!(again >= first + 64);
    assert!(lab.cli(&["PTTL", &key]).parse::<u64>().unwrap() > 10_000);
    lab.cli(&["SET", &format!("{key}:fence"), "1000"]);
    assert!(acquire("ann", "10000") > again);
    // The clock went back, or this many fences were reserved.
    lab.cli(&["SET", &format!("{key}:fence"), "4000000000000000"]);
    assert_eq!(acquire("ann", "10000"), 4_000_000_000_000_001);
    assert_eq!(acquire("ann", "10000"), 4_000_000_000_000_065);
}
