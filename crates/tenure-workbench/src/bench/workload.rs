//! The workloads, by name.

use clap::ValueEnum;
use serde::Serialize;

use crate::terminal::flag_name;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// One client locks and releases one name
    Pair,
    /// The same while one of the nodes that vote is dead
    Dead,
    /// The same while one of the nodes that vote answers 20 ms late
    Slow,
    /// One client locks and releases a name that it keeps; then another one claims it
    Keep,
    /// 64 tasks of one process lock a name each
    Parallel,
    /// Two processes hand a lock to and fro
    Handover,
    /// 64 tasks of one process want the same name
    Hot,
    /// 8 processes want the same name for 1 ms each
    Crowd,
    /// 64 tasks of one process want the same name for 1 ms each
    Team,
    /// The holder is killed while another process waits
    Crash,
    /// 200 waiters of one process wait in vain
    Idle,
    /// One process holds very many leases
    Many,
}

impl Workload {
    /// Returns the name as users write it after `--only`.
    pub(crate) fn name(self) -> String {
        flag_name(&self)
    }

    /// Returns whether it is measured in short turns.
    ///
    /// These workloads compare tenure with itself. Another client may gain more from a pause than
    /// tenure does, because the scheduler then often puts the server on its core.
    pub(crate) fn takes_turns(self) -> bool {
        matches!(self, Self::Dead | Self::Slow)
    }

    /// Returns in how many of the rounds it is measured.
    pub(crate) fn rounds(self, all: u32) -> u32 {
        if self.takes_long() { 1 } else { all }
    }

    /// Returns whether it is measured in this round, counted from 0.
    ///
    /// Long ones are measured at the end: [`Many`](Self::Many) may change the store for the others.
    pub(crate) fn is_in(self, round: u32, all: u32) -> bool {
        !self.takes_long() || round + 1 == all
    }

    fn takes_long(self) -> bool {
        matches!(self, Self::Idle | Self::Many)
    }
}
