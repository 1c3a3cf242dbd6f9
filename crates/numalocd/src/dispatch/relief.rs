//! Schedules that relieve a node: whether memory has to leave it, or may come back.
//!
//! A schedule is looked at when it is due; if it wants free memory, also when the kernel reports memory pressure. Only its node is
//! looked at; a job is made if there is something to do.

use super::{
    dispatcher::Dispatcher,
    relieved::{Away, ReliefStep, ReliefTimes, after_run, moved},
};
use crate::{refusal::Refusal, store::Write};
use numaloc_api::value::{Job, MigrationSpec, QosClass, Schedule, ScheduleId, ScheduleState};
use numaloc_core::{NodeId, NodeSet, NodeUse, Options, Relief, ReliefBound};
use std::{collections::BTreeMap, sync::Arc};
use tokio::time::Instant;

/// The relief by which memory leaves a node.
fn relief_of(spec: &MigrationSpec) -> Option<&Relief> {
    spec.policy.options.relief.as_ref().filter(|relief| relief.returning_bytes.is_none())
}

impl Dispatcher {
    /// Nodes that schedules relieve, each with one of these schedules; without `own`.
    fn relieved_nodes(&self, own: Option<&ScheduleId>) -> BTreeMap<NodeId, &ScheduleId> {
        let others = self.records.schedules().values().filter(|it| Some(&it.id) != own);
        let others = others.filter(|it| it.state != ScheduleState::Completed);
        let node = |it: &Schedule| relief_of(&it.spec.migration).map(|relief| relief.node);
        others.filter_map(|it| Some((node(it)?, &it.id))).collect()
    }

    /// Refuses to relieve a node by memory that goes to a node that is relieved itself, or by memory of work that is not
    /// best effort. `own`: the schedule that has the migration.
    pub(super) fn check_relief(
        &self,
        spec: &MigrationSpec,
        own: Option<&ScheduleId>,
    ) -> Result<(), Refusal> {
        let Some(relief) = relief_of(spec) else { return Ok(()) };
        let node = relief.node;
        let named = spec.policy.options.to.clone().unwrap_or_default();
        let relieved = self.relieved_nodes(own);
        if let Some((other, id)) = relieved.iter().find(|(other, _)| named.contains(**other)) {
            let message = format!(
                "cannot relieve node {node} by memory that goes to node {other}: {id} relieves that node itself; leave it out"
            );
            return Err(Refusal::HostCannot { message });
        }
        let schedules = self.records.schedules().values().filter(|it| Some(&it.id) != own);
        for other in schedules.filter(|it| it.state != ScheduleState::Completed) {
            let options = &other.spec.migration.policy.options;
            let is_target = options.to.as_ref().is_some_and(|to| to.contains(node));
            if own.is_some() && relief_of(&other.spec.migration).is_some() && is_target {
                let message = format!(
                    "cannot relieve node {node}: memory goes there by {}, which relieves another node; change one of them",
                    other.id
                );
                return Err(Refusal::HostCannot { message });
            }
        }
        let class = self.select(&spec.target, None, None).ok().and_then(|found| found.qos_class);
        match class.filter(|class| *class < QosClass::Be) {
            Some(class) => {
                let message = format!(
                    "cannot relieve node {node} by memory of {}: work of class {} is registered there, and only best-effort work makes \
                     room; leave it out",
                    spec.target,
                    class.name()
                );
                Err(Refusal::NotPermitted { message })
            }
            None => Ok(()),
        }
    }

    /// The options of a migration; a relief spares nodes that schedules relieve, unless it names its nodes.
    pub(super) fn sparing(&self, options: &Options, own: Option<&ScheduleId>) -> Options {
        let mut options = options.clone();
        if let Some(relief) = &mut options.relief {
            let nodes: NodeSet = self.relieved_nodes(own).into_keys().collect();
            relief.spared = nodes.minus(&[relief.node].into_iter().collect());
        }
        options
    }

    /// What a schedule does whose node is in this state; `None`: it relieves none, or runs once.
    pub(super) fn relief_step(&self, known: &Schedule, node: NodeUse) -> Option<ReliefStep> {
        let relief = relief_of(&known.spec.migration).filter(|_| !known.spec.interval.is_zero())?;
        let number = known.id.number()?;
        let times = self.agenda.relief(number);
        Some(times.step(relief, node, &known.relieved, Instant::now()))
    }

    /// Has a schedule wait for its next look. The record changes only with the message.
    pub(super) fn rest(&mut self, known: &Schedule, node: NodeUse) -> Result<(), Refusal> {
        let Some(relief) = relief_of(&known.spec.migration) else { return Ok(()) };
        let id = relief.node;
        let is_unknown = relief.measures_traffic() && node.traffic.is_none();
        let state_message = match (relief.is_needed(node), relief.bound) {
            (true, ReliefBound::Free { .. }) => {
                format!("node {id} lacks memory, and the last run could move none")
            }
            (true, ReliefBound::Traffic { .. }) => {
                format!("memory of node {id} is used too much, and the last run could move none")
            }
            (false, _) if is_unknown => format!("nothing counts how much node {id} is used"),
            (false, _) => relief.within_bound(),
        };
        if known.state_message != state_message || known.state != ScheduleState::Waiting {
            let state = ScheduleState::Waiting;
            let schedule =
                Schedule { state, state_message, next_run: None, gone: None, ..known.clone() };
            self.commit(vec![Write::Schedule(Arc::new(schedule))])?;
        }
        self.set_due(&known.id, Some(Instant::now() + known.spec.interval));
        Ok(())
    }

    /// A schedule with what its last job has moved away from the node that it relieves, or back.
    pub(super) fn relieved(&self, known: Schedule, job: &Job) -> Schedule {
        let Some((relief, moved)) = moved_by(job) else { return known };
        let relieved = after_run(&known.relieved, relief, &moved);
        let relieved_at = if moved.is_empty() { known.relieved_at } else { Some(self.wall()) };
        let relieved_at = relieved_at.filter(|_| !relieved.is_empty());
        Schedule { relieved, relieved_at, ..known }
    }

    /// Notes that a job of a schedule has moved memory away from the node that it relieves, or back.
    pub(super) fn note_relief(&mut self, job: &Job) {
        let Some((relief, moved)) = moved_by(job) else { return };
        let known = job.schedule.as_ref().and_then(|id| self.records.schedule(id));
        let Some(number) = known.and_then(|known| known.id.number()) else { return };
        let mut times = self.agenda.relief(number);
        times.ran(relief, !moved.is_empty(), Instant::now());
        self.agenda.set_relief(number, times);
    }

    /// Notes when memory that a schedule has moved away may come back, by its record.
    pub(super) fn recall_relief(&mut self, number: u64) {
        let Some(known) = self.records.schedules().get(&number) else { return };
        let relief = relief_of(&known.spec.migration);
        if let Some((relief, at)) = relief.zip(known.relieved_at) {
            let ago = self.wall().duration_since(at).unwrap_or_default();
            self.agenda.set_relief(number, ReliefTimes::of(relief, ago, Instant::now()));
        }
    }

    /// Whether a schedule that keeps memory of a node free waits for its next look.
    pub(super) fn awaits_pressure(&self) -> bool {
        self.records.schedules().values().any(|schedule| awaits(schedule))
    }

    /// The kernel reports memory pressure: has each schedule that keeps memory of a node free look at once.
    pub(super) fn on_pressure(&mut self) {
        let waiting = self.records.schedules().values().filter(|schedule| awaits(schedule));
        let waiting: Vec<ScheduleId> = waiting.map(|schedule| schedule.id.clone()).collect();
        for id in waiting {
            // A schedule that is probed at this moment is not due, and its answer sets it again.
            if id.number().is_some_and(|number| self.agenda.due(number).is_some()) {
                self.set_due(&id, Some(Instant::now()));
            }
        }
    }
}

/// The relief that a job was for, and what it has moved; `None`: it relieved no node.
fn moved_by(job: &Job) -> Option<(&Relief, Away)> {
    let relief = job.spec.policy.options.relief.as_ref()?;
    let flows = job.outcome.as_ref().map(|outcome| &outcome.flows);
    Some((relief, flows.map(|flows| moved(relief, flows)).unwrap_or_default()))
}

fn awaits(schedule: &Schedule) -> bool {
    let relief = relief_of(&schedule.spec.migration);
    schedule.state == ScheduleState::Waiting && relief.is_some_and(|it| !it.measures_traffic())
}
