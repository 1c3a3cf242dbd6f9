//! A runtime that sends frames which are cut, out of order, too long, or no frames at all, to the plugin at work. Each
//! time it ends the connection and makes another one, and in the end it works.

use super::{
    Plugin,
    samples::{config, container, pod},
    until,
};
use crate::{align::MachineNodes, handlers::Handlers, labels::MARK, runtime};
use nri::{
    connection::{PLUGIN, RUNTIME},
    fake::{Generation, Runtime},
    frame::{MESSAGE_MAX, Message, REQUEST, RESPONSE},
};
use numaloc_node::fake::Fake;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::mpsc,
    time::{Instant, timeout},
};

/// Longer than the plugin waits for anything before it connects again.
const PATIENCE: Duration = Duration::from_secs(600);
/// The number of connections made and broken.
const ROUNDS: usize = 400;

/// The plugin, which connects to us.
struct PluginPeer {
    connections: mpsc::Receiver<DuplexStream>,
    daemon: Fake,
    plugin: Plugin,
}

impl PluginPeer {
    fn start() -> Self {
        let daemon = Fake::new(MARK);
        let mut plugin = Plugin::start(config(), daemon.clone(), MachineNodes::default());
        let inbox = Arc::clone(&plugin.inbox);
        let handlers = Handlers::new(Arc::clone(&inbox), &config(), MachineNodes::default());
        let (sender, connections) = mpsc::channel(1);
        let connect = move || {
            let sender = sender.clone();
            async move {
                let (ours, theirs) = duplex(1 << 16);
                sender.send(theirs).await.map_err(io::Error::other)?;
                Ok(ours)
            }
        };
        plugin.tasks.push(tokio::spawn(async move {
            runtime::serve_by(connect, &config(), handlers, &inbox).await.expect("it continues");
        }));
        Self { connections, daemon, plugin }
    }

    /// The next connection of the plugin.
    async fn connection(&mut self) -> DuplexStream {
        let next = timeout(PATIENCE, self.connections.recv()).await;
        assert!(self.plugin.tasks.iter().all(|task| !task.is_finished()), "a task has ended");
        next.expect("it connects again").expect("it continues")
    }

    /// The next connection, on which it has registered.
    async fn registered(&mut self) -> Runtime<DuplexStream> {
        let stream = self.connection().await;
        Runtime::accept(stream, Generation::Calls).await.expect("it registers")
    }

    /// Sends this on a connection of its own, and waits until the plugin has ended it. Returns what it has answered,
    /// and how long that took.
    async fn ends(&mut self, bytes: &[u8]) -> (Vec<u8>, Duration) {
        let mut stream = self.registered().await.into_stream();
        let begin = Instant::now();
        // It may have ended it already.
        let _ = stream.write_all(bytes).await;
        let mut answers = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut answers)).await;
        ended.expect("it ends the connection").expect("an end is not an error");
        (answers, begin.elapsed())
    }

    /// It still works.
    async fn works(&mut self) {
        let mut runtime = self.registered().await;
        let all = vec![container(1, "a")];
        runtime.synchronize(vec![(vec![pod(1)], all)]).await.expect("it answers");
        until(async || self.daemon.has(&["a"], &["a"])).await;
    }
}

/// A request that asks for a service which the plugin does not have, with a name of this length. It has an answer.
fn request(stream: u32, length: usize) -> Vec<u8> {
    // Field 1 of ttrpc's request.
    let mut payload = Vec::new();
    prost::encoding::string::encode(1, &"x".repeat(length), &mut payload);
    message(PLUGIN, stream, REQUEST, &payload)
}

fn message(connection: u32, stream: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let payload = payload.to_vec();
    Message { connection, stream, kind, payload }.encode().expect("it fits")
}

/// A frame by itself, whatever is in it.
fn frame(connection: u32, length: u32, payload: &[u8]) -> Vec<u8> {
    [&connection.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
}

/// The frames in these bytes.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(length) = bytes.get(4..8) {
        let length = length.iter().fold(0, |number, &byte| number << 8 | usize::from(byte));
        let (first, rest) = bytes.split_at((8 + length).min(bytes.len()));
        frames.push(first.to_vec());
        bytes = rest;
    }
    frames
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_cut_end_the_connection() {
    let mut host = PluginPeer::start();
    let whole = request(1, 20_000);
    let (answers, _) = host.ends(&[&request(1, 5)[..], &whole[..whole.len() - 1]].concat()).await;
    assert!(!answers.is_empty(), "what was whole has its answer");
    for cut in [1, 7, 8, 11, 18, 4103, 4104, 4110] {
        assert_eq!(host.ends(&whole[..cut]).await.0, b"", "{cut}");
    }
    host.works().await;
}

#[tokio::test(start_paused = true)]
async fn frames_out_of_order_end_the_connection() {
    let mut host = PluginPeer::start();
    // A message in two frames: the second part is not the beginning of a message.
    let parts = frames(&request(1, 20_000));
    assert_eq!(parts.len(), 2);
    host.ends(&[&parts[1][..], &parts[0]].concat()).await;
    // The parts of two messages in turn: the second begin is taken for the rest of the first one.
    let other = frames(&request(3, 20_000));
    host.ends(&[&parts[0][..], &other[0], &parts[1], &other[1], &[0; 3]].concat()).await;
    // An answer to a request that was not made, or was answered.
    host.ends(&message(PLUGIN, 1, RESPONSE, b"")).await;
    host.ends(&message(RUNTIME, 1, RESPONSE, b"")).await;
    host.works().await;
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_too_long_end_the_connection_at_once() {
    let mut host = PluginPeer::start();
    let most = u32::try_from(MESSAGE_MAX).expect("a small number");
    let header = |length: u32| [&length.to_be_bytes()[..], &[0, 0, 0, 1, REQUEST, 0]].concat();
    for bytes in [
        frame(PLUGIN, most + 11, b""),
        frame(PLUGIN, u32::MAX, b""),
        frame(PLUGIN, 10, &header(most + 1)),
        frame(RUNTIME, 10, &header(u32::MAX)),
        frame(7, 1, b"x"),
    ] {
        let (answers, took) = host.ends(&bytes).await;
        assert_eq!(answers, b"");
        // Without waiting for the announced payload.
        assert_eq!(took, Duration::ZERO);
    }
    host.works().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_the_registration_that_is_none_ends_the_connection() {
    let mut host = PluginPeer::start();
    for bytes in [
        message(RUNTIME, 1, RESPONSE, &[255; 20]),
        message(RUNTIME, 9, RESPONSE, b""),
        vec![255; 64],
        vec![0; 64],
    ] {
        let mut stream = host.connection().await;
        let _ = stream.write_all(&bytes).await;
        let ended = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        let _ = ended.expect("it ends the connection");
    }
    host.works().await;
}

/// On any input, the plugin continues: it waits for more, or ends the connection and makes another one.
#[tokio::test(start_paused = true)]
async fn garbage_of_all_kinds_is_survived() {
    for seed in 0..4 {
        let mut host = PluginPeer::start();
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..ROUNDS / 4 {
            let mut stream = match random.u8(..4) {
                0 => host.connection().await,
                _ => host.registered().await.into_stream(),
            };
            let bytes = garbage(&mut random);
            let _ = stream.write_all(&bytes).await;
            // The runtime goes, or waits for it to go.
            if random.bool() {
                let _ = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
            }
        }
        host.works().await;
    }
}

/// Messages that were valid before something has happened to them.
fn garbage(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for stream in 0..random.u32(1..6) {
        let length = random.usize(..100);
        let length = if random.u8(..4) == 0 { 20_000 } else { length };
        parts.extend(frames(&request(2 * stream + 1, length)));
    }
    for _ in 0..random.u8(1..4) {
        let at = random.usize(..parts.len());
        match random.u8(..6) {
            0 => random.shuffle(&mut parts),
            1 => {
                let length = random.usize(..=parts[at].len());
                parts[at].truncate(length);
            }
            2 => {
                let byte = random.usize(..parts[at].len().max(1));
                parts[at].iter_mut().skip(byte).take(1).for_each(|byte| *byte ^= random.u8(1..));
            }
            3 => parts.insert(at, (0..random.usize(..64)).map(|_| random.u8(..)).collect()),
            4 => parts.insert(at, frame(random.u32(..4), random.u32(..), &[1; 9])),
            _ => {
                let again = parts[at].clone();
                parts.push(again);
            }
        }
    }
    parts.concat()
}
