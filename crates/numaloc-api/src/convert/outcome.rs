//! The result of a migration, to the API.

use super::{
    locality::{flows, node_bytes},
    names::{duration, int, int32},
};
use crate::{
    v1,
    value::{CallStats, NamedOutcome, Outcome, Partner, ProcessOutcome},
};
use numaloc_core::{Account, OffloadUse, Reason};
use std::collections::BTreeMap;

impl From<&Outcome> for v1::Outcome {
    fn from(outcome: &Outcome) -> Self {
        let processes = outcome.processes.iter().map(Into::into).collect();
        let partners = outcome.partners.iter().map(Into::into).collect();
        Self { processes, partners, ..summed_up(outcome) }
    }
}

/// An outcome without its processes and partners, for lists.
pub fn summed_up(outcome: &Outcome) -> v1::Outcome {
    v1::Outcome {
        account: Some((&outcome.account()).into()),
        processes: Vec::new(),
        flows: flows(&outcome.flows),
        cache_flows: flows(&outcome.cache_flows),
        calls: Some(outcome.calls.into()),
        elapsed: Some(duration(outcome.elapsed)),
        movable_before: Some(outcome.before.movable.into()),
        movable_after: outcome.after.map(|after| after.movable.into()),
        overall_before: Some(outcome.before.overall.into()),
        overall_after: outcome.after.map(|after| after.overall.into()),
        returned_bytes: outcome.returned_bytes.map(int),
        partners: Vec::new(),
        offload: outcome.offload.as_ref().map(Into::into),
        named: outcome.named.iter().map(Into::into).collect(),
        look_error: outcome.look_error.clone(),
    }
}

impl From<&NamedOutcome> for v1::NamedMemory {
    fn from(named: &NamedOutcome) -> Self {
        let (pattern, nodes) = (named.pattern.clone(), node_bytes(&named.nodes));
        Self { pattern, nodes, move_bytes: int(named.moved_bytes) }
    }
}

impl From<&OffloadUse> for v1::OffloadUse {
    fn from(offload: &OffloadUse) -> Self {
        Self {
            requested: v1::Offload::from(offload.requested).into(),
            used: offload.used,
            interface: offload.interface.clone(),
            reason: offload.reason.clone(),
            failed: offload.failed,
            offloaded_folios: offload.offloaded_folios.map(int),
            failed_folios: offload.failed_folios.map(int),
            cpu_folios: offload.cpu_folios.map(int),
            shared: offload.shared,
        }
    }
}

impl From<&Partner> for v1::ExchangePartner {
    fn from(partner: &Partner) -> Self {
        Self {
            member: Some((&partner.member).into()),
            process_count: int32(partner.processes),
            account: Some((&partner.account).into()),
            flows: flows(&partner.flows),
            error: partner.error.clone().unwrap_or_default(),
        }
    }
}

impl From<&ProcessOutcome> for v1::ProcessOutcome {
    fn from(outcome: &ProcessOutcome) -> Self {
        Self {
            process: Some(outcome.identity.into()),
            comm: outcome.comm.clone(),
            account: Some((&outcome.account).into()),
            error: outcome.error.clone().unwrap_or_default(),
        }
    }
}

impl From<CallStats> for v1::CallStats {
    fn from(stats: CallStats) -> Self {
        Self {
            calls: int(stats.calls),
            addresses: int(stats.addresses),
            retried_addresses: int(stats.retried_addresses),
            hinted_addresses: int(stats.hinted_addresses),
            longest: Some(duration(stats.longest)),
            total: Some(duration(stats.total)),
            over_stall: int(stats.over_stall),
            rested: Some(duration(stats.rested)),
            held_back: Some(duration(stats.held_back)),
            huge_page_wait: Some(duration(stats.huge_page_wait)),
            split_huge_pages: int(stats.split_huge_pages),
            failed_pages: int(stats.failed_pages),
            cache_bytes: int(stats.cache_bytes),
            cache_stop: stats.cache_stop.map_or(v1::CacheStop::Unspecified, Into::into).into(),
            reclaims: int(stats.reclaims),
            compactions: int(stats.compactions),
            compaction_wait: Some(duration(stats.compaction_wait)),
            exchanged_bytes: int(stats.exchanged_bytes),
            workers: int(stats.workers),
            sampled_bytes: int(stats.sampled_bytes),
        }
    }
}

impl From<&Account> for v1::Account {
    fn from(account: &Account) -> Self {
        Self {
            found_bytes: int(account.found_bytes()),
            moved_bytes: int(account.moved_bytes()),
            nearer_bytes: int(account.nearer_bytes()),
            moved_back_bytes: int(account.moved_back_bytes()),
            vanished_bytes: int(account.vanished_bytes()),
            left: left(account.left_bytes()),
        }
    }
}

/// Bytes by reason as a list.
pub fn left(by_reason: &BTreeMap<Reason, u64>) -> Vec<v1::LeftBytes> {
    let entry = |(&reason, &bytes): (&Reason, &u64)| v1::LeftBytes {
        reason: v1::LeftReason::from(reason).into(),
        bytes: int(bytes),
    };
    by_reason.iter().map(entry).collect()
}
