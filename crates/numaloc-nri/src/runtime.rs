//! The connection to the runtime.

use crate::{
    align::Nodes,
    back_off::BackOff,
    config::{Config, NAME},
    handlers::Handlers,
    inbox::Inbox,
};
use anyhow::Context;
use nri::{Identity, Launched};
use std::{io, os::unix::net::UnixStream as StdStream, sync::Arc};
use tokio::{
    net::UnixStream,
    time::{Instant, sleep},
};

/// Serves the runtime: by the connection with which it has launched this process, until that ends; or by connections to its socket,
/// again and again.
///
/// # Errors
/// There is nothing to connect to that would become better by waiting.
pub async fn serve(
    config: Arc<Config>,
    launched: Option<Launched>,
    inbox: Arc<Inbox>,
    nodes: Nodes,
) -> anyhow::Result<()> {
    let mut handlers = Handlers::new(Arc::clone(&inbox), config.align_mems, nodes);
    if let Some(Launched { identity, socket }) = launched {
        let stream =
            inherited(socket).context("cannot take the connection that the runtime has made")?;
        return session(stream, &identity, &mut handlers, &inbox).await;
    }
    let identity = Identity::new(NAME, &config.index)?;
    let path = &config.nri_socket;
    let mut back_off = BackOff::default();
    loop {
        let begin = Instant::now();
        let ended = match UnixStream::connect(path).await {
            Ok(stream) => session(stream, &identity, &mut handlers, &inbox).await,
            // Whoever starts this process may be able to change that, but only when it starts it again.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let why = format!(
                    "cannot connect to {}: {error}. The runtime makes its socket for root alone: start this by numaloc-nri.service, which lets its group in",
                    path.display()
                );
                return Err(anyhow::anyhow!(why));
            }
            Err(error) => Err(anyhow::anyhow!(
                "cannot connect to {}: {error}. Is the runtime running, and NRI enabled?",
                path.display()
            )),
        };
        let wait = back_off.after(begin.elapsed());
        match ended {
            Ok(()) => tracing::warn!("the runtime has ended the connection; again in {wait:?}"),
            Err(error) => tracing::warn!("{error:#}; again in {wait:?}"),
        }
        sleep(wait).await;
    }
}

/// The connection with which the runtime has launched this process.
fn inherited(socket: i32) -> io::Result<UnixStream> {
    let stream = StdStream::from(numaloc_sys::duplicate(socket)?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// One connection, until it ends, or until changes were dropped: the next one begins with all that there is.
async fn session(
    stream: UnixStream,
    identity: &Identity,
    handlers: &mut Handlers,
    inbox: &Inbox,
) -> anyhow::Result<()> {
    tokio::select! {
        ended = nri::serve(stream, identity, handlers) => Ok(ended?),
        () = inbox.lost() => Err(anyhow::anyhow!("too many containers have changed at once")),
    }
}
