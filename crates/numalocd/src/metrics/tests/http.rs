//! The HTTP server, by raw connections.

use super::{super::*, filled};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    async fn start(metrics: Metrics) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback address");
        let address = listener.local_addr().expect("where it listens");
        let (stop, stopped) = watch::channel(false);
        Self { address, stop, serving: tokio::spawn(serve(listener, metrics, stopped)) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Sends a request line with a Host and gives what comes until the server closes.
    async fn ask(&self, line: &str) -> String {
        let mut stream = self.connect().await;
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a request that is taken");
        rest(&mut stream).await
    }
}

async fn rest(stream: &mut TcpStream) -> String {
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
    assert!(head.contains(&format!("content-type: {CONTENT_TYPE}")), "{head}");
    assert_eq!(body, metrics.text());
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
    // With time standing still but for its timers, it returns only because the server closes.
    rest(&mut stream).await;
    assert!(server.ask("GET /metrics").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(start_paused = true)]
async fn more_clients_than_there_is_room_for_wait_their_turn() {
    let server = Server::start(Metrics::default()).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(server.connect().await);
    }
    assert!(server.ask("GET /metrics").await.starts_with("HTTP/1.1 200 "));
    // The silent ones before it had to be dropped for that, all but those that fit beside it.
    let mut open = 0;
    for stream in &mut silent {
        open += usize::from(stream.try_read(&mut [0; 64]).is_err());
    }
    assert!(open < 16, "{open} are still open");
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
    let refused = serve(listener, Metrics::default(), stopped).await;
    assert!(matches!(refused, Err(ServeError::NotLoopback(_))), "{refused:?}");
}
