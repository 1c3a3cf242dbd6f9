//! A server over raw connections, with paused time: it jumps only to the server's timers.

use super::*;
use std::{future::ready, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinHandle,
    time::Instant,
};

const LIMITS: Limits = Limits { keep_alive: true, ..Limits::METRICS };
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Serves answers of this length.
    async fn start(limits: Limits, length: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback address");
        let address = listener.local_addr().expect("where it listens");
        let (stop, stopped) = watch::channel(false);
        let serve = {
            let stopped = stopped.clone();
            move |stream, _| {
                let answer = move |_| ready(whole(StatusCode::OK, PLAIN, vec![b'x'; length]));
                converse(stream, limits, stopped.clone(), answer)
            }
        };
        let serving = tokio::spawn(accept_tcp(listener, Places::new(16, 48), stopped, serve));
        Self { address, stop, serving }
    }

    async fn ask(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.write_all(REQUEST).await.expect("a request that is taken");
        stream
    }

    async fn end(self) {
        self.stop.send(true).expect("a server that listens");
        self.serving.await.expect("no panic");
    }
}

async fn ended(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_dropped_first_and_after_an_answer() {
    let server = Server::start(LIMITS, 3).await;
    let mut silent = TcpStream::connect(server.address).await.expect("a connection");
    let begin = Instant::now();
    assert_eq!(ended(&mut silent).await, "");
    assert!(begin.elapsed() >= LIMITS.head);
    let mut idle = server.ask().await;
    let answer = ended(&mut idle).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nxxx"), "{answer}");
    server.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_dropped() {
    const LENGTH: usize = 64 << 20;
    let server = Server::start(Limits::METRICS, LENGTH).await;
    let mut unread = server.ask().await;
    // The server ends only once nothing is under way.
    server.end().await;
    assert!(ended(&mut unread).await.len() < LENGTH);
}

#[tokio::test]
async fn an_end_closes_idle_connections() {
    let server = Server::start(LIMITS, 3).await;
    let mut idle = server.ask().await;
    let mut answer = [0; 15];
    idle.read_exact(&mut answer).await.expect("an answer");
    let address = server.address;
    server.end().await;
    assert!(ended(&mut idle).await.ends_with("xxx"));
    assert!(TcpStream::connect(address).await.is_err());
}
