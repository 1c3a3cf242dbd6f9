//! Messages of the API as people write them: in JSON, YAML or TOML, with the names of fields that the definitions have, and with sizes,
//! durations and percentages as on the command line. The descriptions of messages lead the reader, so that no list of fields has to be
//! kept here.

use crate::{Violations, described::descriptor, v1, value::ScheduleSpec};
use numaloc_config::written::{
    KNOWN_MAX, Problem, Problems, SHOWN_MAX, Tree, all, below, flag, shown, text, unknown_name,
    whole,
};
use numaloc_core::amount;
use prost::{Message, Name};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value,
};
use std::collections::{BTreeMap, HashMap};

/// The rules of a reader.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The fields that may be set; the others are as unknown as any other name.
    pub allowed: fn(&FieldDescriptor) -> bool,
    /// Whether a list may have no element, as if it were missing.
    pub empty_lists: bool,
}

/// Reads a message of which all fields may be set.
///
/// # Errors
/// All faults.
pub fn read_message<M: Message + Name + Default>(tree: &Tree) -> Result<M, Problems> {
    all("", tree, of_tree)
}

/// Reads a message Schedule as [`read_message`] does: what `id` makes of its name, and its contents.
///
/// # Errors
/// All faults, those of the contents and the one that `id` finds in the name included.
pub fn read_schedule<I>(
    tree: &Tree,
    id: impl Fn(&str) -> Result<I, String>,
) -> Result<(I, ScheduleSpec), Problems> {
    all("", tree, |tree| {
        let mut schedule: v1::Schedule = of_tree(tree)?;
        let name = std::mem::take(&mut schedule.name);
        let id = id(&name).map_err(|why| Problem::new("name", why, ""));
        let spec = ScheduleSpec::try_from(schedule).map_err(|bad| problems("", &bad));
        match (id, spec) {
            (Ok(id), Ok(spec)) => Ok((id, spec)),
            (id, spec) => Err(id
                .err()
                .into_iter()
                .chain(spec.err().into_iter().flatten())
                .collect::<Problems>()),
        }
    })
}

/// Violations of the message at `path` as faults.
pub fn problems(path: &str, violations: &Violations) -> Problems {
    let one =
        |of: &crate::Violation| Problem::new(&below(path, &of.field), of.problem.to_string(), "");
    violations.iter().map(one).collect()
}

fn of_tree<M: Message + Name + Default>(tree: &Tree) -> Result<M, Problem> {
    let Tree::Map(map) = tree else { return Err(Problem::sort("", "an object", tree)) };
    message("", map, Rules { allowed: |_| true, empty_lists: true }, &[])
}

/// Reads an object, which is at `path`. Fields that are `null` count as missing. `also` are names that the caller takes itself.
///
/// # Errors
/// The first fault.
pub fn message<M: Message + Name + Default>(
    path: &str,
    map: &BTreeMap<String, Tree>,
    rules: Rules,
    also: &[&str],
) -> Result<M, Problem> {
    let broken = |why: String| Problem::new(path, why, "");
    let descriptor = descriptor::<M>().map_err(broken)?;
    let read = object(path, map, &descriptor, rules, also)?;
    read.transcode_to().map_err(|error| broken(error.to_string()))
}

fn object(
    path: &str,
    map: &BTreeMap<String, Tree>,
    descriptor: &MessageDescriptor,
    rules: Rules,
    also: &[&str],
) -> Result<DynamicMessage, Problem> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, tree) in map {
        let at = below(path, name);
        let Some(field) = descriptor.get_field_by_name(name).filter(rules.allowed) else {
            let fields =
                descriptor.fields().filter(rules.allowed).map(|field| field.name().to_owned());
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
        let value = match (field.is_list(), field.is_map()) {
            (true, _) => list(&at, tree, &field, rules)?,
            (_, true) => entries(&at, tree, &field, rules)?,
            _ => single(&at, tree, &field, rules)?,
        };
        message.set_field(&field, value);
    }
    Ok(message)
}

fn list(path: &str, tree: &Tree, field: &FieldDescriptor, rules: Rules) -> Result<Value, Problem> {
    let Tree::List(list) = tree else {
        return Err(Problem::sort(path, "a list such as [0, 1]", tree));
    };
    if list.is_empty() && !rules.empty_lists {
        return Err(Problem::new(path, "is empty", "name at least one, or leave it out"));
    }
    let one = |(index, tree)| single(&format!("{path}[{index}]"), tree, field, rules);
    list.iter().enumerate().map(one).collect::<Result<_, _>>().map(Value::List)
}

/// The entries of a map, such as labels.
fn entries(
    path: &str,
    tree: &Tree,
    field: &FieldDescriptor,
    rules: Rules,
) -> Result<Value, Problem> {
    let Tree::Map(map) = tree else { return Err(Problem::sort(path, "an object", tree)) };
    let Kind::Message(entry) = field.kind() else { return Err(unsettable(path)) };
    let field = entry.map_entry_value_field();
    let one = |(key, tree): (&String, &Tree)| {
        let value = single(&below(path, key), tree, &field, rules)?;
        Ok((prost_reflect::MapKey::String(key.clone()), value))
    };
    map.iter().map(one).collect::<Result<HashMap<_, _>, _>>().map(Value::Map)
}

fn single(
    path: &str,
    tree: &Tree,
    field: &FieldDescriptor,
    rules: Rules,
) -> Result<Value, Problem> {
    const MOST: u64 = i32::MAX as u64;
    match field.kind() {
        Kind::Bool => flag(path, tree).map(Value::Bool),
        Kind::String => text(path, tree).map(|text| Value::String(text.to_owned())),
        Kind::Int32 if field.name().ends_with("_percent") => percent(path, tree).map(Value::I32),
        Kind::Int32 => whole::<i32>(0..=MOST)(path, tree).map(Value::I32),
        Kind::Uint32 => whole::<u32>(0..=u32::MAX.into())(path, tree).map(Value::U32),
        Kind::Int64 => size(path, tree, field.name().ends_with("_per_second")).map(Value::I64),
        Kind::Enum(names) => choice(path, tree, &names),
        Kind::Message(message) => match (message.full_name(), tree) {
            ("google.protobuf.Duration", _) => duration(path, tree, &message),
            ("google.protobuf.Timestamp", _) => time(path, tree, &message),
            (_, Tree::Map(map)) => object(path, map, &message, rules, &[]).map(Value::Message),
            (_, other) => Err(Problem::sort(path, "an object", other)),
        },
        _ => Err(unsettable(path)),
    }
}

fn unsettable(path: &str) -> Problem {
    Problem::new(path, "cannot be set here", "")
}

/// A number of bytes, also as people write it: `"64M"`; of a rate `"64M/s"`.
fn size(path: &str, tree: &Tree, is_rate: bool) -> Result<i64, Problem> {
    let Tree::Text(given) = tree else {
        return whole(0..=i64::MAX.unsigned_abs())(path, tree);
    };
    let refused = |hint: String| Problem::new(path, named(given), hint);
    let bytes = if is_rate { amount::rate(given) } else { amount::size(given) };
    let bytes = bytes.map_err(|error| refused(error.to_string()))?;
    i64::try_from(bytes).map_err(|_| refused("expected less than 8 EiB".to_owned()))
}

/// A whole percentage, also as people write it: `"80%"`.
fn percent(path: &str, tree: &Tree) -> Result<i32, Problem> {
    let Tree::Text(given) = tree else {
        return whole::<i32>(0..=i32::MAX.unsigned_abs().into())(path, tree);
    };
    let refused = |hint: String| Problem::new(path, named(given), hint);
    match amount::percent(given).map_err(|error| refused(error.to_string()))? {
        percent if percent.fract() == 0.0 => Ok(percent as i32),
        _ => Err(refused("expected a whole percentage".to_owned())),
    }
}

/// A duration as people write it, such as `"10m"`, which includes protobuf's form, `"0.5s"`.
fn duration(path: &str, tree: &Tree, message: &MessageDescriptor) -> Result<Value, Problem> {
    let Tree::Text(given) = tree else {
        return Err(Problem::sort(path, "a duration such as \"10m\"", tree));
    };
    let refused = |hint: String| Problem::new(path, named(given), hint);
    let span = amount::duration(given).map_err(|error| refused(error.to_string()))?;
    let span = prost_types::Duration::try_from(span).map_err(|error| refused(error.to_string()))?;
    well_known(path, message, &span)
}

/// A time as `-o json` prints it.
fn time(path: &str, tree: &Tree, message: &MessageDescriptor) -> Result<Value, Problem> {
    const EXPECTED: &str = "a time such as \"2026-11-20T08:00:00Z\"";
    let Tree::Text(given) = tree else { return Err(Problem::sort(path, EXPECTED, tree)) };
    let time = given.parse::<prost_types::Timestamp>();
    let refused = |_| Problem::new(path, named(given), format!("expected {EXPECTED}"));
    well_known(path, message, &time.map_err(refused)?)
}

fn well_known(
    path: &str,
    message: &MessageDescriptor,
    value: &impl Message,
) -> Result<Value, Problem> {
    let mut dynamic = DynamicMessage::new(message.clone());
    let read = dynamic.transcode_from(value);
    read.map_err(|error| Problem::new(path, error.to_string(), ""))?;
    Ok(Value::Message(dynamic))
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
    use crate::samples;

    fn read(text: &str) -> Result<v1::MigrationSpec, String> {
        let Ok(Tree::Map(map)) = serde_json::from_str(text) else { panic!("{text}: no object") };
        let rules = Rules { allowed: |field| field.name() != "tenant", empty_lists: false };
        message("o", &map, rules, &["also"])
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
    fn errors_name_the_fault_and_the_expected_text() {
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

    fn schedule(text: &str) -> Result<v1::Schedule, String> {
        let tree = serde_json::from_str(text).expect("JSON");
        read_message(&tree).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_message_is_read_as_it_is_printed() {
        let stored = v1::Schedule::from(&samples::schedule());
        let printed = serde_json::to_string(&stored).expect("JSON");
        assert_eq!(schedule(&printed), Ok(stored));
    }

    #[test]
    fn amounts_are_written_as_on_the_command_line() {
        let read = schedule(
            r#"{"name": "a", "labels": {"team": "db"}, "interval": "1d 2h", "jitter": "3 h 2 min", "spec": {"target": {"pids": []},
            "policy": {"target_ratio_percent": "80%", "node_cpu_percent_max": 90}, "limits": {"rate_bytes_per_second": "1.5G/s",
            "batch_bytes": "4M", "timeout": "5m"}}}"#,
        );
        let read = read.expect("a schedule");
        let seconds = |span: Option<prost_types::Duration>| span.map(|span| span.seconds);
        assert_eq!((seconds(read.interval), seconds(read.jitter)), (Some(93_600), Some(10_920)));
        assert_eq!(read.labels["team"], "db");
        let spec = read.spec.expect("a spec");
        let (policy, limits) = (spec.policy.expect("a policy"), spec.limits.expect("limits"));
        assert_eq!(policy.target_ratio_percent, Some(80));
        assert_eq!(policy.node_cpu_percent_max, Some(90));
        assert_eq!(
            (limits.rate_bytes_per_second, limits.batch_bytes),
            (Some(3 << 29), Some(4 << 20))
        );
        for (text, expected) in [
            (r#"{"interval": "5x"}"#, "interval is \"5x\"; expected a duration such as"),
            (r#"{"labels": {"a": 1}}"#, "labels.a must be text, and is a number"),
            (r#"{"create_time": "now"}"#, "create_time is \"now\"; expected a time such as"),
            ("[]", "it must be an object, and is a list"),
            (
                r#"{"spec": {"policy": {"target_ratio_percent": "80.5%"}}}"#,
                "spec.policy.target_ratio_percent is \"80.5%\"; expected a whole percentage",
            ),
        ] {
            let error = schedule(text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
