//! The result of a migration.

use super::account::AccountDoc;
use super::locality::ProcessDoc;
use super::member::MemberDoc;
use super::missing::MissingDoc;
use super::offload::OffloadDoc;
use super::partner::PartnerDoc;
use super::parts::{FlowDoc, LocalityPair, flows};
use crate::exit::Code;
use numaloc_api::value::{Missing, Partner};
use numaloc_core::{CacheStop, LATE, Locality, OffloadUse, Plan, Reason};
use numaloc_executor::{CallStats, Outcome, ProcessOutcome};
use serde::{Serialize, Serializer};

/// How a migration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All memory that was to be moved is local.
    Done,
    /// There was nothing to move.
    NothingToMove,
    /// Every process was skipped.
    Skipped,
    /// Some of the memory that was to be moved is still remote.
    PartlyMoved,
    /// It was cancelled.
    Cancelled,
    /// The time limit was reached.
    TimedOut,
    /// It could not be carried out.
    Failed,
    /// The daemon stopped or died while it was running.
    Interrupted,
}

/// By its stable name.
fn stop_name<S: Serializer>(stop: &Option<CacheStop>, serializer: S) -> Result<S::Ok, S::Error> {
    stop.map(CacheStop::name).serialize(serializer)
}

impl End {
    /// The exit code for this end.
    pub fn code(self) -> Code {
        match self {
            Self::Done | Self::NothingToMove | Self::Skipped => Code::Done,
            Self::PartlyMoved | Self::Cancelled => Code::Partly,
            Self::TimedOut => Code::TimedOut,
            Self::Failed | Self::Interrupted => Code::Failure,
        }
    }

    fn of(plan: &Plan, outcome: &Outcome, late_bytes: u64) -> Self {
        let account = outcome.account();
        match () {
            () if plan.is_skipped() => Self::Skipped,
            () if account.left_for(Reason::OutOfTime) > 0 => Self::TimedOut,
            () if outcome.cancelled => Self::Cancelled,
            () if outcome.is_partial() => Self::PartlyMoved,
            () if plan.moves.is_empty() => Self::NothingToMove,
            () if late_bytes > 0 => Self::PartlyMoved,
            () => Self::Done,
        }
    }
}

/// What `migrate` shows.
#[derive(Clone, Debug, Serialize)]
pub struct MigrationDoc {
    /// How it ended.
    pub result: End,
    /// The daemon's job; null without the daemon.
    pub job: Option<String>,
    /// A message about its end, in addition to the account.
    pub message: Option<String>,
    /// Wall time of the move.
    pub elapsed_seconds: f64,
    /// Moved bytes, divided by that time.
    pub rate_bytes_per_second: u64,
    /// All processes' accounts together.
    #[serde(flatten)]
    pub account: AccountDoc,
    /// Moved bytes by source and target.
    pub flows: Vec<FlowDoc>,
    /// Page cache that went to other nodes to make room, by source and target.
    pub cache_flows: Vec<FlowDoc>,
    /// Each member of the target; none without the daemon.
    pub members: Vec<MemberDoc>,
    /// Each process.
    pub processes: Vec<MovedDoc>,
    /// Processes that were skipped.
    pub skipped: Vec<ProcessDoc>,
    /// Those whose memory was moved to make room on a target.
    pub partners: Vec<PartnerDoc>,
    /// System calls.
    pub calls: CallsDoc,
    /// What became of copying by a DMA engine; null if the daemon that carried it out is too old to say.
    pub offload: Option<OffloadDoc>,
    /// Of the bytes that the last run of the same schedule had moved: how many this run found remote again, estimated from
    /// a sample; null if there is no sample.
    pub returned_bytes: Option<u64>,
    /// Locality before; null if the daemon could not look at the target.
    pub before: Option<LocalityPair>,
    /// Locality in a second look afterwards; null if that was not possible.
    pub after: Option<LocalityPair>,
    /// What of the target is left out: none of the numbers include it.
    pub missing: Vec<MissingDoc>,
}

/// One process's part of the result.
#[derive(Clone, Debug, Serialize)]
pub struct MovedDoc {
    /// Its pid.
    pub pid: i32,
    /// Its start, in clock ticks after boot.
    pub start_time_ticks: u64,
    /// Its name.
    pub comm: String,
    /// Its bytes.
    #[serde(flatten)]
    pub account: AccountDoc,
    /// The error of the kernel that kept numaloc from moving or seeing its memory; null if there was none.
    pub error: Option<String>,
}

/// The move_pages(2) calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CallsDoc {
    /// Number of calls.
    pub calls: u64,
    /// Addresses passed, one per folio.
    pub addresses: u64,
    /// Addresses among these that were passed again after a failure.
    pub retried_addresses: u64,
    /// Pages whose NUMA-hint fault had to be taken first.
    pub hinted_addresses: u64,
    /// Duration of the longest call.
    pub longest_seconds: f64,
    /// Duration of all calls together.
    pub total_seconds: f64,
    /// Calls that took longer than the longest stall that was asked for.
    pub over_stall: u64,
    /// Time that the threads rested as the profile requires, summed over threads.
    pub rested_seconds: f64,
    /// Further time that the threads waited for the sake of others, summed over threads.
    pub held_back_seconds: f64,
    /// How long the run waited for the kernel to make huge pages on the target.
    pub huge_page_wait_seconds: f64,
    /// Huge pages that the kernel split meanwhile, on the whole host.
    pub split_huge_pages: u64,
    /// Base pages that the kernel failed to migrate meanwhile, on the whole host.
    pub failed_pages: u64,
    /// Bytes that came to a target in place of page cache.
    pub cache_bytes: u64,
    /// Why no more page cache was dropped, or moved away; null if nothing kept the run from it.
    #[serde(serialize_with = "stop_name")]
    pub cache_stop: Option<CacheStop>,
    /// How often the run asked a node to drop page cache.
    pub reclaims: u64,
    /// How often it had a node's memory compacted.
    pub compactions: u64,
    /// How long it waited for that.
    pub compaction_wait_seconds: f64,
    /// Bytes that came to a target in place of others' memory.
    pub exchanged_bytes: u64,
}

/// The results of a migration without the daemon.
#[derive(Clone, Copy, Debug)]
pub struct MigrationParts<'a> {
    /// The plan that was carried out.
    pub plan: &'a Plan,
    /// What of the target is left out.
    pub missing: &'a [Missing],
    /// The outcome of the run.
    pub outcome: &'a Outcome,
    /// Those who made room for it.
    pub partners: &'a [Partner],
    /// What became of offload.
    pub offload: &'a OffloadUse,
    /// Locality in the second look.
    pub after: Option<Locality>,
}

impl From<MigrationParts<'_>> for MigrationDoc {
    fn from(parts: MigrationParts<'_>) -> Self {
        let MigrationParts { plan, missing, outcome, partners, offload, after } = parts;
        let account = outcome.account();
        // If nothing was to be moved, memory that is remote now is no shortfall.
        let after_moving = after.filter(|_| !plan.moves.is_empty());
        let ratio = plan.options.target_ratio;
        let late_bytes = after_moving.map_or(0, |after| account.late_bytes(&after, ratio));
        let elapsed = outcome.elapsed.as_secs_f64();
        let skipped = plan.processes.iter().filter(|process| process.skip.is_some());
        Self {
            result: End::of(plan, outcome, late_bytes),
            job: None,
            message: (late_bytes > 0).then(|| format!("{late_bytes} bytes {LATE}")),
            elapsed_seconds: elapsed,
            rate_bytes_per_second: rate(account.moved_bytes(), elapsed),
            account: (&account).into(),
            flows: flows(&outcome.flows),
            cache_flows: flows(&outcome.cache_flows),
            members: Vec::new(),
            processes: outcome.processes.iter().map(MovedDoc::from).collect(),
            skipped: skipped.map(ProcessDoc::from).collect(),
            partners: partners.iter().map(PartnerDoc::from).collect(),
            calls: (&outcome.calls).into(),
            offload: Some(offload.into()),
            returned_bytes: None,
            before: Some(plan.locality.into()),
            after: after.map(LocalityPair::from),
            missing: missing.iter().map(Into::into).collect(),
        }
    }
}

impl MigrationDoc {
    /// The exit code. What was left out was not done, however the rest ended.
    pub fn code(&self) -> Code {
        match self.result.code() {
            Code::Done if !self.missing.is_empty() => Code::Partly,
            code => code,
        }
    }
}

/// Bytes per second.
pub fn rate(bytes: u64, elapsed_seconds: f64) -> u64 {
    if elapsed_seconds > 0.0 { (bytes as f64 / elapsed_seconds) as u64 } else { 0 }
}

impl From<&ProcessOutcome> for MovedDoc {
    fn from(process: &ProcessOutcome) -> Self {
        Self {
            pid: process.identity.pid,
            start_time_ticks: process.identity.start_time,
            comm: process.comm.clone(),
            account: (&process.account).into(),
            error: process.error.clone(),
        }
    }
}

impl From<&CallStats> for CallsDoc {
    fn from(calls: &CallStats) -> Self {
        Self {
            calls: calls.calls,
            addresses: calls.addresses,
            retried_addresses: calls.retried_addresses,
            hinted_addresses: calls.hinted_addresses,
            longest_seconds: calls.longest.as_secs_f64(),
            total_seconds: calls.total.as_secs_f64(),
            over_stall: calls.over_stall,
            rested_seconds: calls.rested.as_secs_f64(),
            held_back_seconds: calls.held_back.as_secs_f64(),
            huge_page_wait_seconds: calls.huge_page_wait.as_secs_f64(),
            split_huge_pages: calls.split_huge_pages,
            failed_pages: calls.failed_pages,
            cache_bytes: calls.cache_bytes,
            cache_stop: calls.cache_stop,
            reclaims: calls.reclaims,
            compactions: calls.compactions,
            compaction_wait_seconds: calls.compaction_wait.as_secs_f64(),
            exchanged_bytes: calls.exchanged_bytes,
        }
    }
}
