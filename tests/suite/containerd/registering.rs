//! The NRI of the containerd at hand, without any code of ours: a plugin of a few lines that only registers. A plugin of ours that
//! is not called fails here too if it is containerd's fault.

use super::rig::Containerd;
use prost::Message;
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

/// A request as ttrpc frames it (`ttrpc/request.proto`).
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, tag = "1")]
    service: String,
    #[prost(string, tag = "2")]
    method: String,
    #[prost(bytes = "vec", tag = "3")]
    payload: Vec<u8>,
}

/// nri.pkg.api.v1alpha1.RegisterPluginRequest.
#[derive(Clone, PartialEq, Message)]
struct RegisterPlugin {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    index: String,
}

/// Sends a request as the first of the connection of the runtime's services (2). Frames of NRI's mux: connection and length; frames
/// of ttrpc: length, stream, type (1 is a request) and flags. All numbers are big endian.
fn register(stream: &mut UnixStream) {
    let plugin = RegisterPlugin { name: "standin".into(), index: "42".into() };
    let request = Request {
        service: "nri.pkg.api.v1alpha1.Runtime".into(),
        method: "RegisterPlugin".into(),
        payload: plugin.encode_to_vec(),
    };
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a small message");
    let mut ttrpc = [length.to_be_bytes(), 1_u32.to_be_bytes()].concat();
    ttrpc.extend([1, 0]);
    ttrpc.extend(message);
    let length = u32::try_from(ttrpc.len()).expect("a small message");
    let mux = [2_u32.to_be_bytes(), length.to_be_bytes()].concat();
    stream.write_all(&[mux, ttrpc].concat()).expect("containerd reads");
}

fn number(stream: &mut UnixStream) -> u32 {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).expect("containerd answers");
    u32::from_be_bytes(bytes)
}

/// The connection and the bytes of the next frame of the mux.
fn frame(stream: &mut UnixStream) -> (u32, Vec<u8>) {
    let connection = number(stream);
    let mut bytes = vec![0; number(stream) as usize];
    stream.read_exact(&mut bytes).expect("containerd answers");
    (connection, bytes)
}

#[test]
fn a_plugin_that_registers_is_configured() {
    let containerd = Containerd::start();
    let mut stream = UnixStream::connect(containerd.nri_socket()).expect("NRI is on");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket");
    register(&mut stream);
    let (mut answered, mut asked) = (false, None);
    // Both connections, in any order: the answer on ours, a request on the plugin's. A frame of either is one message of ttrpc
    // here, because both are small.
    while !answered || asked.is_none() {
        let (connection, bytes) = frame(&mut stream);
        let (header, message) = bytes.split_at(10);
        match (connection, header[8]) {
            (2, 2) => answered = true,
            (1, 1) => asked = Some(Request::decode(message).expect("a request")),
            other => panic!("connection and type {other:?}"),
        }
    }
    let asked = asked.expect("just seen");
    assert_eq!(
        (&*asked.service, &*asked.method),
        ("nri.pkg.api.v1alpha1.Plugin", "Configure"),
        "{}",
        containerd.log()
    );
}
