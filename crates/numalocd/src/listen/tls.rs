//! TLS with client certificates.

use crate::config::Tls;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the TLS files are of no use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One holds something else.
    #[error("{path}: has no {wanted} in PEM form")]
    Pem {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
    },
    /// Together they make no sense.
    #[error("{0}; the key has to be that of the first certificate, all in PEM form")]
    Rejected(String),
}

/// What a PEM file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pem {
    Certificate,
    Key,
}

impl Pem {
    /// Reads a file that holds it.
    pub(crate) fn read(self, path: &Path) -> Result<Vec<u8>, TlsError> {
        let (wanted, mark) = match self {
            Self::Certificate => ("certificate", "-----BEGIN CERTIFICATE-----"),
            // There are several sorts, named before these words.
            Self::Key => ("private key", "PRIVATE KEY-----"),
        };
        let path = || path.to_owned();
        let bytes =
            fs::read(path()).map_err(|source| TlsError::Unreadable { path: path(), source })?;
        let has_mark = bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
        if has_mark { Ok(bytes) } else { Err(TlsError::Pem { path: path(), wanted }) }
    }
}

/// What the server needs: clients without a certificate of `client_ca` are refused in the handshake.
///
/// # Errors
/// A file cannot be read, is not PEM, or the key is not that of the certificate.
pub fn tls_config(tls: &Tls) -> Result<ServerTlsConfig, TlsError> {
    let certificate = Pem::Certificate.read(&tls.certificate)?;
    let key = Pem::Key.read(&tls.key)?;
    let client_ca = Pem::Certificate.read(&tls.client_ca)?;
    let config = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(client_ca))
        .timeout(HANDSHAKE);
    // The files are parsed only here.
    match Server::builder().tls_config(config.clone()) {
        Ok(_) => Ok(config),
        Err(error) => Err(TlsError::Rejected(chain(&error))),
    }
}

/// tonic says no more than "transport error" itself.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let said: Vec<String> = causes.map(ToString::to_string).collect();
    if said.is_empty() { error.to_string() } else { said.join(": ") }
}
