//! A connection between client and server that breaks on command.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::port::Port;
use crate::wait;

/// What a [`Proxy`] does with the data that it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Forwards everything, with this delay in each direction.
    Delay(Duration),
    /// Forwards nothing, keeps connections open and accepts new ones; forwards what was held back
    /// afterwards.
    Freeze,
    /// Forwards requests, and discards everything that the server sends.
    LoseReplies,
    /// Forwards everything.
    #[default]
    Pass,
    /// Closes new connections at once; existing ones continue, unless they are [cut](Proxy::cut).
    Refuse,
}

/// A TCP proxy on a loopback port whose faults can be changed while it runs.
///
/// It does not understand what it forwards: a *reply* is what the server sends in one piece. All
/// connections end on drop.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    wire: Arc<Wire>,
    listener: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of a loopback port.
    ///
    /// # Errors
    ///
    /// If there is no port to listen on.
    pub fn start(upstream: u16) -> Result<Self> {
        let (port, listener) = listen()?;
        let wire = Arc::new(Wire::default());
        let shared = wire.clone();
        let listener = thread::spawn(move || shared.accept_all(&listener, upstream));
        Ok(Self {
            port,
            wire,
            listener: Some(listener),
        })
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Applies this fault from now on, to new and existing connections.
    pub fn set(&self, fault: Fault) {
        self.wire.state().fault = fault;
        self.wire.changed.notify_all();
    }

    /// Closes all connections now; new ones are accepted.
    pub fn cut(&self) {
        for connection in self.wire.connections() {
            self.wire.cut(&connection);
        }
    }

    /// Forwards the next request, discards its reply and closes its connection; afterwards
    /// everything is as before.
    ///
    /// The server has then carried out a request whose outcome the client does not learn. Use it on
    /// a connection on which nothing else is in flight, because the first data that the server
    /// sends afterwards counts as the reply.
    pub fn lose_next_reply_then_cut(&self) {
        self.lose_reply_then_cut(b"");
    }

    /// Does the same for the next request that contains `text`, such as the name of a command.
    pub fn lose_reply_then_cut(&self, text: &[u8]) {
        self.wire.state().trap = Some((text.into(), Verdict::Cut));
    }

    /// Forwards the next request that contains `text` and its reply, and closes its connection
    /// right after.
    pub fn forward_reply_then_cut(&self, text: &[u8]) {
        self.wire.state().trap = Some((text.into(), Verdict::ForwardThenCut));
    }

    /// Holds back the next request that contains `text`, and all that its client says on that connection afterwards, also
    /// its end; other connections go on.
    ///
    /// The server gets it when it is [let go](Self::let_go), whether its client is still there or not.
    pub fn hold_back(&self, text: &[u8]) {
        self.wire.state().trap = Some((text.into(), Verdict::HoldBack));
    }

    /// Forwards what was held back.
    pub fn let_go(&self) {
        // Under the lock, so that nobody goes to sleep between looking and being told.
        let state = self.wire.state();
        for connection in &state.connections {
            let is_held_back = connection.held_back.load(SeqCst);
            connection.let_go.store(is_held_back, SeqCst);
        }
        drop(state);
        self.wire.changed.notify_all();
    }

    /// Returns how many connections there are on which something is or was held back.
    pub fn connections_held_back(&self) -> usize {
        let connections = self.wire.connections();
        let held_back = connections.iter().filter(|one| one.held_back.load(SeqCst));
        held_back.count()
    }

    /// Returns how many connections were accepted so far, including those that were refused.
    pub fn connections_accepted(&self) -> u64 {
        self.wire.accepted.load(SeqCst)
    }

    /// Returns how many connections were closed at once.
    pub fn connections_refused(&self) -> u64 {
        self.wire.refused.load(SeqCst)
    }

    /// Returns how many connections a fault closed.
    pub fn connections_cut(&self) -> u64 {
        self.wire.cut.load(SeqCst)
    }

    /// Returns how many connections are open.
    pub fn connections_open(&self) -> usize {
        self.wire.connections().len()
    }

    /// Returns how many replies were discarded.
    pub fn replies_swallowed(&self) -> u64 {
        self.wire.swallowed.load(SeqCst)
    }

    /// Waits until this many replies were discarded.
    ///
    /// # Errors
    ///
    /// If it takes too long.
    pub fn wait_for_swallowed(&self, replies: u64) -> Result<()> {
        let what = format!("{replies} replies are swallowed");
        wait::until(what, || match self.replies_swallowed() {
            now if now >= replies => Ok(()),
            now => Err(format!("{now} replies")),
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wire.state().closed = true;
        // The listener waits for a connection, so this opens one to make it notice the end.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())));
        if let Some(listener) = self.listener.take() {
            // A panic there has been printed; a drop has nothing to add.
            let _ = listener.join();
        }
    }
}

/// What all threads of a proxy share.
#[derive(Debug, Default)]
struct Wire {
    state: Mutex<State>,
    /// Notified when a thread that holds something back should check again.
    changed: Condvar,
    accepted: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
    swallowed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    fault: Fault,
    /// The next request that contains this text is the last of its connection; the verdict decides
    /// about its reply.
    trap: Option<(Vec<u8>, Verdict)>,
    connections: Vec<Arc<Connection>>,
    closed: bool,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// The verdict on the next reply, if it is the last.
    trapped: Mutex<Option<Verdict>>,
    cut: AtomicBool,
    /// Whether requests are not forwarded until they are let go.
    held_back: AtomicBool,
    let_go: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    Request,
    Reply,
}

/// What happens to some bytes.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    Cut,
    Forward,
    ForwardThenCut,
    Gone,
    HoldBack,
    Swallow,
}

impl Connection {
    fn is_held_back(&self) -> bool {
        self.held_back.load(SeqCst) && !self.let_go.load(SeqCst)
    }

    fn trapped(&self) -> MutexGuard<'_, Option<Verdict>> {
        self.trapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes and their time of arrival.
type Parcel = (Instant, Vec<u8>);

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        self.state().connections.clone()
    }

    /// Accepts connections until the proxy is dropped, and returns when all of them have ended.
    fn accept_all(&self, listener: &TcpListener, upstream: u16) {
        thread::scope(|scope| {
            for client in listener.incoming() {
                if self.state().closed {
                    break;
                }
                let Ok(client) = client else { continue };
                if let Some(connection) = self.connect(client, upstream) {
                    scope.spawn(move || self.serve(&connection));
                }
            }
            for connection in self.connections() {
                self.cut(&connection);
            }
        });
    }

    /// Opens the other half of a connection; returns `None` if it is refused or the server is not
    /// there.
    fn connect(&self, client: TcpStream, upstream: u16) -> Option<Arc<Connection>> {
        self.accepted.fetch_add(1, SeqCst);
        if self.state().fault == Fault::Refuse {
            self.refused.fetch_add(1, SeqCst);
            return None;
        }
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream)).ok()?;
        client.set_nodelay(true).ok()?;
        server.set_nodelay(true).ok()?;
        let connection = Arc::new(Connection {
            client,
            server,
            trapped: Mutex::new(None),
            cut: AtomicBool::new(false),
            held_back: AtomicBool::new(false),
            let_go: AtomicBool::new(false),
        });
        self.state().connections.push(connection.clone());
        Some(connection)
    }

    /// Forwards in both directions until both sides have closed, or the connection is cut.
    fn serve(&self, connection: &Arc<Connection>) {
        thread::scope(|scope| {
            for direction in [Direction::Request, Direction::Reply] {
                let (from, to) = match direction {
                    Direction::Request => (&connection.client, &connection.server),
                    Direction::Reply => (&connection.server, &connection.client),
                };
                let (sender, parcels) = sync_channel(PARCELS);
                scope.spawn(move || read_all(from, &sender));
                scope.spawn(move || self.write_all(connection, direction, &parcels, to));
            }
        });
        self.state()
            .connections
            .retain(|other| !Arc::ptr_eq(other, connection));
    }

    fn write_all(
        &self,
        connection: &Connection,
        direction: Direction,
        parcels: &Receiver<Parcel>,
        mut to: &TcpStream,
    ) {
        loop {
            // The end of one side is also forwarded, and may be held back like everything else.
            let parcel = parcels.recv().ok();
            let (arrived, bytes) = parcel.clone().unwrap_or_else(|| (Instant::now(), vec![]));
            match self.judge(connection, direction, arrived, &bytes) {
                Verdict::Forward if parcel.is_none() => {
                    let _ = to.shutdown(Shutdown::Write);
                    return;
                }
                Verdict::Forward if to.write_all(&bytes).is_ok() => {}
                Verdict::Swallow if parcel.is_some() => {
                    self.swallowed.fetch_add(1, SeqCst);
                }
                Verdict::Cut => {
                    // Cut first: a caller that has seen the count then finds the connection closed.
                    self.cut(connection);
                    self.swallowed.fetch_add(1, SeqCst);
                    return;
                }
                Verdict::ForwardThenCut => {
                    // This fails only if the client is gone.
                    let _ = to.write_all(&bytes);
                    return self.cut(connection);
                }
                Verdict::Forward => return self.hang_up(connection),
                Verdict::Gone | Verdict::HoldBack | Verdict::Swallow => return,
            }
        }
    }

    /// Returns what happens to `bytes`, once it is time.
    fn judge(
        &self,
        connection: &Connection,
        direction: Direction,
        arrived: Instant,
        bytes: &[u8],
    ) -> Verdict {
        let mut state = self.state();
        let is_request = matches!(direction, Direction::Request);
        loop {
            if connection.cut.load(SeqCst) {
                return Verdict::Gone;
            }
            let holds = |(text, verdict): &mut (Vec<u8>, Verdict)| {
                is_request && matches!(verdict, Verdict::HoldBack) && contains(bytes, text)
            };
            if state.trap.take_if(holds).is_some() {
                connection.held_back.store(true, SeqCst);
            }
            let left = match state.fault {
                _ if is_request && connection.is_held_back() => LONG,
                Fault::Freeze => LONG,
                Fault::Delay(delay) => delay.saturating_sub(arrived.elapsed()),
                Fault::LoseReplies | Fault::Pass | Fault::Refuse => Duration::ZERO,
            };
            if left.is_zero() {
                break;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        match direction {
            Direction::Request => {
                let trap = state.trap.take_if(|(text, _)| contains(bytes, text));
                if let Some((_, verdict)) = trap {
                    *connection.trapped() = Some(verdict);
                }
                Verdict::Forward
            }
            Direction::Reply => match *connection.trapped() {
                Some(verdict) => verdict,
                None if state.fault == Fault::LoseReplies => Verdict::Swallow,
                None => Verdict::Forward,
            },
        }
    }

    /// Closes a connection because of a fault.
    fn cut(&self, connection: &Connection) {
        if !connection.cut.load(SeqCst) {
            self.cut.fetch_add(1, SeqCst);
        }
        self.hang_up(connection);
    }

    /// Closes a connection.
    fn hang_up(&self, connection: &Connection) {
        // Under the lock, so that no thread goes to sleep between its check and the notification.
        let state = self.state();
        connection.cut.store(true, SeqCst);
        drop(state);
        self.changed.notify_all();
        // These fail only if the other end has already closed the connection.
        let _ = connection.client.shutdown(Shutdown::Both);
        let _ = connection.server.shutdown(Shutdown::Both);
    }
}

/// Reads until the other end has closed; then closes the channel.
fn read_all(mut from: &TcpStream, parcels: &SyncSender<Parcel>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut buffer) {
        let parcel = (Instant::now(), buffer[..length].to_vec());
        if length == 0 || parcels.send(parcel).is_err() {
            return;
        }
    }
}

fn listen() -> Result<(Port, TcpListener)> {
    loop {
        // Bounded, because it fails when there are no ports left.
        let port = Port::free()?;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())) {
            Ok(listener) => return Ok((port, listener)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(Error::io("listen on a free port")(error)),
        }
    }
}

/// Returns whether a request contains this; the end of all requests has no bytes, and contains
/// nothing.
fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let is_in = || bytes.windows(part.len()).any(|window| window == part);
    !bytes.is_empty() && (part.is_empty() || is_in())
}

/// How much a connection holds back in each direction before its sender has to wait.
const PARCELS: usize = 256;

/// Until the fault changes.
const LONG: Duration = Duration::from_secs(3600);
