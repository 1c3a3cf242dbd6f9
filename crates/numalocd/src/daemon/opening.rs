//! Opens the store. A large one takes longer than a service manager waits for a start, and longer than it waits for an
//! end.

use crate::notify::Notifier;
use anyhow::Context;
use std::{future::Future, time::Duration};
use tokio::{task::spawn_blocking, time::interval};

/// Time that the service manager is asked to wait, and the interval between requests.
const EXTENSION: Duration = Duration::from_secs(30);
const OFTEN: Duration = Duration::from_secs(10);

/// Runs `open` in a thread of its own, and keeps the service manager waiting meanwhile. `None`: `stop` came first; the
/// thread is left to end with the process, as a kill would end it.
///
/// # Errors
/// `open` has panicked.
pub async fn patiently<T: Send + 'static>(
    open: impl FnOnce() -> T + Send + 'static,
    notifier: &Notifier,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Option<T>> {
    let mut opened = spawn_blocking(open);
    let mut often = interval(OFTEN);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            opened = &mut opened => return opened.map(Some).context("opening the store has panicked"),
            () = &mut stop => return Ok(None),
            _ = often.tick() => notifier.starting("opening the store", EXTENSION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future, os::unix::net::UnixDatagram, sync::mpsc, thread};

    #[tokio::test]
    async fn the_service_manager_waits_for_a_large_store() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (asked, waits) = mpsc::channel();
        let manager = thread::spawn(move || {
            let mut buffer = [0; 256];
            let length = socket.recv(&mut buffer).unwrap();
            asked.send(()).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        });
        let notifier = Notifier::new(Some(path.into()));
        let open = move || waits.recv().expect("the service manager was asked to wait");
        assert_eq!(patiently(open, &notifier, future::pending()).await.unwrap(), Some(()));
        let expected = "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=opening the store\n";
        assert_eq!(manager.join().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_start_that_is_to_end_does_not_wait_for_the_store() {
        let (_open, opens) = mpsc::channel::<()>();
        let open = move || opens.recv().is_ok();
        let ended = patiently(open, &Notifier::default(), future::ready(())).await;
        assert_eq!(ended.unwrap(), None);
    }
}
