//! Jobs as documents.

use super::{
    account::{account, pair},
    fields::{amount, seconds, text, time},
    locality::process,
    member::members,
    plan::{flows, plan},
    spec::{spec, target},
};
use crate::{
    doc::{
        CallsDoc, End, JobDoc, LocalityPair, MigrationDoc, MissingDoc, MovedDoc, PartnerDoc,
        ProgressDoc, rate,
    },
    job_state::JobState,
};
use numaloc_api::{Known, v1};
use numaloc_core::{CacheStop, OffloadUse, Topology};

/// A document from a message. `topology` has the distances for the plan.
pub fn job(message: &v1::Job, topology: &Topology) -> JobDoc {
    let state = state(message.state());
    let policy = message.spec.as_ref().and_then(|spec| spec.policy.clone()).unwrap_or_default();
    JobDoc {
        name: message.name.clone(),
        state,
        state_message: text(&message.state_message),
        spec: spec(message.spec.as_ref()),
        labels: message.labels.clone(),
        members: members(&message.members),
        more_members: amount(message.more_members.into()),
        schedule: text(&message.schedule),
        creator: message.creator.clone(),
        request_id: text(&message.request_id),
        create_time: time(message.create_time),
        start_time: time(message.start_time),
        end_time: time(message.end_time),
        progress: message.progress.as_ref().map(progress),
        plan: message.plan.as_ref().map(|message| plan(message, &policy, topology)),
        outcome: state.is_end().then(|| migration(message)),
    }
}

/// A state from its number in the API.
pub fn state(state: v1::JobState) -> JobState {
    match state {
        v1::JobState::Unspecified => JobState::Unknown,
        v1::JobState::Queued => JobState::Queued,
        v1::JobState::Planning => JobState::Planning,
        v1::JobState::Running => JobState::Running,
        v1::JobState::Paused => JobState::Paused,
        v1::JobState::Succeeded => JobState::Succeeded,
        v1::JobState::Partial => JobState::Partial,
        v1::JobState::Skipped => JobState::Skipped,
        v1::JobState::Failed => JobState::Failed,
        v1::JobState::Cancelled => JobState::Cancelled,
        v1::JobState::Interrupted => JobState::Interrupted,
        v1::JobState::Suspended => JobState::Suspended,
    }
}

fn progress(message: &v1::JobProgress) -> ProgressDoc {
    ProgressDoc {
        planned_bytes: amount(message.planned_bytes),
        moved_bytes: amount(message.moved_bytes),
        settled_bytes: amount(message.settled_bytes),
        held_back: text(&message.held_back),
        update_time: time(message.update_time),
    }
}

/// The result of a job that has ended.
pub fn migration(job: &v1::Job) -> MigrationDoc {
    let outcome = job.outcome.clone().unwrap_or_default();
    let account = account(outcome.account.as_ref());
    let elapsed_seconds = seconds(outcome.elapsed);
    let members = members(&job.members);
    let planned = job.plan.iter().flat_map(|plan| &plan.processes).map(process);
    MigrationDoc {
        result: end(job),
        job: text(&job.name),
        message: text(&job.state_message),
        elapsed_seconds,
        rate_bytes_per_second: rate(account.moved_bytes, elapsed_seconds),
        flows: flows(&outcome.flows),
        cache_flows: flows(&outcome.cache_flows),
        missing: members.iter().filter_map(MissingDoc::of).collect(),
        members,
        processes: outcome.processes.iter().map(moved).collect(),
        skipped: planned.filter(|process| process.skip.is_some()).collect(),
        partners: outcome.partners.iter().map(partner).collect(),
        calls: calls(outcome.calls.as_ref()),
        offload: outcome.offload.clone().map(|message| (&OffloadUse::from(message)).into()),
        returned_bytes: outcome.returned_bytes.map(amount),
        before: before(job),
        after: pair(outcome.movable_after.as_ref(), outcome.overall_after.as_ref()),
        account,
    }
}

fn end(job: &v1::Job) -> End {
    let outcome = job.outcome.clone().unwrap_or_default();
    let account = outcome.account.unwrap_or_default();
    let out_of_time =
        |left: &v1::LeftBytes| left.reason() == v1::LeftReason::OutOfTime && left.bytes > 0;
    let skips = |plan: &v1::Plan| plan.processes.iter().all(|each| each.skip != 0);
    match job.state() {
        v1::JobState::Succeeded if account.found_bytes == 0 => End::NothingToMove,
        v1::JobState::Succeeded => End::Done,
        v1::JobState::Partial if account.left.iter().any(out_of_time) => End::TimedOut,
        v1::JobState::Partial => End::PartlyMoved,
        v1::JobState::Skipped if job.plan.as_ref().is_none_or(skips) => End::Skipped,
        v1::JobState::Skipped => End::NothingToMove,
        v1::JobState::Cancelled => End::Cancelled,
        v1::JobState::Interrupted => End::Interrupted,
        _ => End::Failed,
    }
}

/// Locality before, from the outcome, or else from the plan.
fn before(job: &v1::Job) -> Option<LocalityPair> {
    let by_outcome = job
        .outcome
        .as_ref()
        .and_then(|outcome| pair(outcome.movable_before.as_ref(), outcome.overall_before.as_ref()));
    by_outcome.or_else(|| {
        let plan = job.plan.as_ref()?;
        pair(plan.movable_before.as_ref(), plan.overall_before.as_ref())
    })
}

fn moved(message: &v1::ProcessOutcome) -> MovedDoc {
    let identity = message.process.unwrap_or_default();
    MovedDoc {
        pid: identity.pid,
        start_time_ticks: amount(identity.start_time_ticks),
        comm: message.comm.clone(),
        account: account(message.account.as_ref()),
        error: text(&message.error),
    }
}

fn partner(message: &v1::ExchangePartner) -> PartnerDoc {
    PartnerDoc {
        member: target(message.member.as_ref()),
        process_count: amount(message.process_count.into()),
        account: account(message.account.as_ref()),
        flows: flows(&message.flows),
        error: text(&message.error),
    }
}

fn calls(message: Option<&v1::CallStats>) -> CallsDoc {
    let Some(message) = message else { return CallsDoc::default() };
    CallsDoc {
        calls: amount(message.calls),
        addresses: amount(message.addresses),
        retried_addresses: amount(message.retried_addresses),
        hinted_addresses: amount(message.hinted_addresses),
        longest_seconds: seconds(message.longest),
        total_seconds: seconds(message.total),
        over_stall: amount(message.over_stall),
        rested_seconds: seconds(message.rested),
        held_back_seconds: seconds(message.held_back),
        huge_page_wait_seconds: seconds(message.huge_page_wait),
        split_huge_pages: amount(message.split_huge_pages),
        failed_pages: amount(message.failed_pages),
        cache_bytes: amount(message.cache_bytes),
        // One that only a newer daemon knows is left out.
        cache_stop: CacheStop::known(message.cache_stop).flatten(),
        reclaims: amount(message.reclaims),
        compactions: amount(message.compactions),
        compaction_wait_seconds: seconds(message.compaction_wait),
        exchanged_bytes: amount(message.exchanged_bytes),
    }
}
