//! The cluster slot of a key.

/// Returns the slot of `key`, by the CRC16 (XMODEM) of its hash tag or of the whole key.
pub fn slot_of(key: &str) -> u16 {
    let bytes = key.as_bytes();
    let open = bytes.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let rest = &bytes[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close]).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(bytes)) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc: u16, byte| {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
        crc
    })
}

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{bar"));
        assert_ne!(slot_of("foo{}{bar}"), slot_of("bar"));
    }
}
