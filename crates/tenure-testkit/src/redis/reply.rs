//! The part of the Redis protocol that is needed to send a command and read its reply.

use std::fmt::{self, Display, Formatter};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A reply of a Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Several replies in one.
    Array(Vec<Self>),
    /// A value.
    Bulk(Vec<u8>),
    /// The command failed.
    Error(String),
    /// A number.
    Integer(i64),
    /// No value.
    Nil,
    /// A short word, such as `OK`.
    Status(String),
}

impl Reply {
    /// Returns the parts of an array; an empty slice for anything else.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Array(parts) => parts,
            _ => &[],
        }
    }

    fn read(input: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some(text) = line.strip_suffix("\r\n").filter(|text| !text.is_empty()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let (kind, text) = text.split_at_checked(1).ok_or_else(|| garbled(&line))?;
        let number = || text.parse::<i64>().map_err(|_| garbled(&line));
        Ok(match kind {
            "+" => Self::Status(text.into()),
            "-" => Self::Error(text.into()),
            ":" => Self::Integer(number()?),
            "$" => match usize::try_from(number()?) {
                Ok(length) => Self::Bulk(bulk(input, length)?),
                Err(_) => Self::Nil,
            },
            "*" => match usize::try_from(number()?) {
                Ok(count) => Self::Array(
                    (0..count)
                        .map(|_| Self::read(input))
                        .collect::<io::Result<_>>()?,
                ),
                Err(_) => Self::Nil,
            },
            _ => return Err(garbled(&line)),
        })
    }
}

/// Writes the reply as text: nothing for `Nil`, one line for each part of an array.
impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    let gap = if index == 0 { "" } else { "\n" };
                    write!(f, "{gap}{part}")?;
                }
                Ok(())
            }
            Self::Bulk(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Error(text) | Self::Status(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Nil => Ok(()),
        }
    }
}

/// Sends commands on one connection to a loopback port, and returns the last reply.
///
/// If an earlier reply is an error, the exchange ends and returns that error instead.
pub(super) fn ask(port: u16, commands: &[Vec<&str>]) -> io::Result<Reply> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream.try_clone()?);
    let mut last = Reply::Nil;
    for command in commands {
        stream.write_all(&encode(command))?;
        last = Reply::read(&mut input)?;
        if matches!(last, Reply::Error(_)) {
            break;
        }
    }
    Ok(last)
}

fn encode(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

fn bulk(input: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    input.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn garbled(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not a Redis answer: {line:?}"),
    )
}

/// No command of a test takes longer on a running server.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_all_kinds_are_read() {
        let mut input: &[u8] = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$2\r\n\r\n\r\n$-1\r\n*0\r\n";
        let parts = vec![
            Reply::Status("OK".into()),
            Reply::Error("ERR no".into()),
            Reply::Integer(-7),
            Reply::Bulk(b"\r\n".into()),
            Reply::Nil,
            Reply::Array(vec![]),
        ];
        assert_eq!(Reply::read(&mut input).unwrap(), Reply::Array(parts));
        assert!(input.is_empty());
    }

    #[test]
    fn half_an_answer_is_an_error() {
        for half in [
            "",
            "+OK",
            "$5\r\nab",
            "*2\r\n:1\r\n",
            "?\r\n",
            "$x\r\n",
            "é\r\n",
        ] {
            assert!(Reply::read(&mut half.as_bytes()).is_err(), "{half:?}");
        }
    }

    #[test]
    fn commands_are_written_with_their_lengths() {
        assert_eq!(
            encode(&["SET", "ä", ""]),
            "*3\r\n$3\r\nSET\r\n$2\r\nä\r\n$0\r\n\r\n".as_bytes()
        );
    }
}
