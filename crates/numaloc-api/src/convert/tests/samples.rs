//! The samples have a value in every field, and survive being stored.

use crate::{Stored, described::dynamic, samples, v1};
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, ReflectMessage, Value};
use std::collections::BTreeSet;

/// Fields that these records leave unset: the other ones of a choice, files, beside which a target names nothing, and what only answers to
/// `PlanMigration` have.
const UNSET: [&str; 13] = [
    "target.files",
    "policy.local",
    "policy.interleave",
    "policy.weighted",
    "policy.bandwidth",
    "policy.balance",
    "policy.block",
    "policy.tiers",
    "policy.maps",
    "policy.relief",
    "plan.extent_moves",
    "plan.skipped_extents",
    "plan.source",
];

/// The fields that `messages`, which are of one type, leave unset in all of them, and fields that have the value of
/// another field of their message.
fn faults(messages: &[&DynamicMessage], path: &str, faults: &mut Vec<String>) {
    let Some(first) = messages.first().map(|message| message.descriptor()) else { return };
    if first.full_name().starts_with("google.") {
        return;
    }
    for message in messages {
        let mut seen = BTreeSet::new();
        let mut is_again = |value: &Value| match value {
            Value::I64(_) | Value::U64(_) | Value::F64(_) | Value::I32(_) | Value::String(_) => {
                !seen.insert(format!("{value:?}"))
            }
            _ => false,
        };
        let again = message.fields().map(|(_, value)| value).filter(|value| is_again(value));
        faults.extend(again.map(|value| format!("{path} has {value} twice")));
    }
    for field in first.fields() {
        let path = format!("{path}.{}", field.name());
        // A member is a target with one name.
        if path.ends_with("member") {
            continue;
        }
        let set = messages.iter().filter(|message| message.has_field(&field));
        let values: Vec<_> = set.map(|message| message.get_field(&field)).collect();
        if values.is_empty() {
            faults.push(path.clone());
        }
        let inner = values.iter().flat_map(|value| match &**value {
            Value::Message(inner) => vec![inner],
            Value::List(list) => list.iter().filter_map(Value::as_message).collect(),
            _ => Vec::new(),
        });
        self::faults(&inner.collect::<Vec<_>>(), &path, faults);
    }
}

#[track_caller]
fn is_full<M: Message + Name>(message: &M) {
    let mut all = Vec::new();
    faults(&[&dynamic(message)], M::NAME, &mut all);
    all.retain(|fault| !UNSET.iter().any(|unset| fault.ends_with(unset)));
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn every_field_has_a_value() {
    is_full(&v1::Job::from(&samples::job()));
    is_full(&v1::Schedule::from(&samples::schedule()));
    is_full(&v1::Workload::from(&samples::workload()));
    is_full(&v1::Event::from(&samples::event()));
}

#[test]
fn samples_survive() {
    fn survives<T: Stored + PartialEq + std::fmt::Debug>(record: &T) {
        assert_eq!(T::decode(&record.encode()).as_ref(), Ok(record));
    }
    survives(&samples::job());
    survives(&samples::schedule());
    survives(&samples::workload());
    survives(&samples::event());
}
