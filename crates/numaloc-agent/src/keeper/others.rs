//! Programs that act for the pods of the node beside the agent: numaloc-nri, and other agents.

use super::Keeper;
use crate::{
    cluster::api::MANAGER,
    config::{OtherAgent, Register},
    facts::Facts,
    labels::PRESENCE,
    nri::Nri,
    wanted::{Other, Registrar, presence},
};
use numaloc_api::{NRI_SOURCE, value::WorkloadId};
use numaloc_node::{Daemon, LEASE, Wanted};
use tonic::Status;

impl<D: Daemon> Keeper<D> {
    pub(super) async fn look_for_nri(&mut self) -> Result<Nri, Status> {
        let others = self.records.daemon().others(NRI_SOURCE).await?;
        let first = others.workloads.first().map(|workload| workload.cgroup.clone());
        // The first one stays as long as there is any: it need not exist.
        self.cgroup = first.map(|first| self.cgroup.take().unwrap_or(first));
        Ok(Nri::of(&others))
    }

    /// Whether numaloc-nri withdraws its schedules because it detects this agent.
    fn is_yielded_to(&self) -> bool {
        let name = format!("{}{PRESENCE}", WorkloadId::PREFIX);
        self.nri.yields && self.records.refused(&name).is_none()
    }

    /// The program that registers the containers of this node.
    pub(super) fn registrar(&self) -> Registrar {
        let nri = self.nri.creator.clone();
        match (self.config.register, nri) {
            (Register::Never, creator) | (Register::Auto, creator @ Some(_)) => {
                Registrar::Nri { creator }
            }
            (Register::Auto, None) | (Register::Always, _) => {
                Registrar::Us { me: self.records.me().to_owned(), lease: self.config.lease }
            }
        }
    }

    /// The program that acts for a pod instead of us.
    pub(super) fn other(&self, facts: &Facts) -> Option<Other> {
        let mut running = facts.containers.iter().filter_map(|container| container.id.as_ref());
        if running.any(|id| self.nri.scheduled.contains(id)) && !self.is_yielded_to() {
            let what = "numaloc-nri has a schedule for it (without the key policies in its configuration, it leaves that to numaloc-agent)";
            return Some(Other { what: what.to_owned(), has_schedules: true });
        }
        let is_agent = |writer: &&String| {
            let mut agents = self.config.other_agents.iter();
            *writer != MANAGER && agents.any(|agent| writer.starts_with(agent.as_str()))
        };
        let writer = facts.status_writer.as_ref().filter(is_agent)?;
        (self.config.other_agent == OtherAgent::StandBack).then(|| {
            let writer = numaloc_config::written::shown(writer, 128);
            let what = format!("{writer} writes the status of its memory locality (other_agent = \"take-over\" in the agent's configuration replaces it)");
            Other { what, has_schedules: false }
        })
    }

    /// The record that shows our presence to numaloc-nri, where it registers the containers.
    pub(super) fn presence(&self) -> Option<Wanted> {
        match self.registrar() {
            Registrar::Nri { creator: Some(_) } => {
                // The plugin decides soon after the agent has gone.
                Some(presence(self.cgroup.as_deref()?, self.config.lease.min(LEASE)))
            }
            _ => None,
        }
    }
}
