//! Redis servers that vote.

use tenure::Name;

use super::redis::{Redis, start_servers};
use super::{Server, TortureStore};
use crate::torture::address::Address;

#[derive(Debug)]
pub(super) struct Redlock;

impl TortureStore for Redlock {
    /// They promise an order only as a majority saw it, and none after a split vote.
    fn promises_order(&self, _is_broken: bool) -> bool {
        false
    }

    fn votes(&self) -> bool {
        true
    }

    fn start(&self) -> tenure_testkit::Result<(Vec<Box<dyn Server>>, String)> {
        let (servers, addresses) = start_servers(3)?;
        Ok((servers, format!("redlock://{addresses}?restart_delay=off")))
    }

    fn ping(&self) -> &'static [u8] {
        Redis.ping()
    }

    fn changing_request(&self) -> &'static [u8] {
        Redis.changing_request()
    }

    fn left_over(&self, address: &Address, names: &[Name]) -> Vec<String> {
        Redis.left_over(address, names)
    }
}
