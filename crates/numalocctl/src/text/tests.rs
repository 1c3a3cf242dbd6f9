//! Output for people and programs, as snapshots.

mod csv;
mod records;

use super::*;
use crate::{
    args::Format,
    doc::*,
    exit::Code,
    fixture,
    job::End,
    output::{View, render},
};
use numaloc_api::{
    samples, v1,
    value::{
        self, MemberResult, MemberState, MigrationSpec, Missing, Partner, Policy, Target,
        nothing_to_move,
    },
};
use numaloc_core::{CacheStop, Locality, MakeRoom, OffloadUse, Options, Reason, Share};
use numaloc_dma::kernel::Probed;
use numaloc_engine::{Ended, FoundTarget, LookedAt, Planned};
use numaloc_executor::Outcome;
use serde::Serialize;
use std::sync::Arc;

pub const NARROW: View = View::TABLE;
/// The same with all columns.
pub const WIDE: View = View { wide: true, ..View::TABLE };

const NO_LIMITS: v1::Limits = v1::Limits {
    batch_bytes: None,
    workers: None,
    timeout: None,
    rate_bytes_per_second: None,
    hourly_budget_bytes: None,
};

/// One document in all three formats.
pub fn forms<D: Serialize>(document: &D, text: impl Fn(&D, View) -> String) -> String {
    let form = |format| {
        render(document, format, View { wide: format == Format::Wide, ..View::TABLE }, &text)
            .unwrap()
    };
    let [table, wide, json] = [Format::Table, Format::Wide, Format::Json].map(form);
    format!("table:\n{table}\nwide:\n{wide}\njson:\n{json}")
}

/// A message as the two kinds of tables. As JSON it follows the definitions.
pub fn tables(text: impl Fn(View) -> String) -> String {
    format!("table:\n{}\nwide:\n{}", text(NARROW), text(WIDE))
}

fn machine() -> v1::Topology {
    (&fixture::topology()).into()
}

fn migrated(outcome: &Outcome, options: Options) -> v1::Job {
    let LookedAt { plan, missing, .. } = fixture::inspection(options);
    let share = Share { local_bytes: 1_100 << 20, remote_bytes: 20 << 20, ..Share::default() };
    let after = Locality { movable: share, overall: share };
    let exchanged = outcome.calls.exchanged_bytes > 0;
    let partner = Partner { error: None, ..samples::partner() };
    let reason = "unavailable: this kernel cannot".to_owned();
    let offload = OffloadUse { reason, cpu_folios: Some(70_000), ..OffloadUse::default() };
    let outcome = value::Outcome {
        partners: if exchanged { vec![partner] } else { Vec::new() },
        offload: Some(offload),
        ..value::Outcome::new(outcome.clone(), plan.locality, Some(after))
    };
    let member = |Missing { member, reason, processes }: Missing| match processes {
        0 => MemberResult::left_out(member, MemberState::Missing, reason),
        unreadable => MemberResult {
            unreadable,
            ..MemberResult::left_out(member, MemberState::Partial, reason)
        },
    };
    let members: Vec<_> = missing.into_iter().map(member).collect();
    let planned = Planned {
        summary: Arc::new((&plan).into()),
        found: FoundTarget { members: members.clone(), ..FoundTarget::default() },
        planned_bytes: plan.planned_bytes(),
        local_percent: plan.locality.movable.percent(),
        nothing: nothing_to_move(&plan),
        note: None,
        returned: None,
    };
    let target = Target { pids: [4711, 4712, 4900].into(), ..Target::default() };
    let policy = Policy { options: plan.options, ..Policy::default() };
    let spec = MigrationSpec { target, policy, ..MigrationSpec::default() };
    let ended = Ended { outcome: Arc::new(outcome), members, trail: None };
    planned.job(&spec, Some(&ended))
}

/// The answer with all extents, as without the daemon.
fn with_extents(looked: &LookedAt) -> v1::PlanMigrationResponse {
    let policy = Policy { options: looked.plan.options.clone(), ..Policy::default() };
    let answer = looked.planned(&policy);
    let plan = answer.plan.map(|plan| plan.with_extents(&looked.plan));
    v1::PlanMigrationResponse { plan, ..answer }
}

fn planned(options: Options) -> v1::PlanMigrationResponse {
    with_extents(&fixture::inspection(options))
}

#[test]
fn topology_in_all_forms() {
    insta::assert_snapshot!(tables(|view| topology(&machine(), view)));
}

#[test]
fn nodes_name_the_devices_whose_memory_they_have() {
    let mut machine = machine();
    let device = v1::DaxDevice { name: "dax1.0".into(), bytes: 254 << 20 };
    machine.nodes[1].dax_devices = vec![device];
    let text = topology(&machine, View::TABLE);
    assert!(text.contains("DRAM, 254.0 MiB of dax1.0"), "{text}");
}

#[test]
fn memory_that_is_not_dram_is_described() {
    let mut machine = machine();
    let storage = |name: &str, mode: v1::StorageMode| v1::StorageDevice {
        name: name.into(),
        mode: mode.into(),
        bytes: 128 << 30,
        node_id: Some(0),
        target_node_id: Some(8),
        ..v1::StorageDevice::default()
    };
    machine.storage_devices = vec![
        v1::StorageDevice {
            disk: "pmem0".into(),
            descriptor_bytes: 2 << 30,
            target_node_id: Some(0),
            ..storage("namespace0.0", v1::StorageMode::Fsdax)
        },
        v1::StorageDevice {
            node_id: None,
            target_node_id: None,
            ..storage("namespace1.0", v1::StorageMode::Raw)
        },
        storage("dax0.0", v1::StorageMode::SystemRam),
        storage("dax1.0", v1::StorageMode::Devdax),
    ];
    let node = &mut machine.nodes[2];
    node.kind = v1::NodeKind::Persistent.into();
    (node.tier, node.tier_source) = (Some(22), v1::TierSource::Kernel.into());
    node.movable_bytes = Some(128 << 30);
    node.side_caches = vec![v1::SideCache { level: 1, bytes: 16 << 30, line_bytes: 64 }];
    insta::assert_snapshot!(tables(|view| topology(&machine, view)));
}

#[test]
fn dsa_in_all_forms() {
    let probed = Probed { interface: Some("dcbm"), available: true, reason: None };
    let document = DsaDoc::new(&fixture::accelerators(), probed);
    insta::assert_snapshot!(forms(&document, dsa));
}

#[test]
fn dsa_on_a_host_without() {
    let reason = Some("this kernel has none".to_owned());
    let probed = Probed { interface: None, available: false, reason };
    let document = DsaDoc::new(&Default::default(), probed);
    insta::assert_snapshot!(forms(&document, dsa));
}

#[test]
fn topology_as_numactl() {
    insta::assert_snapshot!(numactl(&machine()));
}

#[test]
fn locality_in_all_forms() {
    let mut looked = fixture::inspection(Options::default());
    let counted = numaloc_core::live::CountedMemory {
        nodes: looked.plan.processes[0].resident.clone(),
        cache: [(numaloc_core::NodeId(2), 90 << 20)].into(),
        ..Default::default()
    };
    looked.cgroups = vec![("/redis".to_owned(), counted)];
    let answer = looked.locality();
    insta::assert_snapshot!(tables(|view| locality(&answer, &machine(), view)));
}

#[test]
fn locality_of_a_cgroup_with_one_home() {
    let mut looked = fixture::many_extents();
    let counted = numaloc_core::live::CountedMemory {
        nodes: looked.plan.processes[0].resident.clone(),
        cache: [(numaloc_core::NodeId(2), 90 << 20)].into(),
        ..Default::default()
    };
    looked.cgroups = vec![("/redis".to_owned(), counted)];
    insta::assert_snapshot!(locality(&looked.locality(), &machine(), NARROW));
}

#[test]
fn plan_in_all_forms() {
    let answer = planned(Options::default());
    insta::assert_snapshot!(tables(|view| plan(&answer, &machine(), &NO_LIMITS, view)));
}

/// As the daemon sends it.
#[test]
fn plan_with_sums_alone() {
    let with_extents = planned(Options::default());
    let sums = v1::Plan {
        extent_moves: Vec::new(),
        skipped_extents: Vec::new(),
        source: 0,
        ..with_extents.plan.clone().unwrap()
    };
    let answer = v1::PlanMigrationResponse { plan: Some(sums), ..with_extents };
    insta::assert_snapshot!(tables(|view| plan(&answer, &machine(), &NO_LIMITS, view)));
}

#[test]
fn what_moving_page_cache_will_give_is_not_known() {
    let options = Options { make_room: MakeRoom::MoveCache, ..Options::default() };
    let answer = planned(options);
    let says = |no_room_bytes| {
        let full = v1::Plan { no_room_bytes, ..answer.plan.clone().unwrap() };
        let answer = v1::PlanMigrationResponse { plan: Some(full), ..answer.clone() };
        plan(&answer, &machine(), &NO_LIMITS, NARROW).contains("shows when it moves")
    };
    assert!(says(4096) && !says(0));
}

#[test]
fn page_cache_that_did_not_move_is_told_from_what_was_not_dropped() {
    let text = |cache_bytes, stop| {
        let mut outcome = fixture::outcome();
        (outcome.calls.cache_bytes, outcome.calls.cache_stop) = (cache_bytes, Some(stop));
        migration(&migrated(&outcome, Options::default()), NARROW)
    };
    let full = text(0, CacheStop::NoOtherRoom);
    assert!(full.contains("was moved away: no other node has room for it"), "{full}");
    assert!(text(0, CacheStop::Stuck).contains("was moved away: no more became free"));
    assert!(text(4096, CacheStop::Stuck).contains("was dropped: no more became free"));
}

#[test]
fn plan_with_many_extents_is_cut() {
    let view = View { headers: false, ..View::TABLE };
    insta::assert_snapshot!(plan(
        &with_extents(&fixture::many_extents()),
        &machine(),
        &NO_LIMITS,
        view
    ));
}

#[test]
fn plan_with_a_ratio() {
    let text = |target_ratio| {
        plan(
            &planned(Options { target_ratio, ..Options::default() }),
            &machine(),
            &NO_LIMITS,
            NARROW,
        )
    };
    insta::assert_snapshot!(format!("90:\n{}\n0:\n{}", text(90), text(0)));
}

#[test]
fn migration_in_all_forms() {
    let job = migrated(&fixture::outcome(), Options::default());
    assert_eq!(End::of(&job).code(), Code::Partly);
    insta::assert_snapshot!(forms(&job, |_, view| migration(&job, view)));
}

#[test]
fn ends_of_a_migration() {
    let mut texts = Vec::new();
    let mut end = |outcome: &Outcome, options, code| {
        let job = migrated(outcome, options);
        let end = End::of(&job);
        assert_eq!(end.code(), code, "{end:?}");
        texts.push(format!("{end:?}:\n{}", migration(&job, NARROW)));
    };
    let (to_all, default) = (Some("0,2,8".parse().unwrap()), Options::default());
    end(&Outcome::default(), Options { to: to_all, ..default.clone() }, Code::Done);
    end(&Outcome::default(), Options { target_ratio: 0, ..default.clone() }, Code::Done);
    let ended = |reason, bytes| {
        let mut outcome = fixture::outcome();
        outcome.processes[0].account.found(bytes);
        outcome.processes[0].account.left(reason, bytes);
        outcome
    };
    end(&ended(Reason::Cancelled, 4096), default.clone(), Code::Partly);
    end(&ended(Reason::OutOfTime, 4096), default.clone(), Code::TimedOut);
    let mut gone = fixture::outcome();
    gone.processes.remove(0);
    end(&gone, default, Code::Failure);
    insta::assert_snapshot!(texts.join("\n"));
}

/// Collects all field names in a document, at any depth.
fn names(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                found.push(name.clone());
                // The keys of labels are chosen by users.
                if name != "labels" {
                    names(value, found);
                }
            }
        }
        _ => {}
    }
}

/// The field names in a document that are missing in docs/json.md.
pub fn undocumented(document: &serde_json::Value) -> Vec<String> {
    let text = include_str!("../../../../docs/json.md");
    let mut found = Vec::new();
    names(document, &mut found);
    found.retain(|name| !text.contains(&format!("`{name}`")));
    found
}

#[test]
fn every_json_field_is_documented() {
    let doctor = DoctorDoc::from(vec![Check::ok("kernel", "6.12")]);
    let probed = Probed { interface: Some("dcbm"), available: true, reason: None };
    let documents = [
        serde_json::to_value(doctor),
        serde_json::to_value(DsaDoc::new(&fixture::accelerators(), probed)),
        serde_json::to_value(RemovedDoc { removed: Vec::new() }),
        serde_json::to_value(BackupDoc { file: String::new(), bytes: 0 }),
    ];
    let missing: Vec<_> =
        documents.into_iter().flat_map(|each| undocumented(&each.unwrap())).collect();
    assert_eq!(missing, Vec::<String>::new());
}
