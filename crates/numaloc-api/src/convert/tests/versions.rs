//! Parts of stored records that the last release does not know, and their effect on a store that goes back to it.

use crate::{Damaged, Stored, v1, value::Schedule};
use prost::Message;
use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use std::collections::BTreeSet;

/// The definitions of the version that wrote the first layout of the store.
const RELEASED: &[u8] = include_bytes!("../../../../../proto/released/0.1.0.binpb");

/// The fields and values of a message and of the messages in it, as `Message.field` and `Enum.VALUE`.
fn members(message: &MessageDescriptor, found: &mut BTreeSet<String>) {
    for field in message.fields() {
        if !found.insert(format!("{}.{}", message.name(), field.name())) {
            continue;
        }
        match field.kind() {
            Kind::Message(inner) => members(&inner, found),
            Kind::Enum(values) => {
                found.extend(
                    values.values().map(|value| format!("{}.{}", values.name(), value.name())),
                );
            }
            _ => {}
        }
    }
}

fn of(pool: &DescriptorPool, names: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in names {
        let name = format!("numaloc.v1.{name}");
        members(&pool.get_message_by_name(&name).expect("it is defined"), &mut found);
    }
    found
}

/// New parts of records that a daemon acts on, and the effect of dropping them, as 0.1.0 does.
/// `MigrationSpec::is_newer_than_0_1` asks for each, and keeps a store that has it from 0.1.0.
const ACTS: [&str; 40] = [
    "BesideKernel.BESIDE_KERNEL_IGNORE",
    "BesideKernel.BESIDE_KERNEL_REFUSE",
    "BesideKernel.BESIDE_KERNEL_UNSPECIFIED",
    "BesideKernel.BESIDE_KERNEL_WARN",
    // Unspecified for it: it brings memory to the nodes of the CPUs.
    "HomeRule.HOME_RULE_DEVICES",
    "HomeRule.HOME_RULE_NEAR",
    // It moves more in an hour.
    "Limits.hourly_budget_bytes",
    // No placement for it: all memory stays.
    "MapRule.nodes",
    // Of schedules with a relief.
    "NodeBytes.bytes",
    "NodeBytes.node_id",
    // It moves what can keep a call from returning.
    "Policy.include_network",
    "Policy.near_distance",
    // It brings memory to nodes that have no bandwidth left.
    "Policy.node_bandwidth_max_bytes_per_second",
    "Policy.pool_reserve_percent",
    // It brings all memory to the nodes of the CPUs.
    "Policy.relief",
    // No placement for it: it brings memory to the nodes of the CPUs.
    "Policy.tiers",
    "Relief.bandwidth_above_bytes_per_second",
    "Relief.bandwidth_until_bytes_per_second",
    "Relief.free_below_bytes",
    "Relief.free_until_bytes",
    "Relief.node_id",
    "Relief.return_after",
    "Relief.returning_bytes",
    // Of schedules with a budget.
    "Schedule.hour_moved_bytes",
    "Schedule.hour_start_time",
    // Of schedules with a relief.
    "Schedule.relieve_time",
    "Schedule.relieved",
    // A target without members for it.
    "Target.container_labels",
    "Target.files",
    "TiersPlacement.beside_kernel",
    "TiersPlacement.cold_after",
    "TiersPlacement.fast_node_ids",
    "TiersPlacement.free_fast_bytes",
    "TiersPlacement.keep_fast_bytes",
    "TiersPlacement.keep_fast_percent",
    "TiersPlacement.slow_node_ids",
    "TiersPlacement.watch",
    "UseWatch.USE_WATCH_DAMON",
    "UseWatch.USE_WATCH_REFERENCED",
    "UseWatch.USE_WATCH_UNSPECIFIED",
];

/// A field that is new fails here: name it, and ask for it where stores get their version.
#[test]
fn each_field_that_the_last_release_does_not_know_is_decided() {
    let released = DescriptorPool::decode(RELEASED).expect("definitions");
    let now = DescriptorPool::decode(crate::FILE_DESCRIPTOR_SET).expect("definitions");
    let acts = ["Schedule", "Workload"];
    let new: Vec<_> = of(&now, &acts).difference(&of(&released, &acts)).cloned().collect();
    assert_eq!(new, ACTS);
}

/// As a later version would have written it.
#[test]
fn records_of_a_later_version_are_not_reported_as_damage() {
    let schedule = crate::samples::schedule();
    // Field 4000, a number.
    let unknown = [&schedule.encode()[..], &[0x80, 0xfa, 0x01, 0x07]].concat();
    let error = Schedule::decode(&unknown).expect_err("it is not understood");
    assert!(matches!(error, Damaged::Newer { record: "schedule", .. }), "{error}");
    // The same in the target, far within.
    let mut message = v1::Schedule::from(&schedule);
    let spec = message.spec.take().expect("it has one");
    let inner = [&spec.encode_to_vec()[..], &[0x80, 0xfa, 0x01, 0x07]].concat();
    let length = u8::try_from(inner.len() & 0x7f).expect("seven bits") | 0x80;
    let more = u8::try_from(inner.len() >> 7).expect("short");
    let nested = [&message.encode_to_vec()[..], &[0x12, length, more], &inner].concat();
    let error = Schedule::decode(&nested).expect_err("it is not understood");
    assert!(matches!(error, Damaged::Newer { .. }), "{error}");
    // A value of an enumeration.
    let message = v1::Schedule { state: 77, ..v1::Schedule::from(&schedule) };
    let error = Schedule::decode(&message.encode_to_vec()).expect_err("it is not understood");
    assert!(matches!(&error, Damaged::Newer { what, .. } if what.contains("77")), "{error}");
}
