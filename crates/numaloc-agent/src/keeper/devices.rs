//! Asks the kubelet for the devices of containers whose policies go by these.

use super::Keeper;
use numaloc_node::Daemon;
use std::collections::BTreeSet;
use tokio::time::Instant;
use tonic::Status;

impl<D: Daemon> Keeper<D> {
    /// When the kubelet is to be asked; `None`: no policy needs that.
    pub(super) fn devices_due(&self) -> Option<Instant> {
        let is_needed = self.pods.values().any(|pod| pod.wanted.needs_devices);
        is_needed.then(|| self.devices.again())
    }

    /// Asks it, and decides about all pods again.
    pub(super) async fn read_devices(&mut self) -> Result<(), Status> {
        let Some(socket) = self.config.pod_resources.clone() else { return Ok(()) };
        let daemon = self.records.daemon();
        // A schedule that names nodes would be refused.
        if daemon.may_name_nodes().await? {
            let nodes = daemon.nodes().await?.into_iter().filter(|node| node.total_bytes > 0);
            let with_memory = nodes.map(|node| node.node_id).collect();
            let containers = self.pods.values().flat_map(|pod| &pod.facts.containers);
            let asked_for: BTreeSet<String> =
                containers.filter_map(|container| container.id.clone()).collect();
            let answer = podresources::device_nodes(&socket).await;
            self.devices.take(answer, asked_for, &with_memory, &socket);
        } else {
            self.devices
                .fail("the grant of numaloc-agent at numalocd has not the ceiling named_nodes");
        }
        self.look_again().await
    }
}
