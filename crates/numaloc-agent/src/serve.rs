//! Serves the figures and the state of health by HTTP, to every client that reaches the port. The figures include names
//! of pods, containers and workloads, at most `metrics.containers` of the configuration; they do not include pods'
//! requests or their authors.

use crate::{figures::Figures, metrics::Metrics, outbox::Outbox};
use numaloc_http::{
    Answer, Limits, Method, OPENMETRICS, PLAIN, Places, Request, StatusCode, accept_tcp, converse,
    whole,
};
use std::{future::ready, net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, sync::watch};

/// The served data: others fill it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    pub metrics: Arc<Metrics>,
    pub outbox: Arc<Outbox>,
    pub figures: Arc<Figures>,
}

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
    let listener = TcpListener::bind(address).await?;
    let serve = |stream, _| {
        let served = served.clone();
        let answer =
            move |request: Request| ready(respond(request.method(), request.uri().path(), &served));
        converse(stream, Limits::METRICS, stop.clone(), answer)
    };
    accept_tcp(listener, Places::new(MAX_CONNECTIONS, 0), stop.clone(), serve).await;
    Ok(())
}

fn respond(method: &Method, path: &str, served: &Served) -> Answer {
    let Served { metrics, outbox, figures } = served;
    match path {
        _ if method != Method::GET => whole(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n"),
        "/metrics" => {
            let text = metrics.text(outbox.counts(), figures.scrape().as_deref());
            whole(StatusCode::OK, OPENMETRICS, text)
        }
        "/healthz" => whole(StatusCode::OK, PLAIN, "ok\n"),
        "/readyz" if metrics.is_ready() => whole(StatusCode::OK, PLAIN, "ok\n"),
        "/readyz" => {
            let why = "numalocd does not have what the cluster wants yet: see the agent's log\n";
            whole(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why)
        }
        _ => whole(StatusCode::NOT_FOUND, PLAIN, "known: /metrics, /healthz, /readyz\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Counts;
    use http_body_util::BodyExt;

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
