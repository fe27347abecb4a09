//! The imports that every case needs.

pub(super) use std::time::Duration;

pub(super) use redis::{AsyncCommands, AsyncConnectionConfig};
pub(super) use tenure_checker::{Freed, Promise};
pub(super) use tenure_testkit::{Fault, Proxy, RedisServer};

pub(super) use super::case::{Case, LONG, SHORT};
pub(super) use super::error::{Error, Result};
pub(super) use super::experiment::Experiment;
pub(super) use super::{BEFORE_WRITE, NAME};
pub(super) use crate::recipes::{self, Held, Keeper, PAUSE, Recipe, Redis, breakpoint, token};
pub(super) use tenure_cli::output::millis;
