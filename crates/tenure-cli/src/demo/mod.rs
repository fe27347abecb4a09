//! `demo`: what goes wrong without a lock, and that it does not go wrong with one.

pub(crate) mod flash_sale;
