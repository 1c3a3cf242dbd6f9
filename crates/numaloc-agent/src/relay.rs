//! Passes connections on to the kubelet's socket for devices, which is for root alone. It runs as root without capabilities in a
//! container of its own, so that the agent is another user.

use anyhow::Context;
use std::{
    convert::Infallible,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
};
use tokio::{
    io::copy_bidirectional,
    net::{UnixListener, UnixStream},
    sync::Semaphore,
};

/// Most connections at a time. The agent has one.
const MOST: usize = 4;

/// Listens at `socket` and passes each connection on to one of its own to `kubelet`, until the process ends. Any user may connect: the
/// directory decides who reaches the socket.
///
/// # Errors
/// The socket cannot be made.
pub async fn relay(socket: &Path, kubelet: &Path) -> anyhow::Result<Infallible> {
    let listen = || {
        // One that was left there.
        match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }?;
        let listener = UnixListener::bind(socket)?;
        fs::set_permissions(socket, Permissions::from_mode(0o666))?;
        Ok::<_, io::Error>(listener)
    };
    let listener = listen().with_context(|| format!("cannot listen at {}", socket.display()))?;
    tracing::info!("passes connections at {} on to {}", socket.display(), kubelet.display());
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let place = Arc::clone(&places).acquire_owned().await?;
        let (mut client, _) = listener.accept().await.context("cannot accept connections")?;
        let kubelet = kubelet.to_owned();
        tokio::spawn(async move {
            match UnixStream::connect(&kubelet).await {
                // The end of either side ends both.
                Ok(mut server) => drop(copy_bidirectional(&mut client, &mut server).await),
                Err(error) => tracing::warn!("cannot connect to {}: {error}", kubelet.display()),
            }
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podresources::{device_nodes, fake::Kubelet};

    #[tokio::test]
    async fn the_kubelet_is_reached_also_after_its_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let [ours, theirs] = ["ours.sock", "theirs.sock"].map(|name| directory.path().join(name));
        fs::write(&ours, "left").expect("room");
        let task = tokio::spawn({
            let (ours, theirs) = (ours.clone(), theirs.clone());
            async move { relay(&ours, &theirs).await }
        });
        while UnixStream::connect(&ours).await.is_err() {
            assert!(!task.is_finished(), "it cannot listen");
            tokio::task::yield_now().await;
        }
        let mode = fs::metadata(&ours).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        assert!(device_nodes(&ours).await.is_err(), "there is no kubelet");
        for node in [0, 1] {
            let kubelet = Kubelet::default();
            kubelet.give("a", "b", "c", &[("example.org/gpu", &[node])]);
            kubelet.listen(&theirs);
            let nodes = device_nodes(&ours).await.expect("it answers");
            assert_eq!(
                nodes.into_values().collect::<Vec<_>>(),
                [[i32::try_from(node).expect("small")]]
            );
        }
        task.abort();
    }
}
