//! Names as one segment of a path.

use std::fmt::Write as _;

use percent_encoding::percent_decode_str;

use crate::name::Name;

/// Writes a name as one segment of a path: `/`, `%`, `.` and `..`, and characters that the store refuses, become `%` and
/// two hexadecimal digits for each of their bytes.
pub(crate) fn encode(text: &str, is_refused: impl Fn(char) -> bool) -> String {
    if matches!(text, "." | "..") {
        return text.replace('.', "%2E");
    }
    let mut encoded = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter == '/' || letter == '%' || is_refused(letter) {
            false => encoded.push(letter),
            true => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string cannot fail.
                    let _ = write!(encoded, "%{byte:02X}");
                }
            }
        }
    }
    encoded
}

/// Reads a segment; `None` if it stands for no name, or not in the one way in which names are written.
pub(crate) fn decode(segment: &str, is_refused: impl Fn(char) -> bool) -> Option<Name> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    let name = Name::new(&text).ok()?;
    (encode(&text, is_refused) == segment).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(letter: char) -> bool {
        letter > '\u{ffff}'
    }

    #[test]
    fn what_means_something_in_a_path_is_written_otherwise() {
        for (text, segment) in [
            ("a b:c-ä", "a b:c-ä"),
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252Fb"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("a..", "a.."),
            ("🔒", "%F0%9F%94%92"),
        ] {
            assert_eq!(encode(text, refused), segment);
            assert_eq!(decode(segment, refused).unwrap().as_str(), text);
        }
        for no_name in ["%2f", "%61", "%", "%zz", "%FF", "%00", ""] {
            assert_eq!(decode(no_name, refused), None, "{no_name}");
        }
    }

    proptest! {
        #[test]
        fn names_are_told_apart_and_read_again(text in "[^\\p{Cc}]{1,60}") {
            if let Ok(name) = Name::new(&text) {
                let segment = encode(&text, refused);
                prop_assert!(!segment.contains('/') && segment != "." && segment != "..");
                prop_assert_eq!(decode(&segment, refused), Some(name));
            }
        }
    }
}
