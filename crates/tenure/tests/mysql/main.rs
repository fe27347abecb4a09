//! MySQL and MariaDB: the contract on a real server, and what only they do.
#![cfg(target_os = "linux")]

mod attacks;
#[path = "../databases/mod.rs"]
mod databases;
mod dialect;
#[path = "../../../tenure-testkit/tests/sql/session.rs"]
#[expect(dead_code, reason = "the tests of the kit do more with it")]
mod session;
mod table_locks;
#[path = "../processes/worker.rs"]
#[expect(dead_code, reason = "the tests of the local store do more with it")]
mod worker;

use databases::{PATIENCE, boot_time};
use tenure::store::mysql::open as open_driver;
use tenure_testkit::{MariaDb as Kind, MariaDbServer as Server, shared};

/// A server that tests share.
fn shared_url() -> String {
    shared::mariadb().unwrap()
}

mod doctor;
mod transaction;
#[path = "../transaction_rules/mod.rs"]
mod transaction_rules;

mod rules {
    tenure::conformance!(std::future::ready(super::databases::Store::of(
        &super::shared::mariadb().unwrap()
    )));
}

/// Not a test: a process that does what it is told, one order after the other.
#[test]
fn hand() {
    worker::play(databases::hand);
}
