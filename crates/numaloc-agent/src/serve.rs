//! Serves the figures and the state of health by HTTP, to every client that reaches the port. The figures include names
//! of pods, containers and workloads, at most `metrics.containers` of the configuration; they do not include pods'
//! requests or their authors.

use crate::{figures::Figures, metrics::Metrics, outbox::Outbox};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

/// The served data: others fill it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    pub metrics: Arc<Metrics>,
    pub outbox: Arc<Outbox>,
    pub figures: Arc<Figures>,
}

/// Most connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 16;
/// Time limit for the head of a request, and for all of it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept. Most failures, such as a lack of file descriptors, pass by themselves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves forever.
///
/// # Errors
/// The address cannot be listened at.
pub async fn serve(address: SocketAddr, served: Served) -> std::io::Result<Infallible> {
    let listener = TcpListener::bind(address).await?;
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = served.clone();
                tokio::spawn(async move {
                    let _ = timeout(CONNECTION_TIMEOUT, answer(stream, &served)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves the request of a connection. Errors concern only its client, so they are ignored.
async fn answer(stream: TcpStream, served: &Served) {
    let service = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(respond(request.method(), request.uri().path(), served))
    });
    let done = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = done.await;
}

fn respond(method: &Method, path: &str, served: &Served) -> Response<Full<Bytes>> {
    let Served { metrics, outbox, figures } = served;
    let plain = "text/plain; charset=utf-8";
    let (status, kind, text) = match path {
        _ if method != Method::GET => {
            (StatusCode::METHOD_NOT_ALLOWED, plain, "only GET\n".to_owned())
        }
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, kind, metrics.text(outbox.counts(), figures.scrape().as_deref()))
        }
        "/healthz" => (StatusCode::OK, plain, "ok\n".to_owned()),
        "/readyz" if metrics.is_ready() => (StatusCode::OK, plain, "ok\n".to_owned()),
        "/readyz" => {
            let why = "numalocd does not have what the cluster wants yet: see the agent's log\n";
            (StatusCode::SERVICE_UNAVAILABLE, plain, why.to_owned())
        }
        _ => (StatusCode::NOT_FOUND, plain, "known: /metrics, /healthz, /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
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
