//! Tests of the HTTP server over raw connections.

use super::{super::*, filled};
use crate::{
    config::{Ceilings, Config, Grant, Grantee, Role},
    tls::{Keys, Tls},
};
use numaloc_http::OPENMETRICS;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::PrivateKeyDer},
};

struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<Result<(), MetricsServeError>>,
}

impl Server {
    async fn start(metrics: Metrics) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback address");
        let address = listener.local_addr().expect("where it listens");
        let (stop, stopped) = watch::channel(false);
        Self { address, stop, serving: tokio::spawn(serve(listener, metrics, None, stopped)) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Sends a request line and a Host header, and returns everything until the server closes the connection.
    async fn ask(&self, line: &str) -> String {
        let mut stream = self.connect().await;
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a request that is taken");
        rest(&mut stream).await
    }
}

async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = String::new();
    let read = timeout(Duration::from_secs(60), stream.read_to_string(&mut answer)).await;
    read.expect("an end of the connection").expect("an answer");
    answer
}

#[tokio::test]
async fn metrics_are_served() {
    let metrics = filled();
    let server = Server::start(metrics.clone()).await;
    let answer = server.ask("GET /metrics").await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("content-type: {OPENMETRICS}")), "{head}");
    // Metrics of the process change all the time, so they are left out.
    let lasting = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("process_")).map(str::to_owned).collect()
    };
    assert_eq!(lasting(body), lasting(&metrics.text()));
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let server = Server::start(Metrics::default()).await;
    assert!(server.ask("GET /").await.starts_with("HTTP/1.1 404 "));
    assert!(server.ask("POST /other").await.starts_with("HTTP/1.1 404 "));
    let answer = server.ask("POST /metrics").await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.contains("allow: GET"), "{answer}");
    assert!(server.ask("nonsense").await.starts_with("HTTP/1.1 400 "));
    assert!(server.ask("GET /metrics").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_dropped() {
    let server = Server::start(Metrics::default()).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n").await.expect("half a request that is taken");
    // Time is paused and jumps only to the server's timers, so this returns only when the server closes the connection.
    rest(&mut stream).await;
    assert!(server.ask("GET /metrics").await.starts_with("HTTP/1.1 200 "));
}

/// Time stands still here: no connection ends because its time is over.
#[tokio::test]
async fn clients_that_say_nothing_keep_nobody_out() {
    let server = Server::start(Metrics::default()).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(server.connect().await);
    }
    tokio::time::pause();
    assert!(server.ask("GET /metrics").await.starts_with("HTTP/1.1 200 "));
    // The oldest ones had to make room.
    let mut open = 0;
    for stream in &mut silent[..20] {
        open += usize::from(stream.try_read(&mut [0; 64]).is_err());
    }
    assert_eq!(open, 0, "the oldest are still open");
    server.stop.send(true).expect("a server that listens");
    server.serving.await.expect("no panic").expect("an end without error");
}

#[tokio::test]
async fn stopping_ends_it_and_closes_idle_connections() {
    let server = Server::start(Metrics::default()).await;
    let mut idle = server.connect().await;
    assert!(server.ask("GET /metrics").await.starts_with("HTTP/1.1 200 "));
    server.stop.send(true).expect("a server that listens");
    server.serving.await.expect("no panic").expect("an end without error");
    assert_eq!(rest(&mut idle).await, "");
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn addresses_that_others_reach_are_refused() {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("an address");
    let (_stop, stopped) = watch::channel(false);
    let refused = serve(listener, Metrics::default(), None, stopped).await;
    assert!(matches!(refused, Err(MetricsServeError::NotLoopback(_))), "{refused:?}");
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a DNS name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Asks for the metrics over TLS, with a certificate of this common name.
async fn scrape(address: SocketAddr, ca: &CertifiedIssuer<'static, KeyPair>, name: &str) -> String {
    let key = KeyPair::generate().expect("a key");
    let certificate = params(name).signed_by(&key, ca).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
        )
        .expect("a certificate with its key");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let host = "localhost".try_into().expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(host, stream).await.expect("a handshake");
    ask_for_metrics(&mut stream).await;
    rest(&mut stream).await
}

async fn ask_for_metrics(stream: &mut (impl AsyncWrite + Unpin)) {
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.expect("a request that is taken");
    stream.flush().await.expect("it is sent");
}

#[tokio::test]
async fn beyond_loopback_only_clients_with_a_role_get_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut authority = params("authority");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let ca = CertifiedIssuer::self_signed(authority, key).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let own = params("daemon").signed_by(&key, &ca).expect("a certificate");
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("room");
        path
    };
    let tls = Tls {
        certificate: file("cert", own.pem()),
        key: file("key", key.serialize_pem()),
        client_ca: file("ca", ca.pem()),
    };
    let scraper = Grant {
        to: Grantee::Certificate("scraper".to_owned()),
        role: Role::Viewer,
        cgroups: Vec::new(),
        files: Vec::new(),
        ceilings: Ceilings::default(),
    };
    let config = Config { grants: vec![scraper], ..Config::default() };
    let (_config, config) = watch::channel(Arc::new(config));
    let admission = Admission { keys: Keys::read(&tls).expect("good files"), config };
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("an address");
    let port = listener.local_addr().expect("where it listens").port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let (_stop, stopped) = watch::channel(false);
    tokio::spawn(serve(listener, filled(), Some(admission), stopped));
    let answer = scrape(address, &ca, "scraper").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("numaloc_build"), "{answer}");
    let answer = scrape(address, &ca, "stranger").await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("numaloc_build"), "{answer}");
    // A client without TLS gets nothing.
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    ask_for_metrics(&mut stream).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&answer));
}
