//! Serves the figures and the state of health by HTTP, to every client that reaches the port. The figures include names
//! of pods, containers and workloads, at most `metrics.containers` of the configuration; they do not include pods'
//! requests or their authors.

use crate::{feature::Share, figures::Figures, health::Health, metrics::Metrics, outbox::Outbox};
use numaloc_http::{
    Answer, Limits, Method, OPENMETRICS, PLAIN, Places, Request, StatusCode, accept_tcp, converse,
    whole,
};
use std::{
    future::ready,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::{net::TcpListener, sync::watch, time::Instant};

/// The served data: others fill it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    pub metrics: Arc<Metrics>,
    pub outbox: Arc<Outbox>,
    pub figures: Arc<Figures>,
    pub health: Arc<Health>,
    /// Not served: of the same figures.
    pub share: Arc<Share>,
}

/// EAFNOSUPPORT and EADDRNOTAVAIL (asm-generic/errno.h).
const NO_IPV6: [i32; 2] = [97, 99];

/// Most connections at a time. A further one takes the place of the oldest: clients that send nothing keep no probe of
/// the kubelet out.
const MAX_CONNECTIONS: usize = 16;

/// Serves until `stop` is true or its sender is gone.
///
/// # Errors
/// The address cannot be listened at.
pub async fn serve(
    address: SocketAddr,
    served: Served,
    stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let listener = bind(address).await?;
    let serve = |stream, _| {
        let served = served.clone();
        let answer =
            move |request: Request| ready(respond(request.method(), request.uri().path(), &served));
        converse(stream, Limits::METRICS, stop.clone(), answer)
    };
    accept_tcp(listener, Places::new(MAX_CONNECTIONS, 0), stop.clone(), serve).await;
    Ok(())
}

/// Listens at an address. A kernel without IPv6 (`ipv6.disable=1`) has no `[::]`, which stands for all addresses.
async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if is_without_ipv6(&error) && address.ip().is_unspecified() => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

/// Whether this kernel has no addresses of this family, or no IPv6 address on any interface.
fn is_without_ipv6(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|error| NO_IPV6.contains(&error))
}

fn respond(method: &Method, path: &str, served: &Served) -> Answer {
    let Served { metrics, outbox, figures, health, .. } = served;
    let now = Instant::now();
    let ok = || whole(StatusCode::OK, PLAIN, "ok\n");
    let not = |why: String| whole(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why);
    match path {
        _ if method != Method::GET => whole(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n"),
        "/metrics" => {
            let text = metrics.text(outbox.counts(), health, figures.scrape().as_deref());
            whole(StatusCode::OK, OPENMETRICS, text)
        }
        "/healthz" => match health.stuck(now) {
            None => ok(),
            Some(age) => not(format!("the keeper has not continued for {} s\n", age.as_secs())),
        },
        "/readyz" if !metrics.is_declared() => {
            not("numalocd does not have what the cluster wants yet: see the agent's log\n"
                .to_owned())
        }
        "/readyz" => match health.unread(now) {
            None => ok(),
            Some(what) => not(format!("the API server is not read: {what}\n")),
        },
        _ => whole(StatusCode::NOT_FOUND, PLAIN, "known: /metrics, /healthz, /readyz\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Counts;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn all_addresses_are_those_of_ipv4_where_there_is_no_ipv6() {
        for (error, expected) in [(97, true), (99, true), (98, false), (13, false)] {
            let error = std::io::Error::from_raw_os_error(error);
            assert_eq!(is_without_ipv6(&error), expected, "{error}");
        }
        // With IPv6 or without it.
        let listener = bind(([0u16; 8], 0).into()).await.expect("it listens");
        assert!(listener.local_addr().expect("an address").ip().is_unspecified());
        let taken = listener.local_addr().expect("an address");
        assert!(bind(taken).await.is_err(), "another process listens there");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_neither_ready_nor_healthy_when_it_is_blind_or_stuck() {
        let served = Served::default();
        let status = |path: &str| respond(&Method::GET, path, &served).status().as_u16();
        served.metrics.daemon(true);
        served.metrics.counts(Counts::default());
        let pods = served.health.watch("/api/v1/pods");
        assert_eq!((status("/readyz"), status("/healthz")), (200, 200));
        pods.failed("forbidden");
        tokio::time::advance(std::time::Duration::from_secs(200)).await;
        served.health.pulse.beat();
        assert_eq!((status("/readyz"), status("/healthz")), (503, 200), "another start is no help");
        let text = served.metrics.text(served.outbox.counts(), &served.health, None);
        for line in
            ["numaloc_agent_ready 0", "numaloc_agent_watch_age_seconds{kind=\"pods\"} 200.0"]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        pods.seen();
        assert_eq!(status("/readyz"), 200);
        tokio::time::advance(std::time::Duration::from_secs(601)).await;
        assert_eq!(status("/healthz"), 503);
    }

    #[tokio::test]
    async fn it_is_ready_when_numalocd_has_what_is_wanted() {
        let served = Served::default();
        let metrics = &served.metrics;
        let get = async |path: &str| {
            let response = respond(&Method::GET, path, &served);
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.expect("it is whole").to_bytes();
            (status, String::from_utf8_lossy(&body).into_owned())
        };
        assert_eq!((get("/healthz").await.0, get("/readyz").await.0), (200, 503));
        metrics.daemon(true);
        metrics.counts(Counts { pods: 3, scheduled: 2, invalid_policies: 2, ..Counts::default() });
        metrics.requested("watch", "done");
        assert_eq!(get("/readyz").await.0, 200);
        assert!(get("/metrics").await.1.contains("\nnumaloc_agent_daemon_figures 0\n"));
        served.figures.put(Some("numaloc_contested_schedules 3\n".to_owned()));
        let (status, text) = get("/metrics").await;
        assert_eq!(status, 200);
        for line in [
            "numaloc_agent_pods 3",
            "numaloc_agent_scheduled_containers 2",
            "numaloc_agent_api_requests_total{verb=\"watch\",end=\"done\"} 1",
            "numaloc_agent_daemon_up 1",
            "numaloc_agent_daemon_figures 1",
            "numaloc_agent_invalid_policies 2",
            "numaloc_agent_ready 1",
            "numaloc_contested_schedules 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
        metrics.daemon(false);
        assert!(get("/metrics").await.1.contains("\nnumaloc_agent_ready 0\n"));
        assert_eq!((get("/readyz").await.0, get("/x").await.0), (503, 404));
        assert_eq!(respond(&Method::POST, "/metrics", &served).status(), 405);
    }
}
