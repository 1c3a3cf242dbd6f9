//! Keeps numalocd as it is to be: all containers that run are registered, and each that has a policy has one schedule.
//! It only ever compares the wanted records with the existing ones, so it does not matter after which failure it begins
//! again.

use crate::{
    agent::Agent,
    align::MachineNodes,
    config::Config,
    facts::Facts,
    inbox::Inbox,
    labels::MARK,
    wanted::{id, wanted},
};
use numaloc_api::value::ScheduleId;
use numaloc_core::NodeId;
use numaloc_node::{AGAIN, AGENT_SOURCE, Daemon, MANY, Records, is_lost, renewals};
use std::{collections::BTreeMap, convert::Infallible, sync::Arc};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

/// Keeps numalocd as it is to be.
#[derive(Debug)]
pub struct Keeper<D> {
    config: Arc<Config>,
    records: Records<D>,
    nodes: MachineNodes,
    inbox: Arc<Inbox>,
    /// The records of numaloc-agent at numalocd.
    agent: Agent,
    /// Containers that run; `None` until the runtime has listed all of them. Nothing is declared or removed before.
    known: Option<BTreeMap<String, Facts>>,
}

impl<D: Daemon + Send> numaloc_node::Keeper for Keeper<D> {
    const MEANWHILE: &'static str = "containers are kept in memory";

    async fn serve(&mut self) -> Result<Infallible, Status> {
        let inbox = Arc::clone(&self.inbox);
        self.take();
        while self.known.is_none() {
            inbox.filled().await;
            self.take();
        }
        self.begin().await?;
        let mut renewal = renewals(self.config.lease);
        loop {
            let again = self.records.again();
            let due = again.unwrap_or_else(|| Instant::now() + AGAIN);
            tokio::select! {
                () = inbox.filled() => self.changed().await?,
                _ = renewal.tick() => self.renew().await?,
                () = sleep_until(due), if again.is_some() => self.declare().await?,
            }
        }
    }
}

impl<D: Daemon> Keeper<D> {
    /// A keeper that knows nothing yet, and gets all from this inbox.
    pub fn new(config: Arc<Config>, daemon: D, nodes: MachineNodes, inbox: Arc<Inbox>) -> Self {
        let records = Records::new(daemon, MARK);
        let agent = Agent::default();
        Self { config, records, nodes, inbox, agent, known: None }
    }

    /// Takes the runtime's changes. Returns which containers have changed; `None`: all may have.
    fn take(&mut self) -> Option<Vec<String>> {
        let Some(batch) = self.inbox.take() else { return Some(Vec::new()) };
        let is_all = batch.all.is_some();
        // Changes that come before the runtime has listed all containers are in the list that follows.
        if self.known.is_none() && !is_all {
            return Some(Vec::new());
        }
        let changed = batch.apply(self.known.get_or_insert_default());
        (!is_all).then_some(changed)
    }

    /// Connects, and brings numalocd up to date.
    async fn begin(&mut self) -> Result<(), Status> {
        self.records.connect().await?;
        if self.config.needs_nodes() {
            let nodes = self.records.daemon().nodes().await?;
            let nodes = nodes.into_iter().filter(|node| node.total_bytes > 0).filter_map(|node| {
                let id = NodeId(u32::try_from(node.node_id).ok()?);
                Some((id, node.cpus.parse().ok()?))
            });
            self.nodes.set(nodes.collect());
        }
        self.look_for_agent().await?;
        self.declare().await?;
        tracing::info!(
            me = %self.records.me(),
            containers = self.records.workloads(),
            schedules = self.records.schedules().len(),
            "numalocd knows all containers"
        );
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), Status> {
        let is_same = self.records.renew().await?;
        let is_other = self.look_for_agent().await?;
        if is_same && !is_other { Ok(()) } else { self.declare().await }
    }

    /// Looks for numaloc-agent. Returns whether it has come, gone or changed its schedules.
    async fn look_for_agent(&mut self) -> Result<bool, Status> {
        if !self.config.policies.yields() {
            return Ok(false);
        }
        let agent = match self.records.daemon().others(AGENT_SOURCE).await {
            Ok(others) => Agent::of(others),
            Err(status) if is_lost(&status) => return Err(status),
            Err(status) => {
                tracing::warn!(
                    "numalocd does not show what numaloc-agent has: {} ({:?}). Policies are decided here",
                    status.message(),
                    status.code()
                );
                Agent::default()
            }
        };
        match (self.agent.is_there(), agent.is_there()) {
            (false, true) => tracing::info!("numaloc-agent runs here, and decides about policies"),
            (true, false) => {
                tracing::info!(
                    "numaloc-agent no longer runs here: numaloc-nri decides about policies"
                );
            }
            _ => {}
        }
        let is_other = agent != self.agent;
        self.agent = agent;
        Ok(is_other)
    }

    /// Whether a container has no schedule yet.
    fn is_new(&self, container: &str) -> bool {
        let runs = self.known.as_ref().is_some_and(|known| known.contains_key(container));
        let name = id(container).map(|id| format!("{}{id}", ScheduleId::PREFIX));
        runs && name.is_some_and(|name| !self.records.has(&name))
    }

    /// Declares all containers.
    async fn declare(&mut self) -> Result<(), Status> {
        let known = self.known.iter().flatten();
        let me = self.records.me();
        let all =
            known.filter_map(|(_, facts)| wanted(facts, &self.config, &self.agent, me)).collect();
        self.records.declare(all).await
    }

    /// Takes changes in, and brings numalocd up to date with them.
    async fn changed(&mut self) -> Result<(), Status> {
        let Some(changed) = self.take().filter(|changed| changed.len() < MANY) else {
            return self.declare().await;
        };
        // The plugin hears of a new container before the agent.
        if changed.iter().any(|container| self.is_new(container)) && self.look_for_agent().await? {
            return self.declare().await;
        }
        for container in changed {
            let facts = self.known.as_ref().and_then(|known| known.get(&container));
            match facts.map(|facts| wanted(facts, &self.config, &self.agent, self.records.me())) {
                Some(Some(wanted)) => self.records.keep(wanted).await?,
                Some(None) => {
                    tracing::warn!(%container, "numalocd does not accept this id: not registered")
                }
                None => {
                    if let Some(id) = id(&container) {
                        self.records.forget(&id).await?;
                    }
                }
            }
        }
        Ok(())
    }
}
