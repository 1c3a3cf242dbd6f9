//! Entry points of the fuzz targets: bytes that a container runtime may send, and files written by operators. A panic
//! here is a defect.

use crate::{
    agent::Agent,
    align::MachineNodes,
    config::{self, AlignMems, Config},
    handlers::Handlers,
    inbox::Inbox,
    queue,
    wanted::wanted,
};
use nri::{
    Identity,
    fake::{call_of, registered},
    frame::Message,
    serve,
};
use numaloc_core::{CpuSet, NodeId};
use numaloc_policy::MemoryPolicy;
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    io::{join, sink},
    runtime,
};

/// Calls that a plugin has, and one that it has not.
const METHODS: [&str; 11] = [
    "Configure",
    "Synchronize",
    "CreateContainer",
    "UpdateContainer",
    "StateChange",
    "PostStartContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "Shutdown",
    "Other",
];

/// Bytes from the socket of a runtime, and what numalocd is to have of the containers that they tell of. The first byte
/// says how the others come: as they are, or as the payloads of calls in whole frames, so that what is in them is
/// reached soon.
pub fn runtime(bytes: &[u8]) {
    let Some((&form, bytes)) = bytes.split_first() else { return };
    let socket = if form & 1 == 0 { bytes.to_vec() } else { calls(bytes) };
    let nodes = MachineNodes::default();
    let node = |id, cpus: &str| (NodeId(id), cpus.parse::<CpuSet>().expect("a list"));
    nodes.set(vec![node(0, "0-3"), node(1, "4-7")]);
    let inbox = Arc::new(Inbox::new(queue::MOST));
    let memory_policies = vec![MemoryPolicy::Preferred, MemoryPolicy::Exempt];
    let config = Config { align_mems: AlignMems::Preferred, memory_policies, ..Config::default() };
    let mut handlers = Handlers::new(Arc::clone(&inbox), &config, nodes);
    let identity = Identity::new(config::NAME, "90").expect("they are valid");
    let runtime = runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    // An error is a valid end: the plugin connects again.
    let _ = runtime.block_on(serve(join(&socket[..], sink()), &identity, &mut handlers));
    let mut known = BTreeMap::new();
    if let Some(batch) = inbox.take() {
        batch.apply(&mut known);
    }
    for facts in known.values() {
        wanted(facts, &config, &Agent::default(), "uid:990");
    }
}

/// The configuration.
///
/// # Panics
/// It is refused without a reason.
pub fn configuration(text: &str) {
    if let Err(problems) = numaloc_node::parse::<config::Config>(text) {
        assert!(!problems.is_empty());
    }
}

/// The runtime's bytes that make these calls: for each, a byte for its method, two for the length of the payload, and
/// the payload.
fn calls(mut bytes: &[u8]) -> Vec<u8> {
    let encoded = |message: Message| message.encode().expect("64 KiB fit");
    // The number of the plugin's only call.
    let mut socket = encoded(registered(1));
    let mut stream = 1;
    while let [method, low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        let method = METHODS[usize::from(*method) % METHODS.len()];
        socket.extend(encoded(call_of(method, stream, payload.to_vec())));
        (bytes, stream) = (rest, stream + 2);
    }
    socket
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::samples::{container, pod};
    use nri::v1alpha1::SynchronizeRequest;
    use prost::Message as _;

    #[test]
    fn calls_of_a_runtime_and_others() {
        let (pods, containers) = (vec![pod(1)], vec![container(1, "c1")]);
        let all = SynchronizeRequest { pods, containers, more: false }.encode_to_vec();
        let [low, high, ..] = all.len().to_le_bytes();
        let call = [&[1, 1, low, high][..], &all].concat();
        runtime(&call);
        // The same in raw frames, whole and cut.
        let raw = [&[0][..], &calls(&call[1..])].concat();
        for end in [raw.len(), raw.len() - 1, 20, 1, 0] {
            runtime(&raw[..end]);
        }
        runtime(&[1, 5, 2, 0, 0x0a, 0xff]);
        runtime(&[0xff; 100]);
    }

    #[test]
    fn a_configuration_and_others() {
        for text in ["", "index = \"10\"", "index = 1", "[pods", "endpoint = \"\"", "\0"] {
            configuration(text);
        }
    }
}
