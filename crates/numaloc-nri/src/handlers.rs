//! What the runtime calls. Nothing here waits for anybody: facts go into the inbox, and the answer back to the runtime.

use crate::{align::Nodes, config::AlignMems, facts::Facts, inbox::Inbox, queue::Change};
use nri::{
    Events, Notice, Plugin,
    v1alpha1::{
        ConfigureRequest, Container, ContainerAdjustment, ContainerState, Event,
        LinuxContainerAdjustment, LinuxCpu, LinuxResources, PodSandbox,
    },
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// The plugin's side of a connection.
#[derive(Debug)]
pub struct Handlers {
    inbox: Arc<Inbox>,
    align: AlignMems,
    nodes: Nodes,
    /// Whether the runtime has told all containers, and is connected still.
    is_told: watch::Sender<bool>,
}

impl Handlers {
    /// Handlers that fill this inbox.
    pub fn new(inbox: Arc<Inbox>, align: AlignMems, nodes: Nodes) -> Self {
        Self { inbox, align, nodes, is_told: watch::Sender::new(false) }
    }

    /// Whether the runtime tells of containers, from now on.
    pub fn is_told(&self) -> watch::Receiver<bool> {
        self.is_told.subscribe()
    }

    /// The connection has ended.
    pub fn ended(&self) {
        self.is_told.send_replace(false);
    }
}

impl Plugin for Handlers {
    /// As few events as possible: a runtime waits for each answer, and calls its plugins one after the other.
    fn configure(&mut self, request: ConfigureRequest) -> Result<Events, String> {
        let ConfigureRequest { runtime_name, runtime_version, request_timeout, .. } = request;
        tracing::info!(runtime = %runtime_name, version = %runtime_version, timeout_ms = request_timeout, "registered");
        let create = (self.align != AlignMems::Off).then_some(Event::CreateContainer);
        // PostUpdateContainer and not UpdateContainer: only then the cgroup has the new CPUs, and the container the new values.
        let always = [Event::PostStartContainer, Event::PostUpdateContainer];
        let ends = [Event::StopContainer, Event::RemoveContainer];
        Ok(always.into_iter().chain(ends).chain(create).collect())
    }

    /// Containers that do not run yet are told when they start.
    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) {
        let pods: BTreeMap<_, _> = pods.into_iter().map(|pod| (pod.id.clone(), pod)).collect();
        let runs = |container: &Container| {
            matches!(
                container.state(),
                ContainerState::ContainerRunning | ContainerState::ContainerPaused
            )
        };
        let all = containers.into_iter().filter(runs).map(|container| {
            let pod = pods.get(&container.pod_sandbox_id).cloned().unwrap_or_default();
            (container.id.clone(), Facts::new(pod, container))
        });
        let all: BTreeMap<_, _> = all.collect();
        tracing::info!(containers = all.len(), "synchronized");
        self.inbox.synchronize(all);
        self.is_told.send_replace(true);
    }

    fn notice(&mut self, notice: Notice) {
        let Notice { event, pod, container, .. } = notice;
        let Some(container) = container.filter(|container| !container.id.is_empty()) else {
            return;
        };
        let id = container.id.clone();
        let facts = |container| Box::new(Facts::new(pod.unwrap_or_default(), container));
        let change = match event {
            Event::PostStartContainer => Change::Started(facts(container)),
            Event::PostUpdateContainer => Change::Updated(facts(container)),
            Event::StopContainer | Event::RemoveContainer => Change::Gone,
            _ => return,
        };
        tracing::debug!(?event, container = %id, "told");
        self.inbox.push(id, change);
    }

    fn create(&mut self, _pod: PodSandbox, container: Container) -> Option<ContainerAdjustment> {
        if self.align == AlignMems::Off {
            return None;
        }
        let cpu = container.linux?.resources?.cpu?;
        // What somebody has set stays.
        let mems = self.nodes.mems(&cpu.cpus).filter(|_| cpu.mems.is_empty())?;
        tracing::info!(container = %container.id, cpus = %cpu.cpus, %mems, "bound to the memory of its nodes");
        let cpu = Some(LinuxCpu { mems, ..LinuxCpu::default() });
        let resources = Some(LinuxResources { cpu, ..LinuxResources::default() });
        Some(ContainerAdjustment { linux: Some(LinuxContainerAdjustment { resources }) })
    }
}
