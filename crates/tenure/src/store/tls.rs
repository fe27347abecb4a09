//! Certificates of server and client, for rustls.

use std::path::PathBuf;

/// How the server proves who it is, and how this client does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

#[cfg(any(feature = "postgres-tls", feature = "zookeeper-tls"))]
pub(crate) use by_rustls::config;

#[cfg(any(feature = "postgres-tls", feature = "zookeeper-tls"))]
mod by_rustls {
    use std::path::Path;
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, RootCertStore};

    use super::Tls;
    use crate::error::BoxError;

    /// Makes a configuration that trusts the authority that was named, or else those that the machine trusts.
    pub(crate) fn config(tls: &Tls) -> Result<ClientConfig, BoxError> {
        let mut roots = RootCertStore::empty();
        match &tls.ca {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate)?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(roots);
        Ok(match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                let private = PrivateKeyDer::from_pem_file(key);
                let private = private.map_err(|error| unreadable(key, &error))?;
                config.with_client_auth_cert(certificates(certificate)?, private)?
            }
            _ => config.with_no_client_auth(),
        })
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BoxError> {
        let found =
            CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, &error))?;
        let found = found.collect::<Result<Vec<_>, _>>();
        let found = found.map_err(|error| unreadable(path, &error))?;
        match found.is_empty() {
            true => Err(format!("{} has no certificate", path.display()).into()),
            false => Ok(found),
        }
    }

    fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> BoxError {
        format!("{} cannot be read: {error}", path.display()).into()
    }
}
