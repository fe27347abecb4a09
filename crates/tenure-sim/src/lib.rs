//! A deterministic simulation of whole systems: several tenure clients, a network, a store, clocks
//! and faults, from one seed.
//!
//! The engines are real. The [driver's contract](tenure::driver::Driver) is the boundary: each
//! request goes over a simulated network to a session of the memory store, which represents the
//! server. Some plans have servers that vote instead. Then redlock is real too, and each of its
//! requests to a node goes over the network. Others have a table in a database. Then the client of
//! databases is real, and each statement goes over the network. Time is virtual, so a run of many
//! seconds takes about a millisecond, and the same seed produces the same history byte for byte.
//!
//! - [`generate()`] creates a [`Plan`](plan::Plan) from a seed: plain data.
//! - [`run()`] follows a plan, and returns what happened.
//! - [`judge()`] returns which promises were broken, according to `tenure-checker` and to what was
//!   observed in the store itself.
//! - [`shrink()`] makes a broken plan smaller, and [`story::tell`] tells it.
//! - [`Bug`] is a mistake that can be switched on, to test whether the simulator finds it.

mod beliefs;
pub mod bugs;
mod by_hand;
pub mod cli;
mod clock;
mod contract;
mod driver;
mod faults;
mod generate;
mod judge;
mod monitor;
mod network;
pub mod plan;
mod record;
mod run;
pub mod search;
mod shrink;
mod sql;
mod store;
pub mod story;
mod workload;
mod world;

pub use bugs::Bug;
pub use generate::{Scope, Stores, generate};
pub use judge::{Finding, judge};
pub use record::{Breach, Line};
pub use run::{Ran, run};
pub use shrink::shrink;
