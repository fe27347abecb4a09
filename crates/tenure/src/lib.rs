//! Locks that hold across processes and machines.

pub mod blocking;
mod by_hand;
mod client;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod driver;
mod engine;
mod error;
mod guard;
#[cfg(any(test, feature = "conformance"))]
pub mod layer;
mod lock;
mod name;
mod open;
pub mod store;

pub use crate::by_hand::Lease;
pub use crate::client::Client;
pub use crate::driver::Loss;
pub use crate::error::{BoxError, Error, Result};
pub use crate::guard::{Guard, Health, Outcome};
pub use crate::lock::{DEFAULT_TTL, Lock, RwLock, Semaphore};
pub use crate::name::{Fence, Name, Owner};
pub use crate::open::open;
