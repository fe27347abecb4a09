//! Decodes pictures, which arrive as text.

/// Decodes base64; returns `None` if the text is not base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').bytes();
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut number) = (0, 0_u32);
    for digit in digits {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        number = (number << 6) | u32::try_from(value).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            decoded.push((number >> bits).to_le_bytes()[0]);
            number &= (1 << bits) - 1;
        }
    }
    Some(decoded)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_bytes() {
        let cases: [(&str, &[u8]); 5] = [
            ("", b""),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("/+9+", &[0xff, 0xef, 0x7e]),
        ];
        for (text, bytes) in cases {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(decode("Zm9v!"), None);
    }
}
