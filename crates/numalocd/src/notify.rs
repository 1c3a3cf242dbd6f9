//! Tells the service manager how the daemon is doing. Says nothing where there is none.

#[cfg(test)]
mod tests;

use sd_notify::NotifyState;
use std::{
    env,
    ffi::OsString,
    fmt::Write,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    process,
    time::Duration,
};

/// A service manager that does not read holds up the start and the end for no longer than this; nothing else waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The service manager, or nobody. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Notifier {
    socket: Option<OsString>,
}

impl Notifier {
    /// The one that started this process.
    pub fn from_env() -> Self {
        Self::new(env::var_os("NOTIFY_SOCKET"))
    }

    /// The one that listens at `socket`: a path, or an abstract name behind `@`.
    pub fn new(socket: Option<OsString>) -> Self {
        Self { socket: socket.filter(|socket| !socket.is_empty()) }
    }

    /// All is up; also after a reload.
    pub fn ready(&self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(&line(status))], Some(PATIENCE));
    }

    /// The configuration is being read again; [`Self::ready`] has to follow.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now], Some(PATIENCE)),
            Err(error) => tracing::warn!(%error, "the monotonic clock cannot be read"),
        }
    }

    /// The end has begun.
    pub fn stopping(&self, status: &str) {
        self.send(&[NotifyState::Stopping, NotifyState::Status(&line(status))], Some(PATIENCE));
    }

    /// What `systemctl status` shows. Does not wait.
    pub fn status(&self, status: &str) {
        self.send(&[NotifyState::Status(&line(status))], None);
    }

    /// The watchdog that this process has to pat, from the environment.
    pub fn watchdog(&self) -> Watchdog {
        self.watchdog_of(env::var("WATCHDOG_USEC").ok(), env::var("WATCHDOG_PID").ok())
    }

    /// Without a process id it is meant for whoever reads it.
    fn watchdog_of(&self, usec: Option<String>, pid: Option<String>) -> Watchdog {
        let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(process::id()));
        let usec = usec.filter(|_| is_ours).and_then(|usec| usec.parse().ok());
        Watchdog::new(self.clone(), usec.map(Duration::from_micros))
    }

    fn send(&self, states: &[NotifyState<'_>], patience: Option<Duration>) {
        let Some(socket) = &self.socket else { return };
        let mut message = String::new();
        for state in states {
            // Writing to a String does not fail.
            let _ = writeln!(message, "{state}");
        }
        if let Err(error) = send(socket, message.as_bytes(), patience) {
            tracing::warn!(%error, ?socket, "the service manager cannot be told");
        }
    }
}

/// Told often enough, the service manager knows that the daemon is not stuck.
#[derive(Clone, Debug, Default)]
pub struct Watchdog {
    notifier: Notifier,
    patience: Option<Duration>,
}

impl Watchdog {
    /// One that bites when it is not patted for `patience`; `None` or 0: never.
    pub fn new(notifier: Notifier, patience: Option<Duration>) -> Self {
        let is_armed = notifier.socket.is_some();
        Self { notifier, patience: patience.filter(|patience| is_armed && !patience.is_zero()) }
    }

    /// How often to pat it: twice in the time that it waits. `None`: it need not be.
    pub fn interval(&self) -> Option<Duration> {
        self.patience.map(|patience| patience / 2)
    }

    /// Tells it that all is well. Does not wait: what it has no room for is told the next time.
    pub fn pat(&self) {
        if self.patience.is_some() {
            self.notifier.send(&[NotifyState::Watchdog], None);
        }
    }
}

fn send(socket: &OsString, message: &[u8], patience: Option<Duration>) -> io::Result<()> {
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let datagram = UnixDatagram::unbound()?;
    datagram.set_write_timeout(patience)?;
    datagram.set_nonblocking(patience.is_none())?;
    datagram.send_to_addr(message, &address).map(drop)
}

/// A second line would be taken for another message.
fn line(status: &str) -> String {
    status.replace(['\n', '\r'], " ")
}
