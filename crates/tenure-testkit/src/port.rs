//! Ports that stay reserved while a server is down.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::error::{Error, Result};

/// A free loopback port, reserved until dropped among users of this kit.
///
/// It is outside the range from which the system takes ports for outgoing connections. Otherwise,
/// while the server is down, a client that keeps reconnecting could be given this very port and
/// connect to itself.
///
/// Programs that do not use this kit can still take the port.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// An abstract socket named after the port: only one process at a time can have it, and it
    /// disappears with the process.
    _claim: UnixListener,
}

impl Port {
    /// Finds a port on which nobody listens.
    ///
    /// # Errors
    ///
    /// If none was found after many attempts.
    pub fn free() -> Result<Self> {
        let range = LOWEST..outgoing_from();
        for _ in 0..TRIES {
            let number = fastrand::u16(range.clone());
            let name = SocketAddr::from_abstract_name(format!("tenure-testkit-port-{number}"));
            let Ok(claim) = name.and_then(|name| UnixListener::bind_addr(&name)) else {
                continue;
            };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self {
                    number,
                    _claim: claim,
                });
            }
        }
        Err(Error::TimedOut {
            what: "a free port".into(),
            waited: std::time::Duration::ZERO,
            last: format!("{TRIES} ports of {range:?} were taken"),
        })
    }

    /// Returns the port's number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Returns the first port that the system uses for outgoing connections.
fn outgoing_from() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|n| n.parse().ok());
    first
        .filter(|first| *first > LOWEST + 1000)
        .unwrap_or(32768)
}

/// Above the ports of well-known servers.
const LOWEST: u16 = 12000;

const TRIES: usize = 200;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_are_given_once() {
        let ports: Vec<Port> = (0..100).map(|_| Port::free().unwrap()).collect();
        let numbers: HashSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), 100);
        assert!(numbers.iter().all(|number| *number < outgoing_from()));
    }
}
