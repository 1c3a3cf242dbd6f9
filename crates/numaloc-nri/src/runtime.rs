//! The connection to the runtime by NRI.

use crate::{
    config::{Config, NAME, Source},
    handlers::Handlers,
    inbox::Inbox,
};
use anyhow::Context;
use nri::{Identity, Launched};
use numaloc_node::BackOff;
use parking_lot::Mutex;
use std::{
    future::{Future, pending},
    io,
    os::unix::net::UnixStream as StdStream,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

/// Time that a runtime may take to list all containers to a plugin that it has launched. containerd 1.7 never does
/// (<https://github.com/containerd/nri/pull/43>), and older containers would be taken for gone.
const UNTOLD: Duration = Duration::from_secs(8);

/// A connection to the runtime that is there before the plugin serves it.
#[derive(Debug)]
pub enum Begun {
    /// The runtime has launched this process with it.
    Launched(Launched),
    /// This process has made it, as root.
    Made(StdStream),
    /// None: it is made by the account that the process has.
    Nothing,
}

impl Begun {
    /// Connects to the socket of the runtime, which is for root alone, before this process becomes another user. A
    /// failure is logged: the other user tries again.
    pub fn by_root(config: &Config) -> Self {
        match StdStream::connect(&config.nri_socket) {
            _ if config.source == Source::Containerd => Self::Nothing,
            Ok(stream) => Self::Made(stream),
            Err(error) => {
                tracing::warn!("{}", unreachable(config, &error));
                Self::Nothing
            }
        }
    }
}

fn unreachable(config: &Config, error: &io::Error) -> String {
    format!(
        "cannot connect to {}: {error}. Is the runtime running, and NRI enabled?",
        config.nri_socket.display()
    )
}

/// Serves the runtime by connections to its socket, and connects again when one ends. `first` has been made already.
///
/// # Errors
/// The connection cannot be made, and waiting would not help.
pub async fn serve(
    config: &Config,
    first: Option<StdStream>,
    handlers: Handlers,
    inbox: &Inbox,
) -> anyhow::Result<()> {
    let first = Mutex::new(first);
    let connect = || {
        let made = first.lock().take();
        async {
            match made {
                Some(made) => of(made),
                None => UnixStream::connect(&config.nri_socket).await,
            }
        }
    };
    serve_by(connect, config, handlers, inbox).await
}

/// Serves the runtime by connections that are made like this.
///
/// # Errors
/// As [`serve`].
pub async fn serve_by<S, C>(
    connect: impl Fn() -> C,
    config: &Config,
    mut handlers: Handlers,
    inbox: &Inbox,
) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Future<Output = io::Result<S>>,
{
    let identity = Identity::new(NAME, &config.index)?;
    let (mut back_off, mut said) = (BackOff::default(), String::new());
    loop {
        let begin = Instant::now();
        let ended = match connect().await {
            Ok(stream) => session(stream, &identity, &mut handlers, inbox).await,
            // The process that starts this one may be able to change that, but only at its next start.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let why = format!(
                    "cannot connect to {}: {error}. The runtime makes its socket for root alone: start this by numaloc-nri.service, which lets \
                     its group in, or as root, which it stays until it is connected",
                    config.nri_socket.display()
                );
                return Err(anyhow::anyhow!(why));
            }
            Err(error) => Err(anyhow::anyhow!(unreachable(config, &error))),
        };
        handlers.ended();
        let wait = back_off.after(begin.elapsed());
        let why = match ended {
            Ok(()) => "the runtime has ended the connection".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        // With another source open that may last forever, and is logged once.
        match config.source == Source::Auto && why == said {
            true => tracing::debug!("{why}; again in {wait:?}"),
            false => tracing::warn!("{why}; again in {wait:?}"),
        }
        said = why;
        sleep(wait).await;
    }
}

/// Serves the runtime by the connection with which it has launched this process, until that ends.
///
/// # Errors
/// The connection is of no more use.
pub async fn launched(
    launched: Launched,
    mut handlers: Handlers,
    inbox: &Inbox,
) -> anyhow::Result<()> {
    let Launched { identity, socket } = launched;
    let stream =
        inherited(socket).context("cannot take the connection that the runtime has made")?;
    let mut is_told = handlers.is_told();
    let untold = async {
        // An error means that the session has ended.
        if timeout(UNTOLD, is_told.wait_for(|is_told| *is_told)).await.is_ok() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        ended = session(stream, &identity, &mut handlers, inbox) => ended,
        () = untold => Err(anyhow::anyhow!(
            "the runtime has launched this plugin and does not report the containers that exist, as with containerd 1.7: \
             start the plugin by numaloc-nri.service instead"
        )),
    }
}

/// The connection with which the runtime has launched this process.
fn inherited(socket: i32) -> io::Result<UnixStream> {
    of(StdStream::from(numaloc_sys::duplicate(socket)?))
}

/// A connection that is there already.
fn of(stream: StdStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// One connection, until it ends, or until changes were dropped: the next one begins with a full list.
async fn session(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    identity: &Identity,
    handlers: &mut Handlers,
    inbox: &Inbox,
) -> anyhow::Result<()> {
    tokio::select! {
        ended = nri::serve(stream, identity, handlers) => Ok(ended?),
        () = inbox.lost() => Err(anyhow::anyhow!("too many containers have changed at once")),
    }
}
