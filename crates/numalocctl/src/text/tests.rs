//! Output for people and programs, as snapshots.

use super::*;
use crate::args::Format;
use crate::doc::*;
use crate::exit::Code;
use crate::fixture;
use crate::output::{View, render};
use numaloc_core::{CacheStop, Locality, MakeRoom, OffloadUse, Options, Reason, Share};
use numaloc_executor::Outcome;
use numaloc_host::offload::Probed;
use serde::Serialize;

/// One document in all three formats.
pub fn forms<D: Serialize>(document: &D, text: impl Fn(&D, View) -> String) -> String {
    let form = |format| render(document, format, true, &text).unwrap();
    let [table, wide, json] = [Format::Table, Format::Wide, Format::Json].map(form);
    format!("table:\n{table}\nwide:\n{wide}\njson:\n{json}")
}

fn migrated(outcome: &Outcome, options: Options) -> MigrationDoc {
    let inspected = fixture::inspection(options);
    let share = Share { local_bytes: 1_100 << 20, remote_bytes: 20 << 20 };
    let after = Some(Locality { movable: share, overall: share });
    let exchanged = outcome.calls.exchanged_bytes > 0;
    let partners = if exchanged { fixture::partners() } else { Vec::new() };
    let reason = "unavailable: this kernel cannot".to_owned();
    let offload = OffloadUse { reason, cpu_folios: Some(70_000), ..OffloadUse::default() };
    let (plan, partners, offload) = (&inspected.plan, &partners[..], &offload);
    let missing = &inspected.missing;
    MigrationParts { plan, missing, outcome, partners, offload, after }.into()
}

#[test]
fn topology_in_all_forms() {
    let document = TopologyDoc::from(&fixture::topology());
    insta::assert_snapshot!(forms(&document, topology));
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
    insta::assert_snapshot!(numactl(&TopologyDoc::from(&fixture::topology())));
}

#[test]
fn locality_in_all_forms() {
    let inspected = fixture::inspection(Options::default());
    let cgroup = ("/redis".to_owned(), inspected.plan.processes[0].resident.clone());
    let document = LocalityDoc::new(&inspected, &[cgroup]);
    insta::assert_snapshot!(forms(&document, locality));
}

#[test]
fn locality_of_a_cgroup_with_one_home() {
    let inspected = fixture::many_extents();
    let cgroup = ("/redis".to_owned(), inspected.plan.processes[0].resident.clone());
    let document = LocalityDoc::new(&inspected, &[cgroup]);
    insta::assert_snapshot!(locality(&document, View { wide: false, headers: true }));
}

#[test]
fn plan_in_all_forms() {
    insta::assert_snapshot!(forms(&PlanDoc::from(&fixture::inspection(Options::default())), plan));
}

#[test]
fn what_moving_page_cache_will_give_is_not_known() {
    let options = Options { make_room: MakeRoom::MoveCache, ..Options::default() };
    let document = PlanDoc::from(&fixture::inspection(options));
    let view = View { wide: false, headers: true };
    let says = |no_room_bytes| {
        plan(&PlanDoc { no_room_bytes, ..document.clone() }, view).contains("shows when it moves")
    };
    assert!(says(4096) && !says(0));
}

#[test]
fn page_cache_that_did_not_move_is_told_from_what_was_not_dropped() {
    let view = View { wide: false, headers: true };
    let text = |cache_bytes, stop| {
        let mut outcome = fixture::outcome();
        (outcome.calls.cache_bytes, outcome.calls.cache_stop) = (cache_bytes, Some(stop));
        migration(&migrated(&outcome, Options::default()), view)
    };
    let full = text(0, CacheStop::NoOtherRoom);
    assert!(full.contains("was moved away: no other node has room for it"), "{full}");
    assert!(text(0, CacheStop::Stuck).contains("was moved away: no more became free"));
    assert!(text(4096, CacheStop::Stuck).contains("was dropped: no more became free"));
}

#[test]
fn plan_with_many_extents_is_cut() {
    let view = View { wide: false, headers: false };
    insta::assert_snapshot!(plan(&PlanDoc::from(&fixture::many_extents()), view));
}

#[test]
fn plan_with_a_ratio() {
    let view = View { wide: false, headers: true };
    let text = |target_ratio| {
        let options = Options { target_ratio, ..Options::default() };
        plan(&PlanDoc::from(&fixture::inspection(options)), view)
    };
    insta::assert_snapshot!(format!("90:\n{}\n0:\n{}", text(90), text(0)));
}

#[test]
fn migration_in_all_forms() {
    let document = migrated(&fixture::outcome(), Options::default());
    assert_eq!(document.result.code(), Code::Partly);
    insta::assert_snapshot!(forms(&document, migration));
}

#[test]
fn ends_of_a_migration() {
    let view = View { wide: false, headers: true };
    let mut texts = Vec::new();
    let mut end = |outcome: &Outcome, options, code| {
        let document = migrated(outcome, options);
        assert_eq!(document.result.code(), code, "{:?}", document.result);
        texts.push(format!("{:?}:\n{}", document.result, migration(&document, view)));
    };
    let (to_all, default) = (Some("0,2,8".parse().unwrap()), Options::default());
    end(&Outcome::default(), Options { to: to_all, ..default.clone() }, Code::Done);
    end(&Outcome::default(), Options { target_ratio: 0, ..default.clone() }, Code::Done);
    let mut outcome = Outcome { cancelled: true, ..fixture::outcome() };
    end(&outcome, default.clone(), Code::Partly);
    outcome.processes[0].account.left(Reason::OutOfTime, 4096);
    end(&outcome, default, Code::TimedOut);
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
    let inspected = fixture::inspection(Options::default());
    let cgroup = ("/redis".to_owned(), inspected.plan.processes[0].resident.clone());
    let documents = [
        serde_json::to_value(TopologyDoc::from(&inspected.topology)),
        serde_json::to_value(LocalityDoc::new(&inspected, &[cgroup])),
        serde_json::to_value(PlanDoc::from(&inspected)),
        serde_json::to_value(migrated(&fixture::outcome(), Options::default())),
        serde_json::to_value(DoctorDoc::from(vec![Check::ok("kernel", "6.12")])),
    ];
    let missing: Vec<_> =
        documents.into_iter().flat_map(|each| undocumented(&each.unwrap())).collect();
    assert_eq!(missing, Vec::<String>::new());
}
