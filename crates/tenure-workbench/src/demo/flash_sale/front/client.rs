//! Connections that are kept between requests.

use std::net::Ipv4Addr;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection to a port of this machine, for one request after another.
pub(in crate::demo::flash_sale) type Connection = SendRequest<Full<Bytes>>;

/// Connects to a port of this machine.
pub(in crate::demo::flash_sale) async fn connect(port: u16) -> Result<Connection, String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
    let stream = stream.map_err(|error| error.to_string())?;
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| error.to_string())?;
    // It ends with the sender; what goes wrong is told to the request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
