//! How a connection is made and takes up the session.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Session;
use super::jute::{Decoder, Encoder};
use super::link::read_packet;
use super::operation::Code;
use crate::clock::Tick;
use crate::error::{BoxError, Lasting};
use crate::store::zookeeper::settings::Settings;
use crate::url::Host;

/// Any kind of connection.
pub(super) type Stream = Pin<Box<dyn Duplex>>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// A connection that carries a session.
pub(super) struct Connected {
    pub(super) stream: Stream,
    pub(super) session: Session,
    /// Whether the session has just begun.
    pub(super) is_new: bool,
    /// A moment before it began.
    pub(super) begun: Tick,
}

/// Connects to the first server that takes up the session, or begins another one if it has expired.
pub(super) async fn connect_any(
    settings: &Settings,
    session: &Session,
    last_zxid: i64,
) -> Result<Connected, BoxError> {
    let count = settings.servers.len();
    let first = fastrand::usize(..count);
    let mut fault = None;
    let mut session = session.clone();
    let (mut tried, mut index) = (0, first);
    while tried < count {
        let server = &settings.servers[index % count];
        match connect(settings, server, &session, last_zxid).await {
            Ok(Some(connected)) => return Ok(connected),
            // The same server again, for another session.
            Ok(None) => session = Session::default(),
            Err(error) => {
                if error.is::<Lasting>() || fault.is_none() {
                    fault = Some(error);
                }
                (tried, index) = (tried + 1, index + 1);
            }
        }
    }
    Err(fault.unwrap_or_else(|| "no server is named".into()))
}

/// Connects to one server; `None` if it says that the session has expired.
async fn connect(
    settings: &Settings,
    server: &Host,
    session: &Session,
    last_zxid: i64,
) -> Result<Option<Connected>, BoxError> {
    let limit = settings.connect_timeout;
    let named = |error: BoxError| -> BoxError {
        match error.downcast::<Lasting>() {
            Ok(lasting) => Box::new(Lasting(format!("{server}: {lasting}").into())),
            Err(error) => format!("{server}: {error}").into(),
        }
    };
    let dialled = timeout(limit, dial(settings, server)).await;
    let dialled = dialled.unwrap_or_else(|_| Err("no connection in time".into()));
    let mut stream = dialled.map_err(named)?;
    let greeted = greet(settings, &mut stream, session, last_zxid, limit).await;
    Ok(greeted.map_err(named)?.map(|found| Connected {
        is_new: session.id == 0,
        stream,
        session: found,
        begun: Tick::default(),
    }))
}

async fn dial(settings: &Settings, server: &Host) -> Result<Stream, BoxError> {
    let tcp = TcpStream::connect((server.name.as_str(), server.port)).await?;
    tcp.set_nodelay(true)?;
    #[cfg(feature = "zookeeper-tls")]
    if let Some(tls) = &settings.tls {
        return super::tls::encrypt(tls, server, tcp).await;
    }
    let _ = settings;
    Ok(Box::pin(tcp))
}

/// Takes up the session or begins one; `None` if it has expired.
async fn greet(
    settings: &Settings,
    stream: &mut Stream,
    session: &Session,
    last_zxid: i64,
    limit: Duration,
) -> Result<Option<Session>, BoxError> {
    let wanted = settings.session.as_millis();
    let mut hello = Encoder::packet();
    hello
        .int(0)
        .long(last_zxid)
        .int(i32::try_from(wanted).unwrap_or(i32::MAX))
        .long(session.id);
    match session.id {
        0 => hello.bytes(&[0; 16]),
        _ => hello.bytes(&session.password),
    };
    // Not at a server that is cut off from the others.
    hello.bool(false);
    stream.write_all(&hello.finish()).await?;
    stream.flush().await?;
    let answer = read_packet(stream, limit).await?;
    let mut decoder = Decoder::new(&answer);
    let mut read = || {
        let _protocol = decoder.int()?;
        Ok((decoder.int()?, decoder.long()?, decoder.bytes()?.to_vec()))
    };
    let (millis, id, password) =
        read().map_err(|malformed: super::jute::Malformed| malformed.to_string())?;
    let Some(millis) = u64::try_from(millis).ok().filter(|millis| *millis > 0) else {
        return match session.id {
            0 => Err("the server refused a session".into()),
            _ => Ok(None),
        };
    };
    if let Some(user) = &settings.user {
        authenticate(settings, stream, user, limit).await?;
    }
    Ok(Some(Session {
        id,
        password,
        timeout: Duration::from_millis(millis),
    }))
}

/// Says who this client is; the session has done so before, but a server need not know.
async fn authenticate(
    settings: &Settings,
    stream: &mut Stream,
    user: &str,
    limit: Duration,
) -> Result<(), BoxError> {
    let password = settings.password.as_deref().unwrap_or_default();
    let mut packet = Encoder::packet();
    packet.int(AUTH_XID).int(AUTH).int(0).text("digest");
    packet.text(&format!("{user}:{password}"));
    stream.write_all(&packet.finish()).await?;
    stream.flush().await?;
    loop {
        let answer = read_packet(stream, limit).await?;
        let mut decoder = Decoder::new(&answer);
        let header = (decoder.int(), decoder.long(), decoder.int());
        match header {
            (Ok(AUTH_XID), _, Ok(code)) if Code(code) == Code::OK => return Ok(()),
            (Ok(AUTH_XID), _, Ok(_)) => {
                let why = "the server refused the user name or the password";
                return Err(Box::new(Lasting(why.into())));
            }
            // A message about something else.
            _ => {}
        }
    }
}

const AUTH_XID: i32 = -4;
const AUTH: i32 = 100;
