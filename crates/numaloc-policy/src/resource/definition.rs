//! The kinds as CustomResourceDefinitions. Their schema of a schedule is made of the API's definitions, so both take
//! the same fields.

use super::{
    PRIORITY_MAX, PolicyKind,
    group::{GROUP, VERSION},
    rollout, status,
};
use crate::{ceilings, own, selector::LABEL_MAX};
use numaloc_core::{Profile, amount};
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// Most elements of a list: the API server has to know how many there may be before it takes a rule for each.
const LIST_MAX: u32 = 64;
/// Most nodes of a list.
const NODES_MAX: u32 = 1024;
/// Longest text of an amount, such as `1d 2h`.
const AMOUNT_MAX: u32 = 32;
/// Longest key of a label: a prefix of 253 characters, a slash, and a name of 63.
const KEY_MAX: u32 = 317;
/// A key that a label may have. A schema cannot compare the keys of `matchLabels`: the agent refuses these.
const KEY_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
/// A value that a label may have.
const VALUE_PATTERN: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

/// The definition of a kind, an object of `apiextensions.k8s.io/v1`.
pub fn definition(kind: PolicyKind) -> Value {
    let (scope, short) = match kind {
        PolicyKind::Namespaced => ("Namespaced", "mlp"),
        PolicyKind::Cluster => ("Cluster", "cmlp"),
    };
    let name = kind.name();
    let singular = name.to_ascii_lowercase();
    let plural = kind.plural();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": name, "listKind": format!("{name}List"), "plural": plural, "singular": singular, "shortNames": [short],
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns(kind),
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": about(kind),
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec(kind),
                        "status": status::definition(),
                    },
                }},
            }],
        },
    })
}

fn about(kind: PolicyKind) -> &'static str {
    match kind {
        PolicyKind::Namespaced => {
            "Brings the memory of pods of this namespace to the NUMA nodes of their CPUs. Annotations of a pod decide before it."
        }
        PolicyKind::Cluster => {
            "Brings the memory of pods of all namespaces to the NUMA nodes of their CPUs, and bounds what they may ask for \
             themselves."
        }
    }
}

fn columns(kind: PolicyKind) -> Value {
    let column =
        |name: &str, path: &str, sort: &str| json!({"name": name, "type": sort, "jsonPath": path});
    let mut columns = vec![
        column("Priority", ".spec.priority", "integer"),
        column("Interval", ".spec.schedule.interval", "string"),
    ];
    if kind == PolicyKind::Cluster {
        columns.push(column("Enforce", ".spec.enforce", "boolean"));
        columns.push(column("Rollout", ".spec.rolloutPercent", "integer"));
        columns.push(column("Expires", ".spec.expires", "date"));
    }
    columns.push(column("Paused", ".spec.paused", "boolean"));
    columns.push(column(
        "Accepted",
        ".status.conditions[?(@.type==\"Accepted\")].status",
        "string",
    ));
    columns.push(column("Nodes", ".status.nodes", "integer"));
    columns.push(column("Pods", ".status.pods", "integer"));
    columns.push(column("Waiting", ".status.waitingPods", "integer"));
    columns.push(column("Age", ".metadata.creationTimestamp", "date"));
    Value::Array(columns)
}

fn spec(kind: PolicyKind) -> Value {
    let mut properties = json!({
        "priority": {
            "type": "integer", "format": "int32", "minimum": -PRIORITY_MAX, "maximum": PRIORITY_MAX, "default": 0,
            "description": "Of several policies that match a container, the highest priority decides, then the first name.",
        },
        "podSelector": described(selector(), "The pods, by their labels; all if it is empty or missing."),
        "ownerKinds": described(
            names(LABEL_MAX), "The workloads whose pods it is for, by kind (Deployment, StatefulSet, DaemonSet, Job, Pod or another); all if it is empty or missing.",
        ),
        "containers": described(names(LABEL_MAX), "The containers of a pod, by name, with * and ? for any characters; all if it is empty or missing."),
        "schedule": schedule(),
        "paused": {
            "type": "boolean", "default": false,
            "description": "Whether no run of it starts. Runs under way are cancelled when it is set.",
        },
        "rollout": rollout(),
    });
    let rule = match kind {
        PolicyKind::Namespaced => {
            json!({"rule": "has(self.schedule)", "message": "schedule is missing"})
        }
        PolicyKind::Cluster => {
            let more = cluster();
            merge(&mut properties, more);
            json!({
                "rule": "has(self.schedule) || has(self.bounds)",
                "message": "schedule and bounds are both missing",
            })
        }
    };
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]})
}

fn rollout() -> Value {
    json!({
        "type": "object",
        "description": "When first runs may begin: those of containers for which the policy, as it is now, has not decided before.",
        "properties": {
            "over": described(
                duration(), "The time over which they are spread, from the last change of the policy on: at most 7 days.",
            ),
            "maxNodes": {
                "type": "integer", "format": "int32", "minimum": 1, "maximum": rollout::NODES_MAX,
                "description": "Most nodes on which they are under way at a time.",
            },
            "oneReplica": {
                "type": "boolean", "default": false,
                "description": "Whether they are under way on one pod of a Deployment, StatefulSet or other workload at a time.",
            },
            "hours": {
                "type": "array", "maxItems": rollout::HOURS_MAX, "x-kubernetes-list-type": "set",
                "items": {"type": "string", "maxLength": 11, "pattern": rollout::HOURS_PATTERN},
                "description": "The hours of a day, in UTC, in which they may begin, such as 22:00-06:00; all if it is empty or missing.",
            },
        },
    })
}

fn cluster() -> Value {
    let both = "!has(self.include) || !has(self.exclude) || self.include.all(name, !(name in self.exclude))";
    json!({
        "namespaces": {
            "type": "object",
            "description": "The namespaces, by name, with * and ? for any characters; all if it is empty or missing.",
            "properties": {"include": names(LABEL_MAX), "exclude": names(LABEL_MAX)},
            "x-kubernetes-validations": [{"rule": both, "message": "a namespace is in both include and exclude"}],
        },
        "namespaceSelector": described(selector(), "The namespaces, by their labels; all if it is empty or missing."),
        "qosClasses": {
            "type": "array", "maxItems": 3, "x-kubernetes-list-type": "set",
            "items": {"type": "string", "enum": super::CLASSES.map(|(name, _)| name)},
            "description": "The classes of containers; all if it is empty or missing.",
        },
        "nodeSelector": described(selector(), "The nodes, by their labels; all if it is empty or missing."),
        "rolloutPercent": {
            "type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "default": 100,
            "description": "On how many of the nodes it is in force. Nodes that are reached stay reached when this is raised.",
        },
        "expires": {"type": "string", "format": "date-time", "description": "When it ends. Missing: it does not."},
        "enforce": {
            "type": "boolean", "default": false,
            "description": "Whether it decides before annotations and policies of namespaces do.",
        },
        "bounds": {
            "type": "object",
            "description": "The most that annotations and policies of namespaces may ask for. Keys that are missing have the \
                defaults that pods.ceilings has in the configuration.",
            "properties": bounds(),
        },
    })
}

fn selector() -> Value {
    let operator =
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)";
    json!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object", "maxProperties": LIST_MAX,
                "additionalProperties": label_value(),
            },
            "matchExpressions": {
                "type": "array", "maxItems": LIST_MAX, "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "minLength": 1, "maxLength": KEY_MAX, "pattern": KEY_PATTERN},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": set(label_value()),
                    },
                    "x-kubernetes-validations": [
                        {"rule": operator, "message": "In and NotIn need values, Exists and DoesNotExist have none"},
                    ],
                },
            },
        },
    })
}

fn names(longest: usize) -> Value {
    set(json!({"type": "string", "maxLength": longest}))
}

fn label_value() -> Value {
    json!({"type": "string", "maxLength": LABEL_MAX, "pattern": VALUE_PATTERN})
}

fn set(items: Value) -> Value {
    json!({"type": "array", "maxItems": LIST_MAX, "x-kubernetes-list-type": "set", "items": items})
}

/// The schema of the policy itself: a schedule without its target, and the word that switches it off.
fn schedule() -> Value {
    let mut schema = match own::descriptor() {
        Ok(descriptor) => message(&descriptor),
        Err(_) => json!({"type": "object"}),
    };
    let switch = json!({"type": "string", "enum": own::WANTED.map(|(name, _)| name)});
    merge(&mut schema["properties"], json!({own::SWITCH: switch}));
    described(
        schema,
        "What is done, as in the annotation numaloc.io/policy: a schedule of numaloc.v1 without its target.",
    )
}

fn message(descriptor: &MessageDescriptor) -> Value {
    let fields = descriptor.fields().filter(own::is_of_policies);
    let properties: Map<String, Value> =
        fields.map(|it| (it.name().to_owned(), field(&it))).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    let rules: Vec<Value> = descriptor.oneofs().filter_map(|oneof| {
        let fields = oneof.fields().filter(own::is_of_policies);
        let names: Vec<_> = fields.map(|field| field.name().to_owned()).collect();
        // A field that is `optional` is described as the only one of a oneof.
        (names.len() > 1).then(|| {
            let has: Vec<_> = names.iter().map(|name| format!("has(self.{name})")).collect();
            let rule = format!("[{}].filter(is_there, is_there).size() <= 1", has.join(", "));
            json!({"rule": rule, "message": format!("at most one of {} may be set", names.join(", "))})
        })
    }).collect();
    if !rules.is_empty() {
        schema["x-kubernetes-validations"] = rules.into();
    }
    schema
}

fn field(field: &FieldDescriptor) -> Value {
    let name = field.name();
    let mut one = match field.kind() {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::String => json!({"type": "string", "maxLength": 256}),
        // The text form may have a percent sign.
        Kind::Int32 if name.ends_with("_percent") => {
            let mut share = amount(&amount::percent_pattern());
            merge(&mut share, json!({"maximum": 100}));
            share
        }
        Kind::Int32 | Kind::Uint32 => json!({"type": "integer", "format": "int32", "minimum": 0}),
        Kind::Int64 if name.ends_with("_per_second") => amount(&amount::rate_pattern()),
        Kind::Int64 => amount(&amount::size_pattern()),
        Kind::Enum(names) => json!({"type": "string", "enum": words(&names)}),
        Kind::Message(of) if of.full_name() == "google.protobuf.Duration" => duration(),
        Kind::Message(of) => message(&of),
        _ => json!({"x-kubernetes-preserve-unknown-fields": true}),
    };
    if field.is_list() {
        one = json!({"type": "array", "minItems": 1, "maxItems": NODES_MAX, "x-kubernetes-list-type": "set", "items": one});
    }
    described(one, &comment(field))
}

/// The comment of a field in the definitions, in one line.
fn comment(field: &FieldDescriptor) -> String {
    let file = field.parent_file();
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let mut locations = info.into_iter().flat_map(|info| &info.location);
    let location = locations.find(|location| location.path == field.path());
    let comment = location.map(|location| location.leading_comments()).unwrap_or_default();
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Values of an enum as people write them, and as the API prints them.
fn words(names: &EnumDescriptor) -> Vec<String> {
    let values = || names.values().filter(|value| value.number() != 0);
    let unspecified = names.get_value(0).map_or(String::new(), |value| value.name().to_owned());
    let prefix = unspecified.strip_suffix("UNSPECIFIED").unwrap_or_default().to_owned();
    let short = values().map(|value| {
        value.name().strip_prefix(&prefix).unwrap_or(value.name()).to_ascii_lowercase()
    });
    short.chain(values().map(|value| value.name().to_owned())).collect()
}

/// A number, or text with a unit. The API server compares texts alone with the pattern, and numbers alone with the minimum.
fn amount(pattern: &str) -> Value {
    json!({"x-kubernetes-int-or-string": true, "minimum": 0, "maxLength": AMOUNT_MAX, "pattern": pattern})
}

fn duration() -> Value {
    let pattern = amount::duration_pattern();
    json!({"type": "string", "minLength": 1, "maxLength": AMOUNT_MAX, "pattern": pattern})
}

fn bounds() -> Value {
    let properties = ceilings::KEYS.map(|(name, sort)| {
        let schema = match sort {
            ceilings::Sort::Flag => json!({"type": "boolean"}),
            ceilings::Sort::Count(least, most) => {
                json!({"type": "integer", "format": "int32", "minimum": least, "maximum": most})
            }
            ceilings::Sort::Rate => amount(&amount::rate_pattern()),
            ceilings::Sort::Duration => duration(),
            ceilings::Sort::Profile => {
                json!({"type": "string", "enum": Profile::ALL.map(Profile::name)})
            }
        };
        (name.to_owned(), schema)
    });
    Value::Object(properties.into_iter().collect())
}

fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
