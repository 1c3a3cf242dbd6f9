//! Who is at the other end of a connection.

use crate::dispatch::Refusal;
use http::Extensions;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo, UdsConnectInfo};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

/// Who is at the other end, as the kernel or the client's certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process at the Unix socket.
    User {
        /// Its effective user id when it connected.
        uid: u32,
        /// Its effective group id then; `None`: not known, as for the creator of a record.
        gid: Option<u32>,
    },
    /// A client with a certificate that the configured authority has signed.
    Certificate {
        /// Its common names, then its DNS names.
        names: Vec<String>,
    },
    /// A client at the plain TCP port, who could be anybody on this host.
    Plain,
}

impl Peer {
    /// Who sends a request, by what the server has noted of its connection.
    ///
    /// # Errors
    /// [`Refusal::Internal`]: the connection is of another kind, or the kernel does not say.
    pub fn of(extensions: &Extensions) -> Result<Self, Refusal> {
        // TLS comes first: the server notes the TCP connection below it as well.
        if let Some(tls) = extensions.get::<TlsConnectInfo<TcpConnectInfo>>() {
            let certificates = tls.peer_certs().unwrap_or_default();
            let names = certificates.first().map(|leaf| names(leaf)).unwrap_or_default();
            return Ok(Self::Certificate { names });
        }
        if let Some(unix) = extensions.get::<UdsConnectInfo>() {
            let credentials = unix.peer_cred.ok_or_else(unknown)?;
            return Ok(Self::User { uid: credentials.uid(), gid: Some(credentials.gid()) });
        }
        extensions.get::<TcpConnectInfo>().map(|_| Self::Plain).ok_or_else(unknown)
    }

    /// Whom a stored record names as its creator; `None`: nobody who could have created one.
    pub(super) fn of_creator(creator: &str) -> Option<Self> {
        let (kind, name) = creator.split_once(':')?;
        match kind {
            "uid" => {
                let uid = name.parse().ok().filter(|uid: &u32| uid.to_string() == name)?;
                Some(Self::User { uid, gid: None })
            }
            "cert" => Some(Self::Certificate { names: vec![name.to_owned()] }),
            _ => None,
        }
    }

    /// What it goes by as long as no grant says otherwise. The prefixes keep certificates from passing for users.
    pub(super) fn name(&self) -> String {
        match self {
            Self::User { uid, .. } => format!("uid:{uid}"),
            Self::Certificate { names } => {
                format!("cert:{}", names.first().map_or("", String::as_str))
            }
            Self::Plain => "tcp:plain".to_owned(),
        }
    }
}

fn unknown() -> Refusal {
    let message = "the daemon cannot tell who is at the other end: connect again".to_owned();
    Refusal::Internal { message }
}

/// The names in a certificate; none if it cannot be read.
fn names(der: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return Vec::new() };
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let dns = alternative.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    common.chain(dns).map(str::to_owned).collect()
}
