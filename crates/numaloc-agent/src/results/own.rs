//! Our own status of a pod: the decisions about it, the problems of its policies, and their events.

use super::{Report, Results, Run, Standing, Told, seconds};
use crate::{
    facts::Facts,
    outbox::Post,
    wanted::{WantedContainer, WantedPod},
};
use numaloc_api::value::MemberResult;
use numaloc_config::written::{ERROR_MAX, SHOWN_MAX, shown};
use numaloc_node::hash;
use numaloc_policy::{
    ContainerStatus, EventKind, EventReason, OwnStatus, PastRun, Phase, PodEvent, PodResult,
    PodStatus, Verdict, written_time,
};
use std::time::SystemTime;

/// The status of a pod whose policy was switched off, if it had one.
pub(super) fn closed(wanted: &WantedPod, told: &Told) -> Option<PodStatus> {
    let phase = told.phase.filter(|&phase| wanted.is_off && phase != Phase::Closed)?;
    PodStatus::closed(Some(PodStatus { phase, last: told.last.clone() }))
}

/// The event for a container that numalocd refuses, or whose run is held back.
pub(super) fn not_done((container, standing): (&WantedContainer, Standing)) -> Option<PodEvent> {
    let name = shown(&container.name, SHOWN_MAX);
    match standing {
        Standing::Refused(why) => {
            let why = shown(&why, ERROR_MAX);
            let message = format!("Container {name}: {why}; it is tried again each minute");
            Some(PodEvent { kind: EventKind::Warning, reason: EventReason::Failed, message })
        }
        Standing::Held { .. } => {
            let least = container.records.bounds.min_interval;
            let message = format!(
                "Container {name}: the run that is asked for begins {least:?} after the last one was asked for; the operator of the node has \
                 set this bound"
            );
            Some(PodEvent { kind: EventKind::Normal, reason: EventReason::Bounded, message })
        }
        Standing::Unknown | Standing::Scheduled | Standing::Unscheduled => None,
    }
}

/// Our own status annotation and the events for it, if the decisions or problems of the pod's policies have changed.
pub(super) fn own_status(
    facts: &Facts,
    wanted: &WantedPod,
    events: Vec<PodEvent>,
    results: &Results,
    told: &Told,
    report: &mut Report,
    now: SystemTime,
) -> Option<OwnStatus> {
    let id = |event: &PodEvent| hash(&[&facts.pod.uid, event.reason.name(), &event.message]);
    let said: Vec<String> = events.iter().map(id).collect();
    let problems = events.iter().map(|event| event.message.clone()).collect();
    // A mistake that is made again has another event: the API server keeps the first one for an hour.
    let minute = (seconds(now) / 60).to_string();
    for (event, id) in events.into_iter().zip(&said) {
        if !told.own.said.contains(id) {
            report.posts.push(Post { id: hash(&[id, &minute]), event, at: None });
        }
    }
    let own = OwnStatus { problems, ..with_results(wanted, results, said) };
    let is_new = (&own.said, &own.stands_back) != (&told.own.said, &told.own.stands_back);
    is_new.then_some(own)
}

pub(super) fn with_results(wanted: &WantedPod, results: &Results, said: Vec<String>) -> OwnStatus {
    let one = |container: &WantedContainer| ContainerStatus {
        name: container.name.clone(),
        source: container.decided_by.clone(),
        result: results.of(container).map(|run| run.message.clone()),
        job: results.of(container).map(|run| run.job.clone()).unwrap_or_default(),
        ended: results.of(container).map(|run| written_time(run.at)).unwrap_or_default(),
    };
    let containers = wanted.containers.iter().map(one).collect();
    let stands_back = wanted.other.clone();
    OwnStatus { containers, stands_back, said, ..OwnStatus::default() }
}

/// Bytes that were moved for these members of a target.
pub(super) fn moved(members: &[MemberResult]) -> u64 {
    members.iter().map(|member| member.account.moved_bytes()).sum()
}

/// The ends of those of these runs that the status does not have yet, as one.
pub(super) fn past(runs: &[&Run], told: &Told) -> Option<PastRun> {
    let is_new = |run: &&&Run| match (&told.jobs, &told.last) {
        (Some(jobs), _) => !jobs.contains(&run.key()),
        (None, Some(last)) => seconds(run.at) > seconds(last.completed),
        (None, None) => true,
    };
    let new: Vec<&Run> = runs.iter().filter(is_new).copied().collect();
    let ended = new.iter().map(|run| run.at).max()?;
    let containers = new.iter().map(|run| run.result.clone()).collect();
    let result = PodResult { containers, repeats: false };
    // One reason: that of a container that has not got all that it asked for goes first.
    let is_whole = |run: &&&Run| matches!(run.result.verdict, Verdict::Completed { .. });
    let told = new.iter().find(|run| !is_whole(run)).or(new.first())?;
    let message = match new.len() {
        1 => told.message.clone(),
        _ => format!("{}: {}", told.result.name, told.message),
    };
    Some(PastRun {
        ended: written_time(ended),
        result: result.reason().name().to_owned(),
        moved_bytes: new.iter().map(|run| run.moved_bytes).sum(),
        remote_bytes: result.remote_bytes(),
        message,
    })
}

/// The event for a container whose memory another program moves back.
pub(super) fn contested(container: &WantedContainer, results: &Results) -> Option<PodEvent> {
    let why = results.contest(&container.schedule()?)?;
    let (name, why) = (shown(&container.name, SHOWN_MAX), shown(why, ERROR_MAX));
    let message = format!("Container {name}: {why}");
    Some(PodEvent { kind: EventKind::Warning, reason: EventReason::Conflict, message })
}
