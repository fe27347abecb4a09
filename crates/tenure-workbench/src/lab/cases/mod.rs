//! The cases of the lab, one directory each: the broken lock, the experiment that breaks it, and
//! the lesson.

use super::case::Case;
use crate::recipes::Recipe;

mod blind_retry;
mod check_then_subscribe;
mod del;
mod failover;
mod get_del;
mod incr_fence;
mod lease;
mod no_fence;
mod no_reentry;
mod process;
mod recursion;
mod redlock_no_validity;
mod renew_any_owner;
mod renew_recreate;
mod setnx;
mod setnx_expire;

/// All cases, in order.
pub(super) static ALL: &[&Case] = &[
    &process::CASE,
    &setnx::CASE,
    &recursion::CASE,
    &setnx_expire::CASE,
    &del::CASE,
    &get_del::CASE,
    &lease::CASE,
    &no_reentry::CASE,
    &renew_any_owner::CASE,
    &renew_recreate::CASE,
    &no_fence::CASE,
    &incr_fence::CASE,
    &failover::CASE,
    &redlock_no_validity::CASE,
    &check_then_subscribe::CASE,
    &blind_retry::CASE,
];

/// Returns the broken lock of the case with this name.
pub(crate) fn recipe(name: &str) -> Option<Recipe> {
    let case = ALL.iter().find(|case| case.name == name);
    case.map(|case| case.recipe)
}
