//! Placement of memory, and advice.

use super::{Daemon, ask, client};
use crate::{args::OptionArgs, endpoint::Address, exit::Failure, fields::with_memory};
use numaloc_api::{v1, value};
use numaloc_core::{Identity, NodeSet};
use std::time::Duration;

impl Daemon {
    pub fn topology(&self) -> Result<v1::GetTopologyResponse, Failure> {
        let message = v1::GetTopologyRequest {};
        ask!(self, locality_service_client::LocalityServiceClient.get_topology, message)
    }

    /// What is on these nodes.
    pub fn contents(&self, nodes: &NodeSet) -> Result<v1::GetNodeContentsResponse, Failure> {
        let node_ids = nodes.iter().filter_map(|node| i32::try_from(node.0).ok()).collect();
        let message = v1::GetNodeContentsRequest { node_ids };
        ask!(self, locality_service_client::LocalityServiceClient.get_node_contents, message)
    }

    /// The nodes with memory, if the options cannot be read without them; else none.
    ///
    /// # Errors
    /// Nodes are named by a device of this host, and the daemon may be on another one.
    pub fn with_memory_for(&self, options: &OptionArgs) -> Result<NodeSet, Failure> {
        if let Some(device) = options.device()
            && self.endpoint.address == Address::Https
        {
            return Err(Failure::Usage(format!(
                "{device} is a device of this host, and the daemon at {} may be on another one: name its nodes",
                self.endpoint()
            )));
        }
        match options.needs_topology() {
            true => Ok(with_memory(&self.topology()?.topology.unwrap_or_default())),
            false => Ok(NodeSet::new()),
        }
    }

    /// Placement of a target's memory.
    pub fn locality(&self, target: &value::Target) -> Result<v1::GetLocalityResponse, Failure> {
        let message = v1::GetLocalityRequest { target: Some(target.into()), policy: None };
        ask!(self, locality_service_client::LocalityServiceClient.get_locality, message)
    }

    /// The daemon's latest state of its host. It watches `process` closely from now on.
    pub fn live_view(&self, process: Option<Identity>) -> Result<v1::LiveView, Failure> {
        let message = v1::GetLiveViewRequest { process: process.map(Into::into) };
        let answer =
            ask!(self, locality_service_client::LocalityServiceClient.get_live_view, message)?;
        Ok(answer.view.unwrap_or_default())
    }

    /// Changes that would help a target, or all processes.
    pub fn advice(
        &self,
        target: Option<&value::Target>,
        interval: Duration,
        min_bytes: u64,
    ) -> Result<v1::GetAdviceResponse, Failure> {
        let message = v1::GetAdviceRequest {
            target: target.map(Into::into),
            interval: prost_types::Duration::try_from(interval).ok(),
            min_bytes: i64::try_from(min_bytes).ok(),
        };
        let mut service = client!(self, locality_service_client, LocalityServiceClient);
        let within = self.request_timeout + interval;
        self.call_within(
            within,
            message,
            |request| async move { service.get_advice(request).await },
        )
    }
}
