//! TLS for PostgreSQL, by rustls.

use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::sql::fault::{Fault, FaultKind, Outcome};
use crate::store::tls::{self, Tls};

/// Makes the connector for these certificates.
pub(super) fn connector(settings: &Tls) -> Outcome<MakeRustlsConnect> {
    let config = tls::config(settings);
    let config = config.map_err(|error| Fault::new(FaultKind::Lasting, error))?;
    Ok(MakeRustlsConnect::new(config))
}
