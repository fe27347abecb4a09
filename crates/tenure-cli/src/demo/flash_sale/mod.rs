//! The flash sale: many buyers, few pieces, and several copies of one web service.
#![allow(dead_code, reason = "the sale that fills the record comes next")]

pub(crate) mod record;
