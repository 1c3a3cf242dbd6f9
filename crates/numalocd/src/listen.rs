//! The sockets that clients connect to: Unix sockets, TCP with client certificates, or sockets that the service manager
//! passes.
//!
//! `unix` makes sockets so that at no moment a user may connect who is not meant to. `passed` takes the sockets that
//! the service manager has opened. `incoming` accepts connections within the accounts of its clients
//! ([`crate::accounts`]). `handshakes` does TLS handshakes with the keys of [`crate::tls`]. `serve` runs the gRPC
//! server on all of it.

mod connection;
mod handshakes;
mod incoming;
mod passed;
mod serve;
#[cfg(test)]
mod tests;
mod unix;

pub use passed::Passed;
pub use serve::{ServeError, serve};

use crate::{
    config::Listen,
    tls::{Keys, TlsError},
};
use std::{fmt, io, net::SocketAddr, path::PathBuf};
use tokio::net::TcpListener;

/// The reason why the sockets cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "{path}: a running daemon listens here; stop it, or choose another path with --socket \
         or listen.socket"
    )]
    InUse { path: PathBuf },
    /// The path has a file that is not a socket.
    #[error(
        "{path}: exists and is not a socket; move it away, or choose another path with --socket"
    )]
    NotASocket { path: PathBuf },
    /// A path without a file name.
    #[error("{path}: is not the path of a socket; name a file in a directory")]
    NoName { path: PathBuf },
    /// Another daemon makes a socket there at the same time.
    #[error("{path}: another daemon starts here at this moment; start only one of them")]
    Raced { path: PathBuf },
    /// The host does not have the group.
    #[error("group '{0}' of the socket does not exist; create it, or name another in [listen]")]
    Group(String),
    #[error("{path}: cannot {doing}: {source}")]
    Socket {
        /// The socket or its directory.
        path: PathBuf,
        doing: &'static str,
        source: io::Error,
    },
    /// The TCP address cannot be listened on.
    #[error(
        "{address}: cannot be listened on: {source}; change listen.tcp if it is taken; numalocd.service has no network without the \
         drop-in numalocd-network.conf"
    )]
    Tcp { address: SocketAddr, source: io::Error },
    /// The TLS files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A passed socket cannot be used.
    #[error(
        "socket number {index} from the service manager is not usable: {source}; it has to listen on a \
         Unix stream or TCP socket: see ListenStream= and Accept=no in the socket unit"
    )]
    Passed {
        /// Counted from 0, in the order of the socket unit.
        index: usize,
        source: io::Error,
    },
    /// A TCP socket was passed, but the configuration does not name TCP.
    #[error(
        "{0}: passed by the service manager, but listen.tcp is not set: set it and [listen.tls], or \
         remove the address from the socket unit"
    )]
    PassedTcp(SocketAddr),
    /// A Unix socket was passed of which the configuration does not say what its callers may do.
    #[error(
        "{0}: passed by the service manager, but neither listen.socket nor an entry of [[listen.sockets]] has this path: add it \
         there, or remove it from the socket unit"
    )]
    PassedUnix(String),
    /// Without TLS only loopback addresses are allowed.
    #[error("{0}: is not a loopback address, and there is no [listen.tls]: add that")]
    Plain(SocketAddr),
}

/// Open sockets, ready to be served.
#[derive(Debug)]
pub struct Listeners {
    unix: Vec<unix::ListeningSocket>,
    tcp: Vec<TcpListener>,
    keys: Option<Keys>,
    /// The additional sockets that could not be made, with the reason, a sentence each.
    missing: Vec<String>,
}

impl Listeners {
    /// Takes the passed sockets, and opens the others that `config` names. A passed Unix socket stands for the socket
    /// of `config` with its path; the only one stands for `config.socket` if `config` has no additional ones. A passed
    /// TCP socket stands for the address in `config.tcp`. An additional socket that cannot be made is missing
    /// ([`Self::missing`]): its directory belongs to others, and the daemon's other clients do without it.
    ///
    /// # Errors
    /// The main socket cannot be made (another daemon or file is there, or the rights do not suffice), TCP cannot be
    /// listened on, or the TLS files cannot be used.
    pub async fn open(config: &Listen, passed: Passed) -> Result<Self, ListenError> {
        let tcp = tcp(config, passed.tcp).await?;
        let keys = config.tls.as_ref().map(Keys::read).transpose()?;
        let is_only = passed.unix.len() == 1;
        let passed = passed.unix.into_iter();
        let passed =
            passed.map(|listener| unix::ListeningSocket::passed(listener, config, is_only));
        let mut unix = passed.collect::<Result<Vec<_>, _>>()?;
        if unix.iter().all(|socket| socket.further.is_some()) {
            unix.insert(0, unix::bind(config).await?);
        }
        let mut missing = Vec::new();
        for further in &config.sockets {
            let is_there =
                |socket: &unix::ListeningSocket| socket.further.as_deref() == Some(further);
            if unix.iter().any(is_there) {
                continue;
            }
            match unix::bind_further(further).await {
                Ok(socket) => unix.push(socket),
                Err(error) => missing.push(format!(
                    "the additional socket {} is missing, and its clients cannot connect: {error}; the user of numalocd has to be able to \
                     write in its directory: correct that, and restart numalocd",
                    further.path.display()
                )),
            }
        }
        Ok(Self { unix, tcp, keys, missing })
    }

    /// The additional sockets that could not be made, with the reason and the remedy, a sentence each.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The keys for TLS, whose files can be read again; `None`: TLS is not used.
    pub fn keys(&self) -> Option<Keys> {
        self.keys.clone()
    }

    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.tcp.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }
}

/// The addresses, in the form that NUMALOC_ENDPOINT takes.
impl fmt::Display for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unix = self.unix.iter().map(ToString::to_string);
        let scheme = if self.keys.is_some() { "https" } else { "http" };
        let tcp = self.tcp_addresses().into_iter().map(|address| format!("{scheme}://{address}"));
        f.write_str(&unix.chain(tcp).collect::<Vec<_>>().join(", "))
    }
}

async fn tcp(config: &Listen, passed: Vec<TcpListener>) -> Result<Vec<TcpListener>, ListenError> {
    let address = |listener: &TcpListener| listener.local_addr().ok();
    let Some(configured) = config.tcp else {
        let unwanted = passed.iter().find_map(address);
        return unwanted.map_or(Ok(Vec::new()), |address| Err(ListenError::PassedTcp(address)));
    };
    let listeners = if passed.is_empty() {
        let address = configured;
        if config.tls.is_none() && !address.ip().is_loopback() {
            return Err(ListenError::Plain(address));
        }
        let bound = TcpListener::bind(address).await;
        vec![bound.map_err(|source| ListenError::Tcp { address, source })?]
    } else {
        passed
    };
    let plain = listeners.iter().filter(|_| config.tls.is_none()).filter_map(address);
    match plain.into_iter().find(|address| !address.ip().is_loopback()) {
        Some(address) => Err(ListenError::Plain(address)),
        None => Ok(listeners),
    }
}
