//! The peer at the other end of a connection.

use super::Via;
use crate::{config::Socket, refusal::Refusal};
use http::Extensions;
use std::{io, os::fd::AsFd, sync::Arc};
use tokio::net::UnixStream;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

/// The peer at the other end of a connection, as the kernel or the client's certificate identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process that connected to a Unix socket.
    User {
        /// Its effective user id when it connected.
        uid: u32,
        /// Its effective and supplementary group ids then. For the creator of a record: the group that its grant named.
        groups: Vec<u32>,
    },
    /// A client with a certificate that the configured authority has signed.
    Certificate {
        /// Its common names, then its DNS names.
        names: Vec<String>,
        /// Its SPIFFE ID: the certificate's URI, if there is exactly one and it is a SPIFFE ID (X509-SVID, section 2).
        spiffe: Option<String>,
    },
    /// A client at the plain TCP port. Any process on this host can be one.
    Plain,
}

/// The process at the other end of a Unix socket, as far as known.
#[derive(Clone, Debug)]
pub struct UnixPeer {
    /// Its user and groups when it connected; `None`: the kernel did not say.
    user: Option<(u32, Vec<u32>)>,
    /// The socket that it connected to, if that is an additional one.
    socket: Option<Arc<Socket>>,
}

impl UnixPeer {
    /// A user with these ids, at the main socket.
    #[cfg(test)]
    pub fn user(uid: u32, groups: &[u32]) -> Self {
        Self { user: Some((uid, groups.to_vec())), socket: None }
    }

    /// The process at the other end of `stream`, from SO_PEERCRED and SO_PEERGROUPS (unix(7)). `socket`: the socket it
    /// connected to, if that is an additional one.
    pub fn of(stream: &UnixStream, socket: Option<Arc<Socket>>) -> Self {
        let read = || -> io::Result<_> {
            let credentials = stream.peer_cred()?;
            let mut groups = numaloc_sys::peer_groups(stream.as_fd())?;
            groups.push(credentials.gid());
            Ok((credentials.uid(), groups))
        };
        let user = read()
            .inspect_err(
                |error| tracing::warn!(%error, "the kernel does not report who a client is"),
            )
            .ok();
        Self { user, socket }
    }

    /// The peer, identified by its user and groups.
    ///
    /// # Errors
    /// [`Refusal::Internal`]: the kernel did not say.
    pub(super) fn peer(&self) -> Result<Peer, Refusal> {
        let (uid, groups) = self.user.clone().ok_or_else(unknown)?;
        Ok(Peer::User { uid, groups })
    }

    /// The socket that it connected to, if that is an additional one.
    pub(super) fn further(&self) -> Option<&Socket> {
        self.socket.as_deref()
    }

    /// The additional socket that a request came by; `None`: it came by the main socket or by TCP.
    pub(super) fn socket(extensions: &Extensions) -> Option<&Arc<Socket>> {
        noted::<Self>(extensions)?.socket.as_ref()
    }
}

impl Peer {
    /// The sender of a request, from what the server has noted of the connection.
    ///
    /// # Errors
    /// [`Refusal::Internal`]: the connection is of an unknown kind, or the kernel does not say who is at its other end.
    pub fn of(extensions: &Extensions) -> Result<Self, Refusal> {
        // TLS comes first: the server notes the TCP connection below it as well.
        if let Some(certificates) = shown(extensions) {
            return Ok(Self::of_certificates(&certificates));
        }
        if let Some(user) = noted::<UnixPeer>(extensions) {
            return user.peer();
        }
        noted::<TcpConnectInfo>(extensions).map(|_| Self::Plain).ok_or_else(unknown)
    }

    /// The peer that has presented this chain of certificates, its own certificate first.
    pub fn of_certificates(certificates: &[CertificateDer<'_>]) -> Self {
        let (names, spiffe) = certificates.first().map(|leaf| names(leaf)).unwrap_or_default();
        Self::Certificate { names, spiffe }
    }

    /// The peer that a stored record names as its creator, with the group that its grant named; `None`: no peer of this
    /// name can create records.
    pub(super) fn of_creator(creator: &str, gid: Option<u32>) -> Option<Self> {
        let (kind, name) = creator.split_once(':')?;
        match kind {
            "uid" => {
                let uid = name.parse().ok().filter(|uid: &u32| uid.to_string() == name)?;
                Some(Self::User { uid, groups: gid.into_iter().collect() })
            }
            "cert" => Some(Self::Certificate { names: vec![name.to_owned()], spiffe: None }),
            "spiffe" => {
                Some(Self::Certificate { names: Vec::new(), spiffe: Some(creator.to_owned()) })
            }
            _ => None,
        }
    }

    /// The peer's name as long as no grant gives it another. The prefixes keep certificates from passing for users.
    pub(super) fn name(&self) -> String {
        match self {
            Self::User { uid, .. } => format!("uid:{uid}"),
            Self::Certificate { names, spiffe } => match (names.first(), spiffe) {
                (None, Some(id)) => id.clone(),
                (name, _) => format!("cert:{}", name.map_or("", String::as_str)),
            },
            Self::Plain => "tcp:plain".to_owned(),
        }
    }
}

/// The peer at the other end, as our listeners or a server without them have noted it.
fn noted<P: Send + Sync + 'static>(extensions: &Extensions) -> Option<&P> {
    let via = extensions.get::<Via<P>>().map(|via| &via.peer);
    via.or_else(|| extensions.get::<P>())
}

/// The certificates that the other end has shown, noted in the same ways; `None`: the connection does not use TLS.
fn shown(extensions: &Extensions) -> Option<Arc<Vec<CertificateDer<'static>>>> {
    let via = extensions.get::<TlsConnectInfo<Via<TcpConnectInfo>>>();
    let bare = || extensions.get::<TlsConnectInfo<TcpConnectInfo>>();
    let certificates =
        via.map(TlsConnectInfo::peer_certs).or_else(|| bare().map(TlsConnectInfo::peer_certs))?;
    Some(certificates.unwrap_or_default())
}

fn unknown() -> Refusal {
    let message = "the daemon cannot identify this client: connect again".to_owned();
    Refusal::Internal { message }
}

/// The names in a certificate, and its SPIFFE ID; none if it cannot be read.
fn names(der: &[u8]) -> (Vec<String>, Option<String>) {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return Default::default() };
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = || alternative.iter().flat_map(|extension| &extension.value.general_names);
    let dns = alternative().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    let mut uris = alternative().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    // With several URIs the client could choose who it is.
    let uri = uris.next().filter(|uri| uri.starts_with("spiffe://") && uris.next().is_none());
    (common.chain(dns).map(str::to_owned).collect(), uri.map(str::to_owned))
}
