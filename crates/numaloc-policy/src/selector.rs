//! Selectors of Kubernetes: which labels an object has to have (`LabelSelector` of apimachinery,
//! pkg/apis/meta/v1/types.go).

use numaloc_config::written::{Object, Problem, Tree, below, list, one_of, text, texts};
use std::collections::{BTreeMap, BTreeSet};

/// Longest value of a label, and longest name in its key. RFC 1123 has the same for names of namespaces and containers.
pub const LABEL_MAX: usize = 63;
/// Longest prefix of a label's key.
const PREFIX_MAX: usize = 253;

/// The labels that an object has to have. Without any requirement it takes all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

const OPERATORS: [(&str, Operator); 4] = [
    ("In", Operator::In),
    ("NotIn", Operator::NotIn),
    ("Exists", Operator::Exists),
    ("DoesNotExist", Operator::DoesNotExist),
];

impl Selector {
    /// Reads `matchLabels` and `matchExpressions`.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn read(path: &str, tree: &Tree) -> Result<Self, Problem> {
        let mut object = Object::of(path, tree)?;
        let equal = object.take("matchLabels", labels)?.unwrap_or_default();
        let mut requirements: Vec<_> = equal
            .into_iter()
            .map(|(key, value)| Requirement { key, operator: Operator::In, values: [value].into() })
            .collect();
        let more = object.take("matchExpressions", |path, tree| list(path, tree, requirement))?;
        requirements.extend(more.unwrap_or_default());
        object.end()?;
        Ok(Self { requirements })
    }

    /// Whether it takes all objects, whatever their labels are.
    pub fn is_for_all(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|Requirement { key, operator, values }| {
            let value = labels.get(key);
            match operator {
                Operator::In => value.is_some_and(|value| values.contains(value)),
                // As in Kubernetes an object without the label is not in the set.
                Operator::NotIn => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

fn labels(path: &str, tree: &Tree) -> Result<BTreeMap<String, String>, Problem> {
    let Tree::Map(map) = tree else { return Err(Problem::sort(path, "an object", tree)) };
    let one = |(key, written): (&String, &Tree)| {
        let path = below(path, key);
        checked_key(&path, key)?;
        Ok((key.clone(), value(&path, text(&path, written)?)?))
    };
    map.iter().map(one).collect()
}

/// As Kubernetes checks the selectors of its own kinds; with another key or value nothing could be selected.
fn checked_key(path: &str, key: &str) -> Result<(), Problem> {
    let problem = || {
        Problem::new(path, "has a key that no label can have", "write it as NAME or PREFIX/NAME")
    };
    is_label_key(key).then_some(()).ok_or_else(problem)
}

fn value(path: &str, value: &str) -> Result<String, Problem> {
    let hint = "at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    let problem = || Problem::new(path, "is a value that no label can have", hint);
    (value.is_empty() || is_name(value)).then(|| value.to_owned()).ok_or_else(problem)
}

/// Whether a label may have this key (apimachinery, pkg/util/validation, `IsQualifiedName`).
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name(key),
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
    }
}

/// A value, or the name in a key: both have the same bound.
fn is_name(name: &str) -> bool {
    name.len() <= LABEL_MAX && is_word(name, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// RFC 1123, in lower case.
fn is_subdomain(prefix: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    prefix.len() <= PREFIX_MAX && prefix.split('.').all(|part| is_word(part, is_inner, b"-"))
}

/// Whether it begins and ends with such a byte, and has no others between but these.
fn is_word(text: &str, is_end: impl Fn(u8) -> bool, between: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let has_ends =
        [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(|&end| is_end(end)));
    has_ends && bytes.iter().all(|&byte| is_end(byte) || between.contains(&byte))
}

fn requirement(path: &str, tree: &Tree) -> Result<Requirement, Problem> {
    let mut object = Object::of(path, tree)?;
    let key = object.required("key", text)?.to_owned();
    checked_key(&below(path, "key"), &key)?;
    let operator = object.required("operator", one_of(OPERATORS))?;
    let values = object.take("values", texts)?.unwrap_or_default();
    object.end()?;
    let values_path = below(path, "values");
    values.iter().try_for_each(|one| value(&values_path, one).map(drop))?;
    match (operator, values.is_empty()) {
        (Operator::In | Operator::NotIn, true) => {
            Err(Problem::new(&values_path, "is empty", "name at least one value"))
        }
        (Operator::Exists | Operator::DoesNotExist, false) => {
            Err(Problem::new(&values_path, "has no meaning with this operator", "leave it out"))
        }
        _ => Ok(Requirement { key, operator, values }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Selector, String> {
        let tree = serde_json::from_str(text).expect("JSON");
        Selector::read("s", &tree).map_err(|problem| problem.to_string())
    }

    fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn operators_mean_what_they_mean_in_kubernetes() {
        let (redis, other) = (labels(&[("app", "redis")]), labels(&[("tier", "db")]));
        for (text, has_redis, has_other) in [
            ("{}", true, true),
            (r#"{"matchLabels": {"app": "redis"}}"#, true, false),
            (r#"{"matchLabels": {"app": "redis", "tier": "db"}}"#, false, false),
            (
                r#"{"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "redis"]}]}"#,
                true,
                false,
            ),
            (
                r#"{"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["redis"]}]}"#,
                false,
                true,
            ),
            (r#"{"matchExpressions": [{"key": "app", "operator": "Exists"}]}"#, true, false),
            (r#"{"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}"#, false, true),
        ] {
            let selector = read(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            let found = (selector.matches(&redis), selector.matches(&other));
            assert_eq!(found, (has_redis, has_other), "{text}");
        }
    }

    #[test]
    fn keys_are_those_that_labels_may_have() {
        let (name, prefix) = ("x".repeat(63), format!("{}a", "a.".repeat(126)));
        assert_eq!(prefix.len(), 253);
        let longest = format!("{prefix}/{name}");
        for key in ["app", "A_b.c-9", "example.com/app", "a/b", &longest] {
            assert!(is_label_key(key), "{key}");
        }
        let (long_name, long_prefix) = (format!("{name}x"), format!("{prefix}a/b"));
        let bad = [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a_",
            "a b",
            "Example.com/a",
            "a..b/c",
            "-a.b/c",
            "\u{e4}",
        ];
        for key in bad.into_iter().chain([&*long_name, &*long_prefix]) {
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn a_mistake_is_named_by_its_path() {
        for (text, expected) in [
            (
                r#"{"matchLabel": {}}"#,
                "s.matchLabel is not known; known here: matchExpressions, matchLabels",
            ),
            (r#"{"matchLabels": {"app": 1}}"#, "s.matchLabels.app must be text, and is a number"),
            (
                r#"{"matchExpressions": [{"operator": "Exists"}]}"#,
                "s.matchExpressions[0].key is missing",
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Is"}]}"#,
                "s.matchExpressions[0].operator is \"Is\", which is not known",
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "In"}]}"#,
                "s.matchExpressions[0].values is empty; name at least one value",
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}"#,
                "s.matchExpressions[0].values has no meaning with this operator; leave it out",
            ),
            (
                r#"{"matchLabels": {"app name": "a"}}"#,
                "s.matchLabels.app name has a key that no label can have",
            ),
            (
                r#"{"matchExpressions": [{"key": "/app", "operator": "Exists"}]}"#,
                "s.matchExpressions[0].key has a key that no label can have; write it as NAME",
            ),
            (r#"{"matchLabels": {"app": "a b"}}"#, "s.matchLabels.app is a value that no label"),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "-"]}]}"#,
                "s.matchExpressions[0].values is a value that no label can have",
            ),
        ] {
            let problem = read(text).expect_err(text);
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
