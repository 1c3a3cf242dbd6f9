//! The keeper's reports about its node: numalocd's figures on the agent's port, and the NodeMemoryLocality.

use super::Keeper;
use crate::{
    facts::Facts,
    figures,
    locality::{Surroundings, Unread, locality},
    reading::Reading,
};
use numaloc_node::{Daemon, is_lost};
use std::time::SystemTime;
use tokio::time::Instant;
use tonic::Status;

impl<D: Daemon> Keeper<D> {
    /// Reads the figures of numalocd, for scrapers of the agent and for the NodeMemoryLocality.
    pub(super) async fn read_figures(&mut self) -> Result<(), Status> {
        self.last_read = Instant::now();
        self.read_at = self.last_read + figures::PERIOD;
        let text = match self.records.daemon().metrics().await {
            Err(status) if is_lost(&status) => return Err(status),
            Err(status) => {
                // Nothing else depends on them.
                let why = format!(
                    "numalocd refuses GetMetrics: {} ({:?})",
                    status.message(),
                    status.code()
                );
                self.figures.put(None);
                self.report_node(Err(Unread::Refused(&why)));
                if self.unread.as_ref() != Some(&why) {
                    tracing::warn!("{why}. It is tried again each {:?}", figures::PERIOD);
                    self.unread = Some(why);
                }
                return Ok(());
            }
            Ok(text) => text,
        };
        self.unread = None;
        let reading = Reading::of(&text);
        let pods: Vec<&Facts> = self.pods.values().map(|pod| &*pod.facts).collect();
        let most = self.config.metrics.containers;
        self.figures.put(Some(figures::text(&reading, &self.node, &pods, most)));
        self.report_node(Ok(&reading));
        Ok(())
    }

    /// Gives the NodeMemoryLocality to the writer.
    pub(super) fn report_node(&mut self, reading: Result<&Reading, Unread<'_>>) {
        // The API server has not listed the node yet, or has deleted it.
        if self.node_uid.is_empty() {
            return;
        }
        self.share.report(&self.node_uid, reading.ok().and_then(Reading::pinned));
        let containers = self.pods.values().flat_map(|pod| &pod.wanted.containers);
        let managed = containers.filter(|container| container.records.schedule.is_some()).count();
        let around = Surroundings {
            pods: self.pods.values().map(|pod| &*pod.facts).collect(),
            managed: managed as u64,
            policies: self.rollouts.told(),
            problem: self.sources.problems().first().map(|problem| problem.message.clone()),
            refused: self.outbox.problem(),
            unread: self.health.unread(Instant::now()),
            renewal: self.health.token.lock().clone(),
        };
        let locality = locality(reading, &around, &mut self.since, SystemTime::now());
        self.locality.put(locality, self.node_uid.clone());
    }
}
