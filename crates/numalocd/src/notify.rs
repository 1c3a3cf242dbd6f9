//! Notifies the service manager of the daemon's state (sd_notify(3)). Does nothing without a service manager.

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

/// Time that the start and the end wait for a service manager that does not read. Nothing else waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The connection to the service manager, if there is one. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Notifier {
    socket: Option<OsString>,
}

impl Notifier {
    /// For the service manager that started this process.
    pub fn from_env() -> Self {
        Self::new(env::var_os("NOTIFY_SOCKET"))
    }

    /// For the service manager that listens at `socket`: a path, or `@` and an abstract name.
    pub fn new(socket: Option<OsString>) -> Self {
        Self { socket: socket.filter(|socket| !socket.is_empty()) }
    }

    /// The daemon is ready, after the start or after a reload.
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

    /// The start takes at most `within` from now on, also where the service manager's own time limit (TimeoutStartSec=)
    /// is shorter.
    pub fn starting(&self, status: &str, within: Duration) {
        self.send(&[extension(within), NotifyState::Status(&line(status))], None);
    }

    /// The daemon has begun to end, which takes at most `within`. The service manager waits that long, also where its
    /// own time limit (TimeoutStopSec=) is shorter.
    pub fn stopping(&self, status: &str, within: Duration) {
        let status = line(status);
        let states = [NotifyState::Stopping, extension(within), NotifyState::Status(&status)];
        self.send(&states, Some(PATIENCE));
    }

    /// Sets the line that `systemctl status` shows. Does not wait.
    pub fn status(&self, status: &str) {
        self.send(&[NotifyState::Status(&line(status))], None);
    }

    /// The watchdog that the environment asks this process to serve.
    pub fn watchdog(&self) -> Watchdog {
        self.watchdog_of(env::var("WATCHDOG_USEC").ok(), env::var("WATCHDOG_PID").ok())
    }

    /// Without a process id the variables are meant for whichever process reads them.
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
            tracing::warn!(%error, ?socket, "cannot notify the service manager");
        }
    }
}

/// The service manager's watchdog. As long as it hears from the daemon often enough, the daemon is taken to be alive.
#[derive(Clone, Debug, Default)]
pub struct Watchdog {
    notifier: Notifier,
    patience: Option<Duration>,
}

impl Watchdog {
    /// A watchdog that takes the daemon for stuck after `patience` without [`Self::pat`]; `None` or 0: it is off.
    pub fn new(notifier: Notifier, patience: Option<Duration>) -> Self {
        let is_armed = notifier.socket.is_some();
        Self { notifier, patience: patience.filter(|patience| is_armed && !patience.is_zero()) }
    }

    /// Interval at which to call [`Self::pat`]: twice within the time that the watchdog waits; `None`: it is off.
    pub fn interval(&self) -> Option<Duration> {
        self.patience.map(|patience| patience / 2)
    }

    /// Notifies the watchdog that the daemon is alive. Does not wait: if the socket is full, the next call does.
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

fn extension(within: Duration) -> NotifyState<'static> {
    NotifyState::ExtendTimeoutUsec(u32::try_from(within.as_micros()).unwrap_or(u32::MAX))
}

/// A line break would begin another assignment in the message (sd_notify(3)).
fn line(status: &str) -> String {
    status.replace(['\n', '\r'], " ")
}
