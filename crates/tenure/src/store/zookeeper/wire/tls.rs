//! TLS for ZooKeeper, by rustls.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::handshake::Stream;
use crate::error::{BoxError, Lasting};
use crate::store::tls::{Tls, config};
use crate::url::Host;

/// Encrypts a connection.
pub(super) async fn encrypt(tls: &Tls, server: &Host, tcp: TcpStream) -> Result<Stream, BoxError> {
    let lasting = |error: BoxError| -> BoxError { Box::new(Lasting(error)) };
    let config = config(tls).map_err(lasting)?;
    let name = ServerName::try_from(server.name.clone());
    let name = name.map_err(|error| lasting(error.into()))?;
    let connected = TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await;
    match connected {
        Ok(stream) => Ok(Box::pin(stream)),
        // The certificate is wrong, which does not pass by itself.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(lasting(error.into())),
        Err(error) => Err(error.into()),
    }
}
