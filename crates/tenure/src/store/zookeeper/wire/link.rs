//! One connection: requests that wait to be written, and requests that wait for their answers.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::handshake::Stream;
use super::jute::{Decoder, Encoder, Malformed};
use super::operation::{Access, Answer, Code, Operation};
use super::{Event, Flight, Flown, Shared, Unanswered};
use crate::clock::Tick;
use crate::error::BoxError;

/// What is under way on a connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The session that it carries.
    session: i64,
    next_xid: i32,
    outgoing: Vec<u8>,
    pending: VecDeque<Pending>,
}

/// Requests that were sent together.
#[derive(Debug)]
struct Pending {
    first_xid: i32,
    operations: Vec<Operation>,
    answers: Vec<Result<Answer, Code>>,
    done: oneshot::Sender<Flight>,
    sent: Tick,
    deadline: Instant,
}

impl Link {
    pub(super) fn new(session: i64) -> Self {
        Self {
            session,
            next_xid: 0,
            outgoing: Vec::new(),
            pending: VecDeque::new(),
        }
    }

    /// Puts requests behind those that are under way.
    pub(super) fn send(
        &mut self,
        operations: Vec<Operation>,
        access: Access,
        sent: Tick,
        deadline: Instant,
    ) -> oneshot::Receiver<Flight> {
        let (done, answered) = oneshot::channel();
        let first_xid = self.next_xid;
        for operation in &operations {
            let mut packet = Encoder::packet();
            packet.int(self.next_xid).int(operation.code());
            operation.encode(access, &mut packet);
            self.outgoing.extend(packet.finish());
            // Negative ones have a meaning of their own.
            self.next_xid = self.next_xid.checked_add(1).unwrap_or(0);
        }
        self.pending.push_back(Pending {
            first_xid,
            answers: Vec::with_capacity(operations.len()),
            operations,
            done,
            sent,
            deadline,
        });
        answered
    }

    /// Asks the servers to end the session; they then close the connection.
    pub(super) fn close_session(&mut self) {
        let mut packet = Encoder::packet();
        packet.int(self.next_xid).int(CLOSE_SESSION);
        self.outgoing.extend(packet.finish());
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Tells all whose requests are under way that they will get no answer.
    pub(super) fn fail(self, fault: &BoxError) {
        for pending in self.pending {
            let why = format!("the connection ended: {fault}");
            // Nobody waits for it if it was given up.
            let _ = pending.done.send(Err(Unanswered::Unknown(why.into())));
        }
    }

    /// Takes an answer in; returns when the request was sent, if the answer proves that the session lives.
    fn answered(&mut self, xid: i32, code: Code, body: &[u8]) -> Result<Option<Tick>, BoxError> {
        let Some(front) = self.pending.front_mut() else {
            return Err("an answer to nothing".into());
        };
        let index = front.answers.len();
        let expected = i32::try_from(index).map_or(front.first_xid, |n| {
            // As the numbers were given out.
            front
                .first_xid
                .checked_add(n)
                .unwrap_or_else(|| n - (i32::MAX - front.first_xid) - 1)
        });
        if xid != expected {
            return Err(format!("answer {xid} instead of {expected}").into());
        }
        let operation = &front.operations[index];
        let answer = match code {
            Code::OK => operation
                .decode(&mut Decoder::new(body))
                .map_err(|malformed| malformed.to_string())?,
            Code::SESSION_EXPIRED | Code::SESSION_MOVED => {
                return Err("the session is not at this server any more".into());
            }
            code => Err(code),
        };
        let proves = (answer.is_ok() && operation.reaches_leader()).then_some(front.sent);
        front.answers.push(answer);
        if front.answers.len() == front.operations.len()
            && let Some(Pending { answers, done, .. }) = self.pending.pop_front()
        {
            // Nobody waits for it if it was given up.
            let session = self.session;
            let _ = done.send(Ok(Flown { answers, session }));
        }
        Ok(proves)
    }
}

/// Serves a connection until it ends, and returns why.
pub(super) async fn run(shared: &Shared, stream: Stream) -> BoxError {
    let (read, write) = tokio::io::split(stream);
    let ended = tokio::select! {
        ended = read_all(shared, read) => ended,
        ended = write_all(shared, write) => ended,
        ended = watch_deadlines(shared) => ended,
    };
    let Err(fault) = ended;
    fault
}

/// Never ends well.
type Ended = Result<std::convert::Infallible, BoxError>;

async fn write_all(shared: &Shared, mut write: impl AsyncWrite + Unpin) -> Ended {
    loop {
        let (outgoing, is_closing) = {
            let mut state = shared.state.lock();
            let link = state.link.as_mut();
            let outgoing = link.map(|link| std::mem::take(&mut link.outgoing));
            (outgoing.unwrap_or_default(), state.is_closing)
        };
        if !outgoing.is_empty() {
            write.write_all(&outgoing).await?;
            write.flush().await?;
            continue;
        }
        if is_closing {
            // The server closes the connection, which ends the reading side.
            sleep(FAREWELL).await;
            return Err("closed".into());
        }
        shared.write.notified().await;
    }
}

async fn read_all(shared: &Shared, mut read: impl AsyncRead + Unpin) -> Ended {
    let mut buffer = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = read.read(&mut chunk).await?;
        if length == 0 {
            return Err("the server closed the connection".into());
        }
        buffer.extend(&chunk[..length]);
        let mut taken = 0;
        while let Some(packet) = packet(&buffer[taken..])? {
            take_in(shared, packet)?;
            taken += 4 + packet.len();
        }
        buffer.drain(..taken);
    }
}

/// The first packet, if it is all there.
fn packet(buffer: &[u8]) -> Result<Option<&[u8]>, BoxError> {
    let Some((length, rest)) = buffer.split_first_chunk() else {
        return Ok(None);
    };
    let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    match length > LARGEST_PACKET {
        true => Err(Malformed.to_string().into()),
        false => Ok(rest.get(..length)),
    }
}

fn take_in(shared: &Shared, packet: &[u8]) -> Result<(), BoxError> {
    let malformed = |malformed: Malformed| malformed.to_string();
    let mut decoder = Decoder::new(packet);
    let xid = decoder.int().map_err(malformed)?;
    let zxid = decoder.long().map_err(malformed)?;
    let code = Code(decoder.int().map_err(malformed)?);
    if xid == WATCH_XID {
        let event = event(&mut decoder).map_err(malformed)?;
        if let Some(event) = event {
            shared.tell(event);
        }
        return Ok(());
    }
    let mut state = shared.state.lock();
    state.last_zxid = state.last_zxid.max(zxid);
    let is_closing = state.is_closing;
    let Some(link) = state.link.as_mut() else {
        return Ok(());
    };
    if is_closing && link.is_idle() {
        return Err("closed".into());
    }
    // Behind the three numbers.
    let proves = link.answered(xid, code, &packet[16..])?;
    let is_idle = link.is_idle();
    if let Some(sent) = proves {
        state.proved = state.proved.max(sent);
    }
    drop(state);
    if is_idle {
        shared.changed.notify_waiters();
    }
    Ok(())
}

fn event(decoder: &mut Decoder<'_>) -> Result<Option<Event>, Malformed> {
    let (kind, _state, path) = (decoder.int()?, decoder.int()?, decoder.text()?);
    Ok(match kind {
        1 | 3 => Some(Event::Changed(path)),
        2 => Some(Event::Deleted(path)),
        4 => Some(Event::ChildrenChanged(path)),
        // The state of the connection, which is known better here.
        _ => None,
    })
}

/// Ends a connection on which an answer is overdue.
async fn watch_deadlines(shared: &Shared) -> Ended {
    let limit = shared.settings.timeout;
    loop {
        let first = {
            let state = shared.state.lock();
            let pending = state.link.as_ref().and_then(|link| link.pending.front());
            pending.map(|pending| pending.deadline)
        };
        let now = Instant::now();
        match first {
            Some(deadline) if deadline <= now => {
                return Err(format!("no answer within {limit:?}").into());
            }
            Some(deadline) => sleep(deadline - now).await,
            // A request that comes now is due no earlier.
            None => sleep(limit).await,
        }
    }
}

/// Reads one packet at the start of a connection.
pub(super) async fn read_packet(
    stream: &mut (impl AsyncRead + Unpin),
    limit: Duration,
) -> Result<Vec<u8>, BoxError> {
    let read = async {
        let mut length = [0; 4];
        stream.read_exact(&mut length).await?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LARGEST_PACKET {
            return Err(BoxError::from(Malformed.to_string()));
        }
        let mut packet = vec![0; length];
        stream.read_exact(&mut packet).await?;
        Ok(packet)
    };
    match timeout(limit, read).await {
        Ok(packet) => packet,
        Err(_) => Err(format!("no answer within {limit:?}").into()),
    }
}

/// The number of messages that are no answers.
const WATCH_XID: i32 = -1;

const CLOSE_SESSION: i32 = -11;

/// How long the server has to close a connection whose session was ended.
const FAREWELL: Duration = Duration::from_secs(1);

const CHUNK: usize = 16 * 1024;

/// More than the names of a million children.
const LARGEST_PACKET: usize = 128 << 20;
