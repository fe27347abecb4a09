//! The ways to the servers that a fault hits.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tenure_testkit::{Fault, Proxy};

use super::stage::{SIDES, Stage};

/// One way to a server, or several that break together.
///
/// There are two ways to each server, one for each half of the clients: a holder that alone is cut off has to give up its belief
/// while the others go on.
#[derive(Debug)]
pub(super) struct Ways {
    stage: Arc<Stage>,
    /// By their places among the stage's proxies.
    places: Vec<usize>,
}

impl Ways {
    /// Draws some: all of them, those of one half of the clients, those to one server, or a single one.
    pub(super) fn draw(stage: &Arc<Stage>, lots: &mut Rng) -> Self {
        let side = lots.usize(..SIDES);
        let server = lots.usize(..stage.proxies().len() / SIDES);
        let lot = lots.u32(..6);
        let is_hit = |place: &usize| match lot {
            0 => true,
            1 => server_of(*place) == server,
            2 | 3 => side_of(*place) == side,
            _ => side_of(*place) == side && server_of(*place) == server,
        };
        Self {
            places: (0..stage.proxies().len()).filter(is_hit).collect(),
            stage: Arc::clone(stage),
        }
    }

    /// Breaks them like this from now on.
    pub(super) fn set(&self, fault: Fault) {
        self.proxies().for_each(|proxy| proxy.set(fault));
    }

    /// Lets everything through again.
    pub(super) fn mend(&self) {
        self.places.iter().for_each(|place| self.stage.mend(*place));
    }

    /// Closes all connections; new ones are accepted.
    pub(super) fn cut(&self) {
        self.proxies().for_each(Proxy::cut);
    }

    /// Loses the answer to the next request that changes something, on each of them, and its connection.
    pub(super) fn lose_next_reply(&self) {
        // Every request that changes something is a script.
        self.proxies()
            .for_each(|proxy| proxy.lose_reply_then_cut(b"EVAL"));
    }

    /// Does so no more, if there was no such request yet.
    pub(super) fn lose_no_reply(&self) {
        let nothing = b"\0 which no request has";
        self.proxies()
            .for_each(|proxy| proxy.lose_reply_then_cut(nothing));
    }

    /// Returns how many answers were lost so far.
    pub(super) fn replies_lost(&self) -> u64 {
        self.proxies().map(Proxy::replies_swallowed).sum()
    }

    /// Returns how many connections were cut so far.
    pub(super) fn connections_cut(&self) -> u64 {
        self.proxies().map(Proxy::connections_cut).sum()
    }

    /// Returns whether servers that answer everybody do not answer by these ways.
    pub(super) fn are_silent(&self) -> bool {
        self.proxies().all(is_silent)
    }

    fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        let proxies = self.stage.proxies();
        self.places.iter().map(|place| &proxies[*place])
    }
}

/// Which half of the clients uses the way at a place.
fn side_of(place: usize) -> usize {
    place % SIDES
}

fn server_of(place: usize) -> usize {
    place / SIDES
}

fn is_silent(proxy: &Proxy) -> bool {
    let asked = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).and_then(|mut stream| {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.write_all(b"PING\r\n")?;
        stream.read(&mut [0])
    });
    asked.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// How long a way has to be silent to count as frozen.
const SILENCE: Duration = Duration::from_millis(30);
