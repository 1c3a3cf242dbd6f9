//! One agent of the cluster writes the status of policies: what their agents report in the NodeMemoryLocalities of their
//! nodes, summed up, and the turns in which nodes have first runs. It holds a Lease for that. With a writer for each
//! node, a change of a policy would be a thousand writes of one object, each of which all agents are shown.
//!
//! | module | what it holds |
//! |---|---|
//! | `lease` | the Lease that one agent holds |
//! | `reports` | the reports of all nodes |
//! | `status` | the status of a policy, from the reports; pure |
//! | `turns` | the turns of nodes; pure |

mod lease;
mod reports;
mod status;
mod turns;

use crate::{
    clock,
    cluster::{
        api::{Api, ApiError, Form},
        watch::{Selection, follow},
    },
    health::Watch,
    known::{Known, PolicyFacts},
};
use lease::{Lease, RENEWAL};
use numaloc_policy::{GROUP, NODES_PLURAL, PolicyKind, PolicyStatus, VERSION};
use reports::Reports;
use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Time between two looks at a Lease that another agent holds, and the random time added to it.
const LOOK: Duration = Duration::from_secs(60);
/// Agents that see the first policy at the same time do not ask at the same time.
const SPREAD: Duration = Duration::from_secs(2);
/// Changes within this time are written together.
const TOGETHER: Duration = Duration::from_secs(1);
/// Shortest time between two writes of a policy's counts.
const COUNTS: Duration = Duration::from_secs(30);

/// Leads whenever it is this agent's turn, as long as there are policies.
pub async fn lead(api: &Api, known: &Known, node: &str) -> Infallible {
    let mut lease = Lease::new(api.namespace(), node);
    let mut said = None;
    loop {
        if known.policies().is_empty() {
            known.policies_changed().await;
            sleep(SPREAD.mul_f64(fastrand::f64())).await;
            continue;
        }
        match lease.hold(api).await {
            Ok(true) => {
                tracing::info!("this agent writes the status of policies, and gives turns");
                serve(api, known, &mut lease).await;
                tracing::info!("another agent may write the status of policies");
            }
            Ok(false) => {}
            Err(error) => log(&mut said, "the Lease of the agents", &error),
        }
        sleep(LOOK.mul_f64(1.0 + fastrand::f64())).await;
    }
}

/// Leads until the Lease is lost, or there are no policies any more.
async fn serve(api: &Api, known: &Known, lease: &mut Lease) {
    let reports = Arc::new(Reports::default());
    let nodes = Selection {
        path: format!("/apis/{GROUP}/{VERSION}/{NODES_PLURAL}"),
        fields: String::new(),
        form: Form::Whole,
        is_optional: true,
    };
    let health = Watch::new();
    tokio::select! {
        never = follow(api, &nodes, &*reports, &health) => match never {},
        () = keep(api, known, lease) => {}
        never = write(api, known, &reports) => match never {},
    }
}

/// Renews the Lease, until it is lost.
async fn keep(api: &Api, known: &Known, lease: &mut Lease) {
    let mut held = Instant::now();
    loop {
        sleep(RENEWAL).await;
        match lease.hold(api).await {
            Ok(true) => held = Instant::now(),
            Ok(false) => return,
            // Another agent may take it from then on.
            Err(_) if held.elapsed() + RENEWAL >= lease::DURATION => return,
            Err(_) => {}
        }
        if known.policies().is_empty() {
            return;
        }
    }
}

/// Writes what has changed.
async fn write(api: &Api, known: &Known, reports: &Reports) -> Infallible {
    let mut counted: BTreeMap<String, Instant> = BTreeMap::new();
    let mut said = None;
    loop {
        tokio::select! {
            () = known.policies_changed() => {}
            () = reports.changed() => {}
            () = sleep(COUNTS) => {}
        }
        sleep(TOGETHER).await;
        let Some(nodes) = reports.fresh(clock::now()) else { continue };
        let policies = known.policies();
        counted.retain(|uid, _| policies.iter().any(|(_, object, _)| object.uid == *uid));
        for (kind, object, policy) in policies {
            let status = status::status(&object, &policy, &nodes, clock::now());
            let last = counted.get(&object.uid);
            let is_due = last.is_none_or(|last| last.elapsed() >= COUNTS);
            if status == object.status || (status.is_as_urgent(&object.status) && !is_due) {
                continue;
            }
            match api.patch(&path(kind, &object), &patch(&object, &status)).await {
                Ok(()) => drop(counted.insert(object.uid.clone(), Instant::now())),
                // It has changed meanwhile, or has gone: what follows from that comes next.
                Err(error) if matches!(error.refused(), Some(404 | 409)) => {}
                Err(error) => log(&mut said, &format!("the status of {}", object.name), &error),
            }
        }
    }
}

fn path(kind: PolicyKind, object: &PolicyFacts) -> String {
    let namespace = match kind {
        PolicyKind::Namespaced => format!("namespaces/{}/", object.namespace),
        PolicyKind::Cluster => String::new(),
    };
    format!("/apis/{GROUP}/{VERSION}/{namespace}{}/{}/status", kind.plural(), object.name)
}

/// The patch of a status. It is refused if the object has changed since it was read.
fn patch(object: &PolicyFacts, status: &PolicyStatus) -> serde_json::Value {
    let PolicyFacts { uid, resource_version, .. } = object;
    serde_json::json!({
        "metadata": {"uid": uid, "resourceVersion": resource_version}, "status": status,
    })
}

/// Logs an error, unless it is the last one again.
fn log(said: &mut Option<String>, what: &str, error: &ApiError) {
    let why = format!("{what}: {error}. It is tried again");
    if said.as_ref() != Some(&why) {
        tracing::warn!("{why}");
        *said = Some(why);
    }
}
