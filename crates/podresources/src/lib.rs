//! Calls of numaloc to the kubelet, at the socket of its podresources API: which devices it has given to containers, and
//! on which NUMA nodes they are. It knows that from the moment when it admits a pod, before any process opens anything.
//! The socket is for root alone.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "fake")]
pub mod fake;

use std::{collections::BTreeMap, path::Path, time::Duration};
use tonic::{Status, transport::Endpoint};

/// The kubelet's API. Its documentation is in `proto/podresources/v1/api.proto`.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("v1");
}

/// Where the kubelet listens, unless it has another root directory.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";
/// Largest answer that is taken, as the kubelet's own client does (`defaultPodResourcesMaxSize`).
const ANSWER_MAX: usize = 16 << 20;
/// Longest wait for the connection and the answer together.
const ANSWER: Duration = Duration::from_secs(10);

/// The NUMA nodes of the devices of containers, by namespace, pod and container: those that have any.
pub type DeviceNodes = BTreeMap<[String; 3], Vec<i32>>;

/// Asks the kubelet once for the devices of all containers of its node.
///
/// # Errors
/// The kubelet cannot be reached, or refuses.
pub async fn device_nodes(socket: &Path) -> Result<DeviceNodes, Status> {
    let ask = async {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let channel = endpoint.connect().await.map_err(|error| {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            Status::unavailable(cause.to_string())
        })?;
        let mut client = v1::pod_resources_lister_client::PodResourcesListerClient::new(channel)
            .max_decoding_message_size(ANSWER_MAX);
        client.list(v1::ListPodResourcesRequest {}).await
    };
    let answer = tokio::time::timeout(ANSWER, ask).await;
    let late = |_| Status::deadline_exceeded(format!("no answer within {} s", ANSWER.as_secs()));
    Ok(nodes(answer.map_err(late)??.into_inner()))
}

fn nodes(answer: v1::ListPodResourcesResponse) -> DeviceNodes {
    let mut all = DeviceNodes::new();
    for pod in answer.pod_resources {
        for container in pod.containers {
            let devices = container.devices.into_iter().filter_map(|device| device.topology);
            let nodes = devices.flat_map(|topology| topology.nodes);
            // Some plugins have -1 for a device that is on no node.
            let mut nodes: Vec<i32> = nodes
                .filter_map(|node| i32::try_from(node.id).ok().filter(|id| *id >= 0))
                .collect();
            nodes.sort_unstable();
            nodes.dedup();
            if !nodes.is_empty() {
                all.insert([pod.namespace.clone(), pod.name.clone(), container.name], nodes);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use fake::Kubelet;

    #[tokio::test]
    async fn nodes_are_those_of_all_devices_of_a_container() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("kubelet.sock");
        let kubelet = Kubelet::default();
        // A plugin's devices come in one entry for each node; one on no node has no topology, or a node -1.
        kubelet.give(
            "shop",
            "web-1",
            "web",
            &[("example.org/gpu", &[1]), ("example.org/gpu", &[0])],
        );
        kubelet.give("shop", "web-1", "proxy", &[("example.org/fuse", &[])]);
        kubelet.give(
            "shop",
            "web-2",
            "web",
            &[("example.org/nic", &[-1]), ("example.org/x", &[1, 1])],
        );
        let error = device_nodes(&socket).await.expect_err("nobody listens");
        assert!(error.message().contains("No such file"), "{error:?}");
        kubelet.listen(&socket);
        let expected = [
            (["shop", "web-1", "web"].map(str::to_owned), vec![0, 1]),
            (["shop", "web-2", "web"].map(str::to_owned), vec![1]),
        ];
        assert_eq!(device_nodes(&socket).await.expect("it answers"), expected.into());
        assert_eq!(kubelet.lists(), 1);
    }

    /// The answer of a kubelet, with the fields that are not in our definitions.
    #[test]
    fn fields_that_are_not_read_are_skipped() {
        use prost::Message;
        // PodResources {name: "p", namespace: "n", containers: [{name: "c", devices: [{topology: {nodes: [{ID: 1}]}}], cpu_ids: [2, 3],
        // dynamic_resources: [{claim_name: "d"}]}], cpu_ids: [2]}.
        let container = b"\n\x01c\x12\x06\x1a\x04\n\x02\x08\x01\x1a\x02\x02\x03\x2a\x03\x12\x01d";
        let mut pod = b"\n\x01p\x12\x01n\x1a".to_vec();
        pod.push(u8::try_from(container.len()).expect("short"));
        pod.extend_from_slice(container);
        pod.extend_from_slice(b"\x22\x01\x02");
        let mut answer = vec![b'\n', u8::try_from(pod.len()).expect("short")];
        answer.extend(pod);
        let answer = v1::ListPodResourcesResponse::decode(&*answer).expect("it is one");
        assert_eq!(nodes(answer), [(["n", "p", "c"].map(str::to_owned), vec![1])].into());
    }
}
