//! `tenure::blocking` has the methods of the async API: what one of them lacks is named here, with the reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn the_blocking_api_has_the_same_methods() {
    let both = ["Client", "Guard", "Lock", "RwLock", "Semaphore"];
    let all = ["client", "guard", "lock", "by_hand", "once", "with"];
    let asynchronous: BTreeSet<_> = all.iter().flat_map(|file| methods(file, &both)).collect();
    let blocking: BTreeSet<_> = methods("blocking", &both).into_iter().collect();
    let lacking: Vec<_> = asynchronous.difference(&blocking).collect();
    let more: Vec<_> = blocking.difference(&asynchronous).collect();
    // The drivers of transactions in Rust that the library knows are async, and so is a driver.
    let expected = ["Client::row", "Client::with_driver", "Guard::hold_in"];
    assert_eq!(lacking, expected);
    // In place of `select!`.
    assert_eq!(more, ["Guard::lost_timeout"]);
}

/// The public methods that a source file gives to some types.
fn methods(file: &str, types: &[&str]) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{file}.rs"));
    let source = fs::read_to_string(path).unwrap();
    let mut methods = Vec::new();
    let mut of = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("impl ") {
            of = types.iter().find(|name| rest == format!("{name} {{"));
        }
        let public = line.strip_prefix("    pub fn ");
        let public = public.or_else(|| line.strip_prefix("    pub async fn "));
        if let (Some(of), Some(rest)) = (of, public) {
            let name = rest.split(['(', '<']).next().unwrap_or(rest);
            methods.push(format!("{of}::{name}"));
        }
    }
    assert!(!methods.is_empty(), "{file}");
    methods
}
