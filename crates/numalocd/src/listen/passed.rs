//! Sockets that the service manager has opened (sd_listen_fds(3)).

use super::ListenError;
use listenfd::ListenFd;
use std::{
    io::{self, ErrorKind},
    net::TcpStream,
    os::{fd::OwnedFd, unix::net::UnixStream},
};
use tokio::net::{TcpListener, UnixListener};

/// Sockets that the service manager has opened; none by default.
#[derive(Debug, Default)]
pub struct Passed {
    pub(super) unix: Vec<UnixListener>,
    pub(super) tcp: Vec<TcpListener>,
}

impl Passed {
    /// Takes the sockets that LISTEN_FDS announces. The variables are removed, so that child processes do not take the
    /// sockets for theirs: call it once, early, and within the runtime.
    ///
    /// # Errors
    /// One of them is not a listening Unix stream or TCP socket.
    pub fn from_env() -> Result<Self, ListenError> {
        let mut sockets = ListenFd::from_env();
        let mut passed = Self::default();
        for index in 0..sockets.len() {
            passed
                .take(&mut sockets, index)
                .map_err(|source| ListenError::Passed { index, source })?;
        }
        Ok(passed)
    }

    fn take(&mut self, sockets: &mut ListenFd, index: usize) -> io::Result<()> {
        // If the family is wrong, the socket stays in `sockets`.
        if let Ok(Some(listener)) = sockets.take_unix_listener(index) {
            let stream = UnixStream::from(OwnedFd::from(listener));
            refuse_connected(stream.peer_addr())?;
            stream.set_nonblocking(true)?;
            self.unix.push(UnixListener::from_std(OwnedFd::from(stream).into())?);
        } else if let Some(listener) = sockets.take_tcp_listener(index)? {
            let stream = TcpStream::from(OwnedFd::from(listener));
            refuse_connected(stream.peer_addr())?;
            stream.set_nonblocking(true)?;
            self.tcp.push(TcpListener::from_std(OwnedFd::from(stream).into())?);
        }
        Ok(())
    }
}

/// With Accept=yes the service manager passes connections instead of a listening socket.
fn refuse_connected<T>(peer: io::Result<T>) -> io::Result<()> {
    match peer {
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidInput, "it is a connection")),
    }
}
