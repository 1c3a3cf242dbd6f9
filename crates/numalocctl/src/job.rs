//! Ends of jobs, by the API's message. A migration without the daemon ends as a job, too: one without a name.

use crate::{
    exit::Code,
    fields::{amount, word},
};
use numaloc_api::{Known, v1, value::JobState};
use v1::LeftReason::OutOfTime;

/// Whether a job in this state has ended.
pub fn is_end(state: v1::JobState) -> bool {
    JobState::known(state.into()).flatten().is_some_and(JobState::is_end)
}

pub fn state(job: &v1::Job) -> String {
    word(job.state().as_str_name(), "JOB_STATE_")
}

/// Progress of a job in this state, for people: in percent while it moves.
pub fn progressed(state: v1::JobState, progress: Option<&v1::JobProgress>) -> String {
    match (state, progress) {
        (v1::JobState::Running, Some(progress)) => {
            let planned_bytes = amount(progress.planned_bytes).max(1);
            format!("{} %", amount(progress.settled_bytes) * 100 / planned_bytes)
        }
        _ => word(state.as_str_name(), "JOB_STATE_"),
    }
}

/// The end of a job, in more detail than its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All memory that was to be moved is local.
    Done,
    /// There was nothing to move.
    NothingToMove,
    /// No process could be moved; each has its reason.
    Skipped,
    /// Some of the memory that was to be moved is still remote.
    PartlyMoved,
    Cancelled,
    TimedOut,
    /// It could not be carried out.
    Failed,
    /// The daemon stopped or died while it was running.
    Interrupted,
}

impl End {
    /// The end of a job that has ended.
    pub fn of(job: &v1::Job) -> Self {
        let account = job.outcome.as_ref().and_then(|outcome| outcome.account.as_ref());
        let is_found = account.is_some_and(|account| account.found_bytes > 0);
        let mut left = account.iter().flat_map(|account| &account.left);
        let skips = |plan: &v1::Plan| plan.processes.iter().all(|each| each.skip != 0);
        match job.state() {
            v1::JobState::Succeeded if !is_found => Self::NothingToMove,
            v1::JobState::Succeeded => Self::Done,
            v1::JobState::Partial
                if left.any(|left| left.reason() == OutOfTime && left.bytes > 0) =>
            {
                Self::TimedOut
            }
            v1::JobState::Partial => Self::PartlyMoved,
            v1::JobState::Skipped if job.plan.as_ref().is_none_or(skips) => Self::Skipped,
            v1::JobState::Skipped => Self::NothingToMove,
            v1::JobState::Cancelled => Self::Cancelled,
            v1::JobState::Interrupted => Self::Interrupted,
            _ => Self::Failed,
        }
    }

    /// The exit code for this end.
    pub fn code(self) -> Code {
        match self {
            Self::Done | Self::NothingToMove | Self::Skipped => Code::Done,
            Self::PartlyMoved | Self::Cancelled => Code::Partly,
            Self::TimedOut => Code::TimedOut,
            Self::Failed | Self::Interrupted => Code::Failure,
        }
    }
}

/// The exit code of a migration. Members that were left out count as not done, however the rest ended.
pub fn code(job: &v1::Job) -> Code {
    match End::of(job).code() {
        Code::Done => Code::left_out(&left_out(job)),
        code => code,
    }
}

/// Members left out of a job's target.
pub fn left_out(job: &v1::Job) -> Vec<v1::MissingMember> {
    let one = |member: &v1::MemberResult| {
        let whole = matches!(member.state(), v1::MemberState::Missing | v1::MemberState::Refused);
        let process_count = if whole { 0 } else { member.unreadable_process_count };
        let (reason, member) = (member.reason.clone(), member.member.clone());
        (whole || process_count > 0).then_some(v1::MissingMember { member, reason, process_count })
    };
    job.members.iter().filter_map(one).collect()
}
