//! Writes what waits in the outbox into the cluster.

mod refusals;

use crate::{
    budget::Budget,
    clock,
    cluster::api::{Api, ApiError, MANAGER, Refusal},
    config::Config,
    figures::Figures,
    locality::Slot,
    metrics::{Loss, Pending},
    outbox::{Outbox, Post, StatusPatch, Subject, Work},
};
use numaloc_policy::{
    GROUP, NODE_KIND, NODES_PLURAL, NodeLocality, OWN_STATUS_KEY, PolicyKind, STATUS_KEY, VERSION,
};
use refusals::Refusals;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::{Instant, sleep, sleep_until};

/// Waits between attempts: doubled each time.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(8);
/// Time for which a kind that is not defined is not retried.
const UNDEFINED: Duration = Duration::from_secs(600);
/// Longest name of an object.
const NAME_MAX: usize = 253;

/// Writes forever. A failed write is retried, and keeps its turn; a refused one is dropped, one for want of a right
/// only after some time, in which other namespaces are written to.
pub async fn write(config: &Config, node: &str, api: &Api, outbox: &Arc<Outbox>) -> Infallible {
    let begin = Instant::now();
    let mut posts = Budget::new(config.event_burst, config.event_interval, begin);
    let mut patches = Budget::new(config.status_burst, config.status_interval, begin);
    let (mut wait, mut refusals) = (FIRST, Refusals::default());
    let mut said = None;
    loop {
        let now = Instant::now();
        let (next_post, next_patch) = (posts.next(now), patches.next(now));
        let is_open = |work: &Work| refusals.is_open(&writes(work), now);
        let Some(work) = outbox.next(next_post <= now, next_patch <= now, is_open) else {
            // Something may wait for its turn.
            let Pending { events, statuses, .. } = outbox.counts();
            let turns = [
                Some(next_post).filter(|&next| events > 0 && next > now),
                Some(next_patch).filter(|&next| statuses > 0 && next > now),
                outbox.next_release(),
                refusals.next_open(now),
            ];
            let turn = turns.into_iter().flatten().min();
            tokio::select! {
                () = outbox.filled() => {}
                () = sleep_until(turn.unwrap_or(now)), if turn.is_some() => {}
            }
            continue;
        };
        let done = match &work {
            Work::Post(subject, post) => {
                let path = format!("/api/v1/namespaces/{}/events", subject.events_namespace());
                api.create(&path, &event(config, node, subject, post)).await
            }
            Work::Patch(subject, patch) => {
                let Subject { namespace, name, .. } = &**subject;
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
                api.patch(&path, &status(subject, patch)).await
            }
        };
        let pause = match &done {
            Err(ApiError::TooMuch(after)) => *after,
            Err(ApiError::Lost(_) | ApiError::Expired) => Duration::ZERO,
            Err(ApiError::Refused(refusal)) if is_conflict(&work, refusal) => Duration::ZERO,
            Err(ApiError::Refused(refusal)) if !refusals.is_final(&writes(&work), refusal, now) => {
                // Writes elsewhere need not wait for a right that is missing here.
                if refusal.code == 403 {
                    say(&mut said, &work, &ApiError::Refused(refusal.clone()), "tried again");
                    continue;
                }
                Duration::ZERO
            }
            Err(ApiError::Refused(_)) | Ok(()) => {
                match &work {
                    Work::Post(..) => posts.take(now),
                    Work::Patch(..) => patches.take(now),
                }
                if done.is_ok() {
                    refusals.taken(&writes(&work));
                }
                outbox.refused(refusals.problem());
                outbox.done(&work);
                wait = FIRST;
                // Posted already; or the pod has gone, or another one has its name.
                let is_expected = |code| matches!(code, 404 | 409);
                if let Err(error) = &done
                    && !error.refused().is_some_and(is_expected)
                {
                    if matches!(work, Work::Post(..)) {
                        outbox.lost(Loss::Refused);
                    }
                    say(&mut said, &work, error, "left");
                }
                continue;
            }
        };
        if let Err(error) = &done {
            say(&mut said, &work, error, "tried again");
        }
        sleep(pause + wait.mul_f64(1.0 + fastrand::f64())).await;
        wait = (2 * wait).min(LONGEST);
    }
}

/// Writes that are refused together: those of one kind to one namespace.
fn writes(work: &Work) -> String {
    match work {
        Work::Post(subject, _) => format!("events of {}", subject.events_namespace()),
        Work::Patch(subject, _) => format!("statuses of {}", subject.namespace),
    }
}

/// Whether a status met another change of its pod, more often than the API server tries it: it is tried again. Another
/// pod of the name is refused with the same code and names the precondition
/// (apiserver/pkg/storage, `Preconditions.Check`).
fn is_conflict(work: &Work, refusal: &Refusal) -> bool {
    matches!(work, Work::Patch(..)) && refusal.code == 409 && !refusal.message.contains("UID")
}

/// Writes the NodeMemoryLocality forever: changes at once, the rest in intervals. A cluster may do without the kind:
/// numalocd's figures are then not wanted for it, and it is tried again after a while.
pub async fn write_node(node: &str, api: &Api, slot: &Slot, figures: &Figures) -> Infallible {
    let path = format!("/apis/{GROUP}/{VERSION}/{NODES_PLURAL}/{node}");
    let empty = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": NODE_KIND, "metadata": {"name": node},
    });
    let mut written: Option<(NodeLocality, String, Instant)> = None;
    let mut said = None;
    let mut is_defined = false;
    loop {
        if !is_defined {
            is_defined = match api.try_apply(&path, &empty).await {
                Ok(()) => true,
                // The write itself reports any other error.
                Err(ApiError::Refused(refusal)) => refusal.code != 404,
                Err(_) => {
                    sleep(LONGEST).await;
                    continue;
                }
            };
            figures.define(is_defined);
            match is_defined {
                true => api.metrics().wants_report(),
                false => api.metrics().reported(false),
            }
            if !is_defined {
                sleep(UNDEFINED).await;
            }
            continue;
        }
        let (locality, uid) = slot.take().await;
        // With a node of the same name that was replaced the object has gone.
        let is_due = written
            .as_ref()
            .is_none_or(|(last, of, at)| *of != uid || locality.is_due(last, at.elapsed()));
        if !is_due {
            continue;
        }
        match api.apply(&path, &locality.object(node, &uid, clock::now())).await {
            Ok(()) => {
                api.metrics().reported(true);
                written = Some((locality, uid, Instant::now()));
            }
            Err(error) if error.refused() == Some(404) => is_defined = false,
            // The next one is newer: this one is not retried.
            Err(error) => {
                let why = error.to_string();
                if said.as_ref() != Some(&why) {
                    tracing::warn!("NodeMemoryLocality {node}: {why}");
                    said = Some(why);
                }
            }
        }
    }
}

/// Logs an error, unless it is the last one again.
fn say(said: &mut Option<String>, work: &Work, error: &ApiError, what: &str) {
    let why = error.to_string();
    if said.as_ref() != Some(&why) {
        let (subject, kind) = match work {
            Work::Post(subject, _) => (subject, "an event"),
            Work::Patch(subject, _) => (subject, "the status"),
        };
        let Subject { namespace, name, .. } = &**subject;
        tracing::warn!("{kind} of {namespace}/{name}: {why}. It is {what}");
        *said = Some(why);
    }
}

/// The patch of a pod's annotations. It is refused if another pod has the name by now.
fn status(subject: &Subject, patch: &StatusPatch) -> Value {
    let mut annotations = json!({ OWN_STATUS_KEY: patch.own });
    if let Some(status) = &patch.status {
        annotations[STATUS_KEY] = status.clone().into();
    }
    json!({"metadata": {"uid": subject.api_uid, "annotations": annotations}})
}

/// An event of core/v1. events.k8s.io/v1 bounds the message, and forbids the component.
fn event(config: &Config, node: &str, subject: &Subject, post: &Post) -> Value {
    let Subject { kind, namespace, name, uid, .. } = subject;
    let time = numaloc_api::timestamp(post.at.unwrap_or_else(SystemTime::now));
    let time = prost_types::Timestamp { nanos: 0, ..time }.to_string();
    let is_of_contract = post.event.reason.is_of_contract(post.event.kind);
    let component = if is_of_contract { config.event_component.as_str() } else { MANAGER };
    let is_policy = PolicyKind::ALL.iter().any(|policy| policy.name() == *kind);
    let api_version = if is_policy { format!("{GROUP}/{VERSION}") } else { "v1".to_owned() };
    // The name of an object of Kubernetes is ASCII.
    let prefix: String = name.chars().take(NAME_MAX - 1 - post.id.len()).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{prefix}.{}", post.id), "namespace": subject.events_namespace()},
        "involvedObject": {
            "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid,
        },
        "type": post.event.kind.name(),
        "reason": post.event.reason.name(),
        "message": post.event.message,
        "source": {"component": component, "host": node},
        "reportingComponent": MANAGER,
        "reportingInstance": node,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    })
}

#[cfg(test)]
mod tests;
