//! Reads messages of the API from trees by their descriptions in the definitions, so that no list of fields has to be kept here.

use crate::{
    fields::{KNOWN_MAX, Problem, below, flag, text, unknown_name, whole},
    text::{SHOWN_MAX, shown},
    tree::Tree,
};
use numaloc_api::{amount, descriptor};
use prost::{Message, Name};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value,
};
use std::collections::BTreeMap;

/// Which fields may be set; the others are as unknown as any other name.
pub type Allowed = fn(&FieldDescriptor) -> bool;

/// Reads an object, which is at `path`. Fields that are `null` count as missing. `also` are names that the caller takes itself.
///
/// # Errors
/// What is wrong first.
pub fn message<M: Message + Name + Default>(
    path: &str,
    map: &BTreeMap<String, Tree>,
    allowed: Allowed,
    also: &[&str],
) -> Result<M, Problem> {
    let broken = |why: String| Problem::new(path, why, "");
    let descriptor = descriptor::<M>().map_err(broken)?;
    let read = object(path, map, &descriptor, allowed, also)?;
    read.transcode_to().map_err(|error| broken(error.to_string()))
}

fn object(
    path: &str,
    map: &BTreeMap<String, Tree>,
    descriptor: &MessageDescriptor,
    allowed: Allowed,
    also: &[&str],
) -> Result<DynamicMessage, Problem> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, tree) in map {
        let at = below(path, name);
        let Some(field) = descriptor.get_field_by_name(name).filter(allowed) else {
            let fields = descriptor.fields().filter(allowed).map(|field| field.name().to_owned());
            let known = also.iter().map(|&name| name.to_owned()).chain(fields).take(KNOWN_MAX);
            return Err(unknown_name(&at, &known.collect::<Vec<_>>()));
        };
        if *tree == Tree::Null {
            continue;
        }
        let others = field.containing_oneof().into_iter().flat_map(|oneof| {
            oneof.fields().filter(|other| message.has_field(other)).collect::<Vec<_>>()
        });
        if let Some(other) = others.into_iter().next() {
            let problem = format!("excludes {}", other.name());
            return Err(Problem::new(&at, problem, "leave one of them out"));
        }
        let value = match field.is_list() {
            true => list(&at, tree, &field, allowed)?,
            false => single(&at, tree, &field.kind(), allowed)?,
        };
        message.set_field(&field, value);
    }
    Ok(message)
}

fn list(
    path: &str,
    tree: &Tree,
    field: &FieldDescriptor,
    allowed: Allowed,
) -> Result<Value, Problem> {
    let Tree::List(list) = tree else {
        return Err(Problem::sort(path, "a list such as [0, 1]", tree));
    };
    if list.is_empty() {
        return Err(Problem::new(path, "is empty", "name at least one, or leave it out"));
    }
    let kind = field.kind();
    let one = |(index, tree)| single(&format!("{path}[{index}]"), tree, &kind, allowed);
    list.iter().enumerate().map(one).collect::<Result<_, _>>().map(Value::List)
}

fn single(path: &str, tree: &Tree, kind: &Kind, allowed: Allowed) -> Result<Value, Problem> {
    match kind {
        Kind::Bool => flag(path, tree).map(Value::Bool),
        Kind::String => text(path, tree).map(|text| Value::String(text.to_owned())),
        Kind::Int32 => whole::<i32>(0..=i32::MAX as u64)(path, tree).map(Value::I32),
        Kind::Int64 => size(path, tree).map(Value::I64),
        Kind::Enum(names) => choice(path, tree, names),
        Kind::Message(message) if message.full_name() == "google.protobuf.Duration" => {
            duration(path, tree, message)
        }
        Kind::Message(message) => match tree {
            Tree::Map(map) => object(path, map, message, allowed, &[]).map(Value::Message),
            other => Err(Problem::sort(path, "an object", other)),
        },
        _ => Err(Problem::new(path, "cannot be set here", "")),
    }
}

/// A number of bytes, also as people write it: `"64M"`.
fn size(path: &str, tree: &Tree) -> Result<i64, Problem> {
    let Tree::Text(given) = tree else {
        return whole(0..=i64::MAX.unsigned_abs())(path, tree);
    };
    let refused = |hint: String| Problem::new(path, named(given), hint);
    let bytes = amount::size(given).map_err(|error| refused(error.to_string()))?;
    i64::try_from(bytes).map_err(|_| refused("expected less than 8 EiB".to_owned()))
}

/// A duration as people write it, such as `"10m"`, which includes protobuf's form, `"0.5s"`.
fn duration(path: &str, tree: &Tree, message: &MessageDescriptor) -> Result<Value, Problem> {
    let Tree::Text(given) = tree else {
        return Err(Problem::sort(path, "a duration such as \"10m\"", tree));
    };
    let refused = |hint: String| Problem::new(path, named(given), hint);
    let span = amount::duration(given).map_err(|error| refused(error.to_string()))?;
    let span = prost_types::Duration::try_from(span).map_err(|error| refused(error.to_string()))?;
    let mut value = DynamicMessage::new(message.clone());
    value.transcode_from(&span).map_err(|error| refused(error.to_string()))?;
    Ok(Value::Message(value))
}

/// A value of an enum by its name, in any case, with or without the enum's prefix: `"gentle"` for PROFILE_GENTLE.
fn choice(path: &str, tree: &Tree, names: &EnumDescriptor) -> Result<Value, Problem> {
    let given = text(path, tree)?;
    let unspecified = names.get_value(0).map_or(String::new(), |value| value.name().to_owned());
    let prefix = unspecified.strip_suffix("UNSPECIFIED").unwrap_or_default();
    let wanted = given.replace('-', "_").to_ascii_uppercase();
    let mut known = Vec::new();
    for value in names.values().filter(|value| value.number() != 0) {
        let short = value.name().strip_prefix(prefix).unwrap_or(value.name());
        if wanted == short || wanted == value.name() {
            return Ok(Value::EnumNumber(value.number()));
        }
        known.push(format!("\"{}\"", short.to_ascii_lowercase()));
    }
    let hint = format!("write {}", known.join(" or "));
    Err(Problem::new(path, format!("{}, which is not known", named(given)), hint))
}

fn named(given: &str) -> String {
    format!("is \"{}\"", shown(given, SHOWN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::v1;

    fn read(text: &str) -> Result<v1::MigrationSpec, String> {
        let Ok(Tree::Map(map)) = serde_json::from_str(text) else { panic!("{text}: no object") };
        let allowed: Allowed = |field| field.name() != "tenant";
        message("o", &map, allowed, &["also"])
            .map_err(|Problem { path, problem, hint }| format!("{path} {problem}; {hint}"))
    }

    #[test]
    fn fields_are_what_their_descriptions_say() {
        let spec = read(
            r#"{"policy": {"nodes": {"node_ids": [8, 0]}, "include_shared": true, "make_room": "Move-Cache", "hugetlb_source":
            "HUGETLB_SOURCE_FRESH", "max_stall": "0.5s", "reserve_bytes": "1.5G", "order": null}, "limits": {"batch_bytes": 4096}}"#,
        );
        let nodes = v1::NodesPlacement { node_ids: vec![8, 0] };
        let policy = v1::Policy {
            placement: Some(v1::policy::Placement::Nodes(nodes)),
            include_shared: true,
            make_room: v1::MakeRoom::MoveCache.into(),
            hugetlb_source: v1::HugetlbSource::Fresh.into(),
            max_stall: Some(prost_types::Duration { seconds: 0, nanos: 500_000_000 }),
            reserve_bytes: Some(3 << 29),
            ..v1::Policy::default()
        };
        let limits = v1::Limits { batch_bytes: Some(4096), ..v1::Limits::default() };
        let expected =
            v1::MigrationSpec { policy: Some(policy), limits: Some(limits), target: None };
        assert_eq!(spec, Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_expected() {
        for (text, expected) in [
            (r#"{"limit": 1}"#, "o.limit is not known; known here: also, target, policy, limits"),
            (r#"{"policy": {"tenant": "x"}}"#, "o.policy.tenant is not known; known here: local,"),
            (r#"{"policy": 1}"#, "o.policy must be an object, and is a number; "),
            (
                r#"{"policy": {"include_shared": 1}}"#,
                "o.policy.include_shared must be true or false, and is a number; ",
            ),
            (
                r#"{"policy": {"profile": "x\n"}}"#,
                "o.policy.profile is \"x\\u{a}\", which is not known; write \"gentle\" or \"balanced\" or \"fast\"",
            ),
            (
                r#"{"policy": {"max_stall": 1}}"#,
                "o.policy.max_stall must be a duration such as \"10m\", and is a number; ",
            ),
            (
                r#"{"policy": {"max_stall": "soon"}}"#,
                "o.policy.max_stall is \"soon\"; expected a duration such as 500ms",
            ),
            (
                r#"{"policy": {"from_node_ids": [0, -1]}}"#,
                "o.policy.from_node_ids[1] must be a whole number from 0 to 2147483647, and is -1",
            ),
            (
                r#"{"policy": {"from_node_ids": []}}"#,
                "o.policy.from_node_ids is empty; name at least one, or leave it out",
            ),
            (
                r#"{"policy": {"local": {}, "nodes": {"node_ids": [1]}}}"#,
                "o.policy.nodes excludes local; leave one of them out",
            ),
            (
                r#"{"limits": {"batch_bytes": "many"}}"#,
                "o.limits.batch_bytes is \"many\"; expected a size such as 4096",
            ),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
