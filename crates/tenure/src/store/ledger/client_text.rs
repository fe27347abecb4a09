//! Serializes a client as hexadecimal digits in formats that people read, and as a number
//! elsewhere.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Session;

pub(super) fn serialize<S: Serializer>(session: &Session, to: S) -> Result<S::Ok, S::Error> {
    match to.is_human_readable() {
        true => to.serialize_str(&format!("{session:032x}")),
        false => session.serialize(to),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Session, D::Error> {
    match from.is_human_readable() {
        true => {
            let text = String::deserialize(from)?;
            Session::from_str_radix(&text, 16).map_err(D::Error::custom)
        }
        false => Session::deserialize(from),
    }
}
