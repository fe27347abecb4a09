//! Errors because of too few nodes.

use std::fmt::Write as _;

use crate::error::{BoxError, Error};

pub(crate) fn unavailable(source: impl Into<BoxError>) -> Error {
    Error::unavailable(DRIVER, source)
}

pub(crate) fn indeterminate(source: impl Into<BoxError>) -> Error {
    Error::indeterminate(DRIVER, source)
}

/// Explains why there is no majority: how many can vote, and what is wrong with each of the others.
pub(crate) fn too_few(
    counted: usize,
    all: usize,
    majority: usize,
    others: &[(String, String)],
) -> String {
    let nodes = if all == 1 { "node" } else { "nodes" };
    let are = if majority == 1 { "is" } else { "are" };
    let mut text = format!("{counted} of {all} {nodes} can vote, {majority} {are} needed");
    for (index, (place, why)) in others.iter().enumerate() {
        let mark = if index == 0 { ": " } else { "; " };
        text.push_str(mark);
        if !why.contains(place.as_str()) {
            // Writing to a text cannot fail.
            let _ = write!(text, "{place}: ");
        }
        text.push_str(why);
    }
    text
}

pub(crate) const DRIVER: &str = "redlock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_that_is_missing_is_named_once() {
        let others = [
            ("a:1".to_owned(), "no connection to a:1: refused".to_owned()),
            ("b:2".to_owned(), "no answer in 250ms".to_owned()),
        ];
        assert_eq!(
            too_few(1, 3, 2, &others),
            "1 of 3 nodes can vote, 2 are needed: no connection to a:1: refused; \
             b:2: no answer in 250ms"
        );
        assert_eq!(too_few(0, 1, 1, &[]), "0 of 1 node can vote, 1 is needed");
    }
}
