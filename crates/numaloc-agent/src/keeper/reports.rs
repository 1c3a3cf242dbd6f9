//! Results and problems that the keeper takes in, and its reports about them.

use super::{Keeper, KeptPod, QUIET, TOGETHER, standing};
use crate::{
    known::PodKey,
    outbox::{Post, Report, Subject},
    results::Standing,
    wanted::WantedContainer,
};
use numaloc_api::v1;
use numaloc_node::{Daemon, Events, Records, hash, is_lost};
use numaloc_policy::{EventKind, EventReason, PodEvent};
use tokio::time::{Instant, timeout};
use tokio_stream::StreamExt;
use tonic::Status;

impl<D: Daemon> Keeper<D> {
    /// Takes the events that numalocd has stored, and then reports their meaning.
    pub(super) async fn take_stored(&mut self, events: &mut Events) -> Result<(), Status> {
        while let Ok(event) = timeout(QUIET, events.next()).await {
            let event = event.ok_or_else(|| Status::unavailable("the events have ended"))??;
            self.results.take(event);
        }
        self.take_unseen().await?;
        self.say_all(|_, _| Standing::Unknown);
        Ok(())
    }

    /// Takes the ends of runs whose events are not stored any more: the agent was away too long.
    pub(super) async fn take_unseen(&mut self) -> Result<(), Status> {
        let me = self.records.me().to_owned();
        let schedules = self.records.daemon().schedules(me).await?.into_iter();
        for schedule in schedules.filter(|of| self.of_schedule.contains_key(&of.name)) {
            if schedule.state() == v1::ScheduleState::Active {
                self.results.begin([schedule.name.clone()].into());
            }
            if !self.results.is_unseen(&schedule) {
                continue;
            }
            match self.records.daemon().job(schedule.last_job.clone()).await {
                Ok(job) => self.results.take_last(&schedule, job),
                Err(status) if is_lost(&status) => return Err(status),
                Err(status) => tracing::warn!("{}: {}", schedule.last_job, status.message()),
            }
        }
        Ok(())
    }

    pub(super) fn happened(
        &mut self,
        event: Option<Result<v1::Event, Status>>,
    ) -> Result<(), Status> {
        let event = event.ok_or_else(|| Status::unavailable("the events have ended"))??;
        let is_end = matches!(
            event.r#type(),
            v1::EventType::Completed | v1::EventType::Skipped | v1::EventType::Failed
        );
        let schedule = self.results.take(event);
        if let Some(name) = schedule.as_ref().filter(|_| is_end)
            && let Some(pod) = self.of_schedule.get(name).and_then(|key| self.pods.get(key))
            && let Some(end) = self.results.end(name)
        {
            self.metrics.ran(&pod.facts.pod.namespace, end);
        }
        if let Some(key) = schedule.and_then(|schedule| self.of_schedule.get(&schedule)).cloned() {
            self.run_ended(&key);
            self.ended.insert(key);
            self.say_at.get_or_insert_with(|| Instant::now() + TOGETHER);
        }
        Ok(())
    }

    pub(super) fn say_ended(&mut self) {
        self.say_at = None;
        for key in std::mem::take(&mut self.ended) {
            self.say(&key);
        }
    }

    /// Reports the ends of runs that wait for other containers which may never have one.
    pub(super) async fn say_overdue(&mut self) -> Result<(), Status> {
        let now = Instant::now();
        let is_overdue = |pod: &KeptPod| pod.told.is_overdue(now);
        let overdue: Vec<PodKey> = self
            .pods
            .iter()
            .filter(|(_, pod)| is_overdue(pod))
            .map(|(key, _)| key.clone())
            .collect();
        if overdue.is_empty() {
            return Ok(());
        }
        let me = self.records.me().to_owned();
        let schedules = self.records.daemon().schedules(me).await?.into_iter();
        let active = schedules.filter(|of| of.state() == v1::ScheduleState::Active);
        self.results.active(active.map(|schedule| schedule.name).collect());
        overdue.iter().for_each(|key| self.say(key));
        Ok(())
    }

    /// Puts the reports about all pods into the outbox.
    pub(super) fn say_all(&mut self, standing: impl Fn(&Records<D>, &WantedContainer) -> Standing) {
        for pod in self.pods.values_mut() {
            pod.say(&self.results, |of| standing(&self.records, of), &self.outbox);
        }
    }

    /// Puts the report about a pod into the outbox.
    pub(super) fn say(&mut self, key: &str) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.say(&self.results, |of| standing(&self.records, of), &self.outbox);
        }
    }

    /// Reports ConfigMaps and policies that cannot be parsed. All nodes use the same name, so it is one event.
    pub(super) fn say_sources(&mut self) {
        if self.problems == self.sources.problems() {
            return;
        }
        self.problems = self.sources.problems().to_vec();
        for problem in &self.problems {
            tracing::warn!("{}", problem.message);
            let subject = Subject {
                kind: problem.kind,
                namespace: problem.namespace.clone(),
                name: problem.name.clone(),
                uid: problem.uid.clone(),
                api_uid: String::new(),
            };
            let message = problem.message.clone();
            let id = hash(&[&problem.uid, &message]);
            let event = PodEvent { kind: EventKind::Warning, reason: EventReason::Failed, message };
            let posts = vec![Post { id, event, at: None }];
            self.outbox.push(subject, Report { posts, patch: None });
        }
    }
}
