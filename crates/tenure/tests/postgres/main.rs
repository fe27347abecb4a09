//! PostgreSQL: the contract on a real server, and what only PostgreSQL does.
#![cfg(target_os = "linux")]

mod attacks;
mod bouncer;
#[path = "../databases/mod.rs"]
mod databases;
mod dialect;
mod durability;
mod letters;
#[path = "../../../tenure-testkit/tests/sql/session.rs"]
#[expect(dead_code, reason = "the tests of the kit do more with it")]
mod session;
#[path = "../processes/worker.rs"]
#[expect(dead_code, reason = "the tests of the local store do more with it")]
mod worker;

use databases::{PATIENCE, boot_time};
use tenure::store::postgres::open as open_driver;
use tenure_testkit::{Postgres as Kind, PostgresServer as Server, shared};

/// A server that tests share.
fn shared_url() -> String {
    shared::postgres().unwrap()
}

mod doctor;
mod transaction;
#[path = "../transaction_rules/mod.rs"]
mod transaction_rules;

mod rules {
    tenure::conformance!(std::future::ready(super::databases::Store::of(
        &super::shared::postgres().unwrap()
    )));
}

/// Not a test: a process that does what it is told, one order after the other.
#[test]
fn hand() {
    worker::play(databases::hand);
}
