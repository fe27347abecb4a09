//! Messages between clients: one datagram socket each, and a flag for messages that did not fit.
//!
//! A receiver's queue is short (`net.unix.max_dgram_qlen`, often 10). When it is full, the sender
//! sets a flag in the receiver's presence file and tries once more. No message is missed:
//!
//! - If the second try succeeds, the receiver has a message to read after the flag was set.
//! - If not, the queue was full after the flag was set, so the receiver has a message to read.
//!   (A sender has one socket per receiver. A shared socket would also be refused because of messages
//!   to other receivers that do not read.)
//! - In both cases the receiver reads until the queue is empty, and then checks the flag. It finds
//!   the flag set, clears it, and asks the store again about everything. A flag that is set between
//!   the check and the clearing is about a change that was made before, so asking shows that change.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixDatagram as Sender;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tokio::net::UnixDatagram as Receiver;

use crate::driver::{Loss, News};
use crate::fork::LeakedInChild;
use crate::name::Name;
use crate::store::ledger::{self, NOBODY, Notice, Session, What};
use crate::store::local::folder::{Folder, draft_name, socket_name};

use crate::store::local::presence::{self, Presence};
use crate::store::local::recall::Recalls;
use crate::store::local::state::State;
use crate::sync::Mutex;

/// A notice to be sent, and the name that it is about.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) name: Name,
    pub(super) notice: Notice,
}

/// A letter as it is sent.
#[derive(Debug, Serialize, Deserialize)]
struct Message<'a> {
    name: &'a str,
    claim: &'a str,
    what: What,
}

/// The sockets that letters are sent from: one per receiver, so that its path is looked up once.
#[derive(Debug, Default)]
pub(super) struct Outbox(Mutex<HashMap<Session, Arc<Sender>>>);

impl Outbox {
    /// Sends the letters without waiting; returns the sessions that no longer listen.
    pub(super) fn send(&self, folder: &Folder, letters: &[Letter]) -> Vec<Session> {
        let mut gone = Vec::new();
        for Letter { name, notice } in letters {
            let to = notice.session;
            if to == NOBODY {
                continue;
            }
            let message = Message {
                name: name.as_str(),
                claim: &notice.claim,
                what: notice.what,
            };
            match self.send_one(folder, to, &message) {
                Ok(()) => {}
                Err(error) if nobody_listens(&error) => gone.push(to),
                // The receiver asks again when a lease expires.
                Err(error) => tracing::warn!(%name, %error, "a message to a client is lost"),
            }
        }
        gone
    }

    fn send_one(&self, folder: &Folder, to: Session, message: &Message<'_>) -> io::Result<()> {
        let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
        let socket = self.socket(folder, to)?;
        match socket.send(&bytes) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                self.0.lock().remove(&to);
                return Err(error);
            }
        }
        presence::raise_overflow(folder, to)?;
        tracing::debug!(
            name = message.name,
            "a client's inbox is full, it will ask again"
        );
        match socket.send(&bytes) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the socket for one receiver.
    fn socket(&self, folder: &Folder, to: Session) -> io::Result<Arc<Sender>> {
        let mut sockets = self.0.lock();
        if let Some(socket) = sockets.get(&to) {
            return Ok(Arc::clone(socket));
        }
        let socket = Sender::unbound()?;
        socket.set_nonblocking(true)?;
        folder.clients.connect(&socket, &socket_name(to))?;
        if sockets.len() >= MOST_SOCKETS {
            // This is rare, and sockets are quickly created again. Most belong to clients that have
            // ended.
            sockets.clear();
        }
        let socket = Arc::new(socket);
        sockets.insert(to, Arc::clone(&socket));
        Ok(socket)
    }
}

/// How many receivers a process keeps a socket for.
const MOST_SOCKETS: usize = 64;

/// Where a client receives its messages.
#[derive(Debug)]
pub(super) struct Inbox {
    socket: LeakedInChild<Receiver>,
    presence: Presence,
    recalls: Arc<Recalls>,
    state: Arc<State>,
    /// Whether the client was told that the directory is gone.
    told_gone: AtomicBool,
}

impl Inbox {
    /// Opens the inbox of a client that has created its presence.
    pub(super) fn open(
        state: &Arc<State>,
        session: Session,
        presence: Presence,
    ) -> io::Result<Self> {
        let (name, draft) = (socket_name(session), draft_name(session));
        let socket = state.folder.clients.bind(&name, &draft)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: LeakedInChild::new(Receiver::from_std(socket)?),
            presence,
            recalls: Arc::default(),
            state: Arc::clone(state),
            told_gone: AtomicBool::new(false),
        })
    }

    /// Returns the names that the client itself has to ask about again.
    pub(super) fn recalls(&self) -> &Arc<Recalls> {
        &self.recalls
    }

    /// Waits for the next letter.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a message or a call that is taken out is returned without another await.
    pub(super) async fn next(&self) -> News {
        let mut bytes = [0; 1024];
        loop {
            if self.state.is_inherited() {
                // The messages are for the parent.
                return std::future::pending().await;
            }
            match self.socket.try_recv(&mut bytes) {
                Ok(length) => match read(&bytes[..length]) {
                    Some(news) => return news,
                    None => continue,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => tracing::warn!(%error, "a message cannot be read"),
            }
            if self.presence.take_overflow() {
                return News::AskAgain(None);
            }
            if let Some(call) = self.recalls.next() {
                return call;
            }
            let told_gone = self.told_gone.load(Ordering::Relaxed);
            if self.state.gone.initialized() && !told_gone {
                self.told_gone.store(true, Ordering::Relaxed);
                return News::SessionLost(Loss::Gone);
            }
            let readable = tokio::select! {
                readable = self.socket.readable() => readable,
                () = self.recalls.rung() => Ok(()),
                _ = self.state.gone.wait(), if !told_gone => Ok(()),
            };
            if let Err(error) = readable {
                tracing::warn!(%error, "no more messages can be read");
                // This happens only at the end of the runtime; leases then expire.
                return std::future::pending().await;
            }
        }
    }
}

/// Parses a message; `None` if it is malformed.
fn read(bytes: &[u8]) -> Option<News> {
    let message: Message<'_> = postcard::from_bytes(bytes).ok()?;
    let name = Name::new(message.name).ok()?;
    Some(ledger::news(name, message.claim, message.what))
}

/// Returns whether the socket, or its client, no longer exists.
fn nobody_listens(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
    )
}
