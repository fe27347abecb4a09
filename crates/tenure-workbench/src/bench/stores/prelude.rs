//! The imports that every store's file needs.

pub(super) use std::time::Duration;

pub(super) use super::{BenchStore, Counter, Kind, OWN_PAIR, Opened, Subject, TENURE};
pub(super) use crate::bench::contender::{Attempt, BareLock, BareLocks, bare_failed};
pub(super) use crate::bench::messages::Who;
pub(super) use crate::bench::report_row::Aim::{self, AtLeast, AtMost, RatioAtLeast, RatioAtMost};
pub(super) use crate::bench::report_row::Unit::{
    Bytes, Micros, Millis, Number, PerSecond, Percent,
};
pub(super) use crate::bench::report_row::{Row, row};
pub(super) use crate::bench::workload::Workload::{
    self, Crash, Crowd, Dead, Handover, Hot, Idle, Keep, Many, Pair, Parallel, Slow, Team,
};
pub(super) use tenure_cli::{Failure, Result};
