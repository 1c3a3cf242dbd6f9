//! TLS with client certificates. The files can be read again without interrupting open connections.

use parking_lot::RwLock;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
    server::TlsStream,
};

/// PEM files. Clients must present a certificate that `client_ca` has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate chain, its own certificate first.
    pub certificate: PathBuf,
    /// The private key of `certificate`.
    pub key: PathBuf,
    /// Authority of the clients' certificates.
    pub client_ca: PathBuf,
}

const HANDSHAKE: Duration = Duration::from_secs(10);

/// The reason why the TLS files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// A file does not hold what it should.
    #[error("{path}: has no {wanted} in PEM form")]
    Pem { path: PathBuf, wanted: &'static str },
    /// The TLS library rejects the files' contents, or their combination.
    #[error("{0}; the key has to match the first certificate, all in PEM form")]
    Rejected(String),
}

/// The contents of a PEM file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pem {
    Certificate,
    Key,
}

impl Pem {
    /// Reads a file, and checks that it has a PEM block of this kind.
    pub(crate) fn read(self, path: &Path) -> Result<Vec<u8>, TlsError> {
        let (wanted, mark) = match self {
            Self::Certificate => ("certificate", "-----BEGIN CERTIFICATE-----"),
            // The words before these name the type of the key, of which there are several.
            Self::Key => ("private key", "PRIVATE KEY-----"),
        };
        let path = || path.to_owned();
        let bytes =
            fs::read(path()).map_err(|source| TlsError::Unreadable { path: path(), source })?;
        let has_mark = bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
        if has_mark { Ok(bytes) } else { Err(TlsError::Pem { path: path(), wanted }) }
    }
}

/// The protocol within TLS. Both sides name it in the handshake (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC over HTTP/2, named `h2`.
    Grpc,
    /// HTTP/1.1, named `http/1.1`, for scrapes of metrics.
    Http,
}

/// The server's keys and the authority for client certificates, as last read. Clones share the same keys.
#[derive(Clone, Debug)]
pub struct Keys(Arc<RwLock<LoadedKeys>>);

#[derive(Clone, Debug)]
struct LoadedKeys {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

impl Keys {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, is not PEM, or the key is not that of the certificate.
    pub fn read(tls: &Tls) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(RwLock::new(LoadedKeys::read(tls)?))))
    }

    /// Reads the files again. Later handshakes use what they hold now. Open connections continue.
    ///
    /// # Errors
    /// Those of [`Self::read`]. On error the keys stay as they were.
    pub fn read_again(&self, tls: &Tls) -> Result<(), TlsError> {
        let loaded = LoadedKeys::read(tls)?;
        *self.0.write() = loaded;
        Ok(())
    }

    /// Does the handshake. A client without a certificate of the authority is refused.
    ///
    /// # Errors
    /// The handshake fails, or takes too long.
    pub async fn accept<T>(&self, protocol: Protocol, io: T) -> io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = {
            let loaded = self.0.read();
            TlsAcceptor::from(match protocol {
                Protocol::Grpc => loaded.grpc.clone(),
                Protocol::Http => loaded.http.clone(),
            })
        };
        let done = timeout(HANDSHAKE, acceptor.accept(io)).await;
        done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl LoadedKeys {
    fn read(tls: &Tls) -> Result<Self, TlsError> {
        let chain = certificates(&tls.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&Pem::Key.read(&tls.key)?).map_err(rejected)?;
        let mut authorities = RootCertStore::empty();
        authorities.add_parsable_certificates(certificates(&tls.client_ca)?);
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(authorities.into(), provider.clone());
        let grpc = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(rejected)?
            .with_client_cert_verifier(verifier.build().map_err(rejected)?)
            .with_single_cert(chain, key)
            .map_err(rejected)?;
        let speaking = |protocol: &[u8]| {
            let mut config = grpc.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        Ok(Self { grpc: speaking(b"h2"), http: speaking(b"http/1.1") })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = Pem::Certificate.read(path)?;
    CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(rejected)
}

fn rejected(error: impl std::fmt::Display) -> TlsError {
    TlsError::Rejected(error.to_string())
}
