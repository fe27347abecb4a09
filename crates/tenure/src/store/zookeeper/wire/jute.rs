//! The encoding of ZooKeeper's protocol: big-endian numbers, and texts and bytes behind their length.

use std::fmt;

/// Writes a request.
#[derive(Debug, Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    /// Starts a packet, whose length is written at its end.
    pub(super) fn packet() -> Self {
        Self(vec![0; 4])
    }

    pub(super) fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        self.0.push(u8::from(value));
        self
    }

    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.int(length(value.len()));
        self.0.extend(value);
        self
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// Returns what was written, without a length.
    #[cfg(test)]
    pub(super) fn packet_body(self) -> Vec<u8> {
        self.0
    }

    /// Ends a packet and returns its bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let body = length(self.0.len() - 4);
        self.0[..4].copy_from_slice(&body.to_be_bytes());
        self.0
    }
}

fn length(length: usize) -> i32 {
    // Servers refuse packets of more than a megabyte, unless they are told otherwise.
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Reads a reply.
#[derive(Debug)]
pub(super) struct Decoder<'a>(&'a [u8]);

/// A reply that is shorter than it should be, or has a negative length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server did not reply in the ZooKeeper protocol")
    }
}

type Decoded<T> = Result<T, Malformed>;

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn int(&mut self) -> Decoded<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Decoded<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn bool(&mut self) -> Decoded<bool> {
        self.array::<1>().map(|[byte]| byte != 0)
    }

    /// Reads bytes; a length of -1 means none.
    pub(super) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let length = match self.int()? {
            -1 => 0,
            length => usize::try_from(length).map_err(|_| Malformed)?,
        };
        let (found, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(found)
    }

    pub(super) fn text(&mut self) -> Decoded<String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Malformed)
    }

    pub(super) fn texts(&mut self) -> Decoded<Vec<String>> {
        let count = self.int()?.max(0);
        (0..count).map(|_| self.text()).collect()
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (found, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut encoder = Encoder::packet();
        encoder
            .int(-7)
            .long(1 << 40)
            .bool(true)
            .text("ä")
            .bytes(&[]);
        let packet = encoder.finish();
        let (length, body) = packet.split_at(4);
        assert_eq!(length, u32::try_from(body.len()).unwrap().to_be_bytes());
        let mut decoder = Decoder::new(body);
        assert_eq!(decoder.int(), Ok(-7));
        assert_eq!(decoder.long(), Ok(1 << 40));
        assert_eq!(decoder.bool(), Ok(true));
        assert_eq!(decoder.text(), Ok("ä".to_owned()));
        assert_eq!(decoder.bytes(), Ok(&[][..]));
        assert_eq!(decoder.int(), Err(Malformed));
    }

    #[test]
    fn a_length_that_is_wrong_is_no_panic() {
        for length in [5_i32, i32::MAX, -2] {
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend(b"abc");
            assert_eq!(Decoder::new(&bytes).bytes(), Err(Malformed));
        }
        assert_eq!(Decoder::new(&(-1_i32).to_be_bytes()).bytes(), Ok(&[][..]));
    }
}
