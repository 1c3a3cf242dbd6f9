//! Containers by containerd's own events and its CRI, on hosts without NRI.
//!
//! An event names a container that has changed, and the CRI has its state. All containers are listed at the start of
//! each connection, and again at intervals: an event could be missed between the first list and the start of the
//! subscription, which containerd does not report.

use crate::{
    config::Config, containers::Containers, inbox::Inbox, queue::ContainerChange,
    seen::KnownContainers,
};
use anyhow::Context;
use containerd::{
    Event,
    services::events::{Envelope, events_client::EventsClient},
};
use numaloc_api::innermost;
use numaloc_node::BackOff;
use std::{convert::Infallible, future::pending, io, path::Path, time::Duration};
use tokio::{
    net::UnixStream,
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};
use tonic::transport::{Channel, Endpoint};

/// Time that NRI may be away before this begins, so that a runtime can restart.
const GRACE: Duration = Duration::from_secs(3);
/// The second look at all containers, by which the subscription has begun for sure.
const SECOND: Duration = Duration::from_secs(2);
/// Interval at which all containers are then compared.
const EACH: Duration = Duration::from_secs(60);
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Time for which a process that is refused continues if it may use NRI as well.
const SHUT_OUT: Duration = Duration::from_secs(30);
/// Events that wait here. containerd keeps the rest.
const WAITING: usize = 256;

/// Follows containerd whenever NRI does not report containers, and connects again after each failure.
///
/// # Errors
/// This process is not let in, which only its next start can change.
pub async fn serve(
    config: &Config,
    inbox: &Inbox,
    mut by_nri: watch::Receiver<bool>,
    grace: Duration,
) -> anyhow::Result<()> {
    let (mut back_off, mut seen) = (BackOff::default(), KnownContainers::default());
    loop {
        until(&mut by_nri, false).await;
        tokio::select! {
            () = until(&mut by_nri, true) => continue,
            () = sleep(grace) => {}
        }
        let begin = Instant::now();
        let ended = tokio::select! {
            biased;
            () = until(&mut by_nri, true) => {
                tracing::info!("NRI reports containers: containerd's events are no longer used");
                back_off = BackOff::default();
                continue;
            }
            ended = session(config, inbox, &mut seen) => ended,
        };
        let Err(ended) = ended;
        let denied = ended.downcast_ref::<io::Error>().map(io::Error::kind);
        if denied == Some(io::ErrorKind::PermissionDenied) {
            if !grace.is_zero() {
                tracing::warn!("{ended:#}. Or switch NRI on: `numalocctl doctor` shows how");
                tokio::select! {
                    () = until(&mut by_nri, true) => continue,
                    () = sleep(SHUT_OUT) => {}
                }
            }
            return Err(ended);
        }
        let wait = back_off.after(begin.elapsed());
        tracing::warn!("{ended:#}; again in {wait:?}");
        sleep(wait).await;
    }
}

/// The time for which NRI has precedence, if both ways are open.
pub fn grace(is_auto: bool) -> Duration {
    if is_auto { GRACE } else { Duration::ZERO }
}

/// Waits until NRI reports containers, or ceases to.
async fn until(by_nri: &mut watch::Receiver<bool>, wanted: bool) {
    let is_lost = by_nri.wait_for(|is_told| *is_told == wanted).await.is_err();
    if is_lost {
        // No task is left that could change it.
        pending::<()>().await;
    }
}

/// One connection, until it ends, or until changes were dropped: the next one begins with a full list.
async fn session(
    config: &Config,
    inbox: &Inbox,
    seen: &mut KnownContainers,
) -> anyhow::Result<Infallible> {
    let channel = connect(&config.containerd_socket).await?;
    let (sender, mut envelopes) = mpsc::channel(WAITING);
    tokio::select! {
        ended = listen(channel.clone(), sender) => ended,
        ended = follow(Containers::new(channel), &mut envelopes, inbox, seen) => ended,
    }
}

async fn connect(socket: &Path) -> anyhow::Result<Channel> {
    let cannot = || {
        let hint = match std::fs::exists(socket) {
            Ok(true) => {
                "Start this by numaloc-nri.service with its drop-in numaloc-nri-containerd.conf, which lets its group in"
            }
            _ => "Is containerd running?",
        };
        format!("cannot connect to {}. {hint}", socket.display())
    };
    // Separately, because its own error is precise; gRPC wraps it.
    drop(UnixStream::connect(socket).await.with_context(cannot)?);
    // No keep-alive: Go's servers take a ping each five minutes at most, and the looks find out whether it is there.
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?;
    let connected = endpoint.connect_timeout(CONNECT).connect().await;
    connected.map_err(|error| {
        anyhow::anyhow!("{} does not speak gRPC: {}", socket.display(), innermost(&error))
    })
}

/// Takes events. containerd gives no answer before there is one.
async fn listen(channel: Channel, events: mpsc::Sender<Envelope>) -> anyhow::Result<Infallible> {
    let mut client = EventsClient::new(channel);
    let failed = "containerd's events";
    let mut stream =
        client.subscribe(containerd::subscription()).await.context(failed)?.into_inner();
    while let Some(envelope) = stream.message().await.context(failed)? {
        events.send(envelope).await?;
    }
    Err(anyhow::anyhow!("containerd has ended its events"))
}

/// Reports all containers that exist, and then each change.
async fn follow(
    mut containers: Containers,
    envelopes: &mut mpsc::Receiver<Envelope>,
    inbox: &Inbox,
    seen: &mut KnownContainers,
) -> anyhow::Result<Infallible> {
    seen.look(containers.look().await.context("containerd's CRI")?);
    tracing::info!(
        containers = seen.known().len(),
        "synchronized by containerd's events: NRI is not used"
    );
    inbox.synchronize(seen.known().clone());
    let mut next = Instant::now() + SECOND;
    loop {
        tokio::select! {
            Some(envelope) = envelopes.recv() => {
                let event = Event::read(&envelope);
                let event = event.with_context(|| format!("containerd's event {}", envelope.topic))?;
                if let Some(event) = event {
                    happened(event, &mut containers, inbox, seen).await?;
                }
            }
            () = sleep_until(next) => {
                for (id, change) in seen.look(containers.look().await.context("containerd's CRI")?) {
                    tracing::debug!(container = %id, "no event reported its change");
                    push(inbox, id, change)?;
                }
                next = Instant::now() + EACH;
            }
        }
    }
}

async fn happened(
    event: Event,
    containers: &mut Containers,
    inbox: &Inbox,
    seen: &mut KnownContainers,
) -> anyhow::Result<()> {
    tracing::debug!(?event, "told");
    let (id, change): (String, Option<ContainerChange>) = match event {
        Event::Started { container, pid } => {
            let facts = containers.container(&container, None).await?;
            let change = facts.and_then(|mut facts| {
                if facts.pid == 0 {
                    facts.pid = pid;
                }
                seen.started(facts)
            });
            (container, change)
        }
        Event::Updated { container } => {
            // One that does not run yet is reported when it starts.
            let Some(known) = seen.known().get(&container) else { return Ok(()) };
            let (pod, pid) = ((*known.pod).clone(), known.pid);
            let facts = containers.container(&container, Some(pod)).await?;
            let change = facts.and_then(|mut facts| {
                if facts.pid == 0 {
                    facts.pid = pid;
                }
                seen.is(facts)
            });
            (container, change)
        }
        Event::Ended { container } => {
            let change = seen.ended(&container);
            (container, change)
        }
    };
    change.map_or(Ok(()), |change| push(inbox, id, change))
}

/// Puts a change into the inbox. If it is full, all containers have to be listed again. The connection by NRI, if there
/// is one, waits for the same, and only one of them would be woken: so this one asks.
fn push(inbox: &Inbox, id: String, change: ContainerChange) -> anyhow::Result<()> {
    inbox.push(id, change);
    anyhow::ensure!(!inbox.is_lost(), "too many containers have changed at once");
    Ok(())
}
