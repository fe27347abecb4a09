//! Locks that hold across processes and machines.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod driver;
mod error;
mod name;
pub mod store;

pub use crate::error::{BoxError, Error, Result};
pub use crate::name::{Fence, Name, Owner};
