//! The links between clients and servers that a fault hits.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tenure_testkit::{Fault, Proxy};

use super::target::{SIDES, Target};

/// One link to a server, or several that break together.
///
/// There are two links to each server, one for each half of the clients. A holder that alone is cut
/// off must give up its belief while the others continue.
#[derive(Debug)]
pub(super) struct Links {
    target: Arc<Target>,
    /// Their indices in the target's proxies.
    places: Vec<usize>,
}

impl Links {
    /// Chooses links at random: all of them, those of one half of the clients, those to one server,
    /// or a single one.
    pub(super) fn choose(target: &Arc<Target>, random: &mut Rng) -> Self {
        let side = random.usize(..SIDES);
        let server = random.usize(..target.proxies.len() / SIDES);
        let share = random.u32(..6);
        let is_hit = |place: &usize| match share {
            0 => true,
            1 => server_of(*place) == server,
            2 | 3 => side_of(*place) == side,
            _ => side_of(*place) == side && server_of(*place) == server,
        };
        Self {
            places: (0..target.proxies.len()).filter(is_hit).collect(),
            target: Arc::clone(target),
        }
    }

    /// Sets their fault from now on.
    pub(super) fn set(&self, fault: Fault) {
        self.proxies().for_each(|proxy| proxy.set(fault));
    }

    /// Lets everything through again.
    pub(super) fn mend(&self) {
        self.places
            .iter()
            .for_each(|place| self.target.mend(*place));
    }

    /// Closes all connections; new ones are accepted.
    pub(super) fn cut(&self) {
        self.proxies().for_each(Proxy::cut);
    }

    /// Loses the reply to the next request that changes something, on each link, together with its
    /// connection.
    pub(super) fn lose_next_reply(&self) {
        let request = self.target.store.changing_request;
        self.proxies()
            .for_each(|proxy| proxy.lose_reply_then_cut(request));
    }

    /// Cancels this, if there was no such request yet.
    pub(super) fn lose_no_reply(&self) {
        let nothing = b"\0 which no request has";
        self.proxies()
            .for_each(|proxy| proxy.lose_reply_then_cut(nothing));
    }

    /// Returns how many replies were lost so far.
    pub(super) fn replies_lost(&self) -> u64 {
        self.proxies().map(Proxy::replies_swallowed).sum()
    }

    /// Returns how many connections were cut so far.
    pub(super) fn connections_cut(&self) -> u64 {
        self.proxies().map(Proxy::connections_cut).sum()
    }

    /// Returns whether the servers do not reply through these links to a request that they answer
    /// at once.
    pub(super) fn are_silent(&self) -> bool {
        let ping = self.target.store.ping;
        self.proxies().all(|proxy| is_silent(proxy, ping))
    }

    fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        let proxies = &self.target.proxies;
        self.places.iter().map(|place| &proxies[*place])
    }
}

/// Returns which half of the clients uses the link at an index.
fn side_of(place: usize) -> usize {
    place % SIDES
}

fn server_of(place: usize) -> usize {
    place / SIDES
}

fn is_silent(proxy: &Proxy, ping: &[u8]) -> bool {
    let asked = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).and_then(|mut stream| {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.write_all(ping)?;
        stream.read(&mut [0])
    });
    asked.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// How long a link must be silent to count as frozen.
const SILENCE: Duration = Duration::from_millis(30);
