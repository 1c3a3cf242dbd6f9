//! Label selectors, with the meaning and the text form that they have in Kubernetes
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>).

use super::few::first_few;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

/// Selects the workloads that meet every condition. The conditions are sorted and unique, so that equal selectors compare
/// as equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// The namespace that a workload must be in; `None`: any namespace, or none.
    pub namespace: Option<String>,
    /// The conditions on its labels.
    pub requirements: BTreeSet<Requirement>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The key of the label that the condition is about.
    pub key: String,
    /// Condition on the label.
    pub condition: Condition,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The label is there with one of these values; there is at least one.
    In(BTreeSet<String>),
    /// The label is not there, or has none of these values; there is at least one.
    NotIn(BTreeSet<String>),
    /// The workload has the label, with any value.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

impl Condition {
    fn holds(&self, value: Option<&String>) -> bool {
        match self {
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }

    /// The values that it names.
    pub fn values(&self) -> impl Iterator<Item = &String> {
        match self {
            Self::In(values) | Self::NotIn(values) => Some(values),
            Self::Exists | Self::DoesNotExist => None,
        }
        .into_iter()
        .flatten()
    }
}

impl Requirement {
    /// The condition that a label has exactly this value.
    pub fn equals(key: String, value: String) -> Self {
        Self { key, condition: Condition::In([value].into()) }
    }

    /// The value that the label must have, if only one is possible.
    pub fn only_value(&self) -> Option<&String> {
        match &self.condition {
            Condition::In(values) if values.len() == 1 => values.first(),
            _ => None,
        }
    }
}

impl Selector {
    /// Whether it has no condition.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Whether a workload in this namespace and with these labels meets every condition.
    pub fn matches(&self, namespace: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
        let holds = |required: &Requirement| required.condition.holds(labels.get(&required.key));
        self.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted))
            && self.requirements.iter().all(holds)
    }

    /// Its first few conditions as text for people; `None` if it has none.
    pub(super) fn in_short(&self) -> Option<String> {
        let labels = first_few(self.requirements.iter()).map(|few| format!("label {few}"));
        let namespace = self.namespace.as_ref().map(|namespace| format!("namespace {namespace}"));
        let parts: Vec<_> = labels.into_iter().chain(namespace).collect();
        (!parts.is_empty()).then(|| parts.join(" in "))
    }
}

impl FromIterator<Requirement> for Selector {
    /// A selector for any namespace.
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        Self { namespace: None, requirements: requirements.into_iter().collect() }
    }
}

impl<const N: usize> From<[(String, String); N]> for Selector {
    /// Selects workloads that have all of these labels.
    fn from(labels: [(String, String); N]) -> Self {
        labels.into_iter().map(|(key, value)| Requirement::equals(key, value)).collect()
    }
}

impl fmt::Display for Requirement {
    /// In the text form of Kubernetes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || self.condition.values().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.condition {
            Condition::In(set) if set.len() == 1 => write!(f, "{}={}", self.key, values()),
            Condition::NotIn(set) if set.len() == 1 => write!(f, "{}!={}", self.key, values()),
            Condition::In(_) => write!(f, "{} in ({})", self.key, values()),
            Condition::NotIn(_) => write!(f, "{} notin ({})", self.key, values()),
            Condition::Exists => f.write_str(&self.key),
            Condition::DoesNotExist => write!(f, "!{}", self.key),
        }
    }
}

/// Why a text cannot be read as a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a valid selector, for example app=redis,tier in (db,cache),!old: {reason}"
)]
pub struct NoSelector {
    text: String,
    reason: String,
}

impl FromStr for Selector {
    type Err = NoSelector;

    /// Reads the text form of Kubernetes: conditions with commas between them. Each is `KEY=VALUE` (or `==`), `KEY!=VALUE`,
    /// `KEY in (VALUE,...)`, `KEY notin (VALUE,...)`, `KEY` or `!KEY`.
    fn from_str(text: &str) -> Result<Self, NoSelector> {
        let failed = |reason| NoSelector { text: text.to_owned(), reason };
        let mut words = Words(text);
        let mut requirements = BTreeSet::new();
        loop {
            requirements.insert(requirement(&mut words).map_err(failed)?);
            match words.next() {
                None => return Ok(Self { namespace: None, requirements }),
                Some(",") => {}
                Some(other) => return Err(failed(format!("a comma is missing before '{other}'"))),
            }
        }
    }
}

fn requirement(words: &mut Words<'_>) -> Result<Requirement, String> {
    match words.next() {
        Some("!") => {
            Ok(Requirement { key: name(words.next())?, condition: Condition::DoesNotExist })
        }
        key => Ok(Requirement { key: name(key)?, condition: condition(words)? }),
    }
}

/// Reads what follows a key.
fn condition(words: &mut Words<'_>) -> Result<Condition, String> {
    let sign = words.peek().filter(|sign| *sign != ",");
    if sign.is_some() {
        words.next();
    }
    match sign {
        None => Ok(Condition::Exists),
        Some("=" | "==") => Ok(Condition::In([value(words)].into())),
        Some("!=") => Ok(Condition::NotIn([value(words)].into())),
        Some("in") => Ok(Condition::In(values(words)?)),
        Some("notin") => Ok(Condition::NotIn(values(words)?)),
        Some(other) => Err(format!("'{other}' stands where =, !=, in or notin was expected")),
    }
}

fn name(word: Option<&str>) -> Result<String, String> {
    match word {
        Some(word) if !is_sign(word) => Ok(word.to_owned()),
        Some(sign) => Err(format!("'{sign}' stands where a label was expected")),
        None => Err("it ends where a label was expected".to_owned()),
    }
}

/// Reads a value, which may be empty.
fn value(words: &mut Words<'_>) -> String {
    let word = words.peek().filter(|word| !is_sign(word));
    if word.is_some() {
        words.next();
    }
    word.unwrap_or_default().to_owned()
}

fn values(words: &mut Words<'_>) -> Result<BTreeSet<String>, String> {
    if words.next() != Some("(") {
        return Err("values in parentheses are expected behind in and notin".to_owned());
    }
    let mut values = BTreeSet::new();
    loop {
        values.insert(value(words));
        match words.next() {
            Some(")") => return Ok(values),
            Some(",") => {}
            _ => return Err("a closing parenthesis is missing".to_owned()),
        }
    }
}

fn is_sign(word: &str) -> bool {
    word.starts_with(['=', '!', '(', ')', ',', '<', '>'])
}

/// The rest of a text, word by word.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        let rest = self.0.trim_start();
        let sign = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];
        let sign = sign.into_iter().find(|sign| rest.starts_with(sign));
        let ends = |c: char| c.is_whitespace() || is_sign(c.encode_utf8(&mut [0; 4]));
        let end = sign.map_or_else(|| rest.find(ends).unwrap_or(rest.len()), str::len);
        (end > 0).then(|| &rest[..end])
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.0 = &self.0.trim_start()[word.len()..];
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Selector {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The results are those of LabelSelectorAsSelector and labels.Requirement.Matches in k8s.io/apimachinery.
    #[test]
    fn conditions_mean_what_they_mean_in_kubernetes() {
        let labels = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let redis = labels(&[("app", "redis"), ("tier", "db"), ("empty", "")]);
        let none = labels(&[]);
        for (text, of_redis, of_none) in [
            ("app=redis", true, false),
            ("app==redis", true, false),
            ("app=web", false, false),
            ("app!=web", true, true),
            ("app!=redis", false, true),
            ("app in (redis,web)", true, false),
            ("app in (web)", false, false),
            ("app notin (web,cron)", true, true),
            ("app notin (redis,web)", false, true),
            ("app", true, false),
            ("!app", false, true),
            ("other", false, false),
            ("!other", true, true),
            // An empty value is a value; the label is not missing.
            ("empty", true, false),
            ("empty=", true, false),
            ("empty in ()", true, false),
            ("empty notin ()", false, true),
            ("other=", false, false),
            ("other notin ()", true, true),
            // All conditions have to hold.
            ("app=redis,tier in (db,cache),!other", true, false),
            ("app=redis,tier=cache", false, false),
            ("app=redis,app=web", false, false),
            ("app!=web,tier!=web", true, true),
        ] {
            let selector = read(text);
            let found = [&redis, &none].map(|labels| selector.matches(None, labels));
            assert_eq!(found, [of_redis, of_none], "{text}");
        }
        assert!(Selector::default().matches(None, &none), "what asks nothing takes all");
    }

    #[test]
    fn a_namespace_is_one_more_condition() {
        let labels = BTreeMap::from([("app".to_owned(), "redis".to_owned())]);
        let named = Selector { namespace: Some("prod".to_owned()), ..read("app=redis") };
        for (namespace, expected) in [(Some("prod"), true), (Some("test"), false), (None, false)] {
            assert_eq!(named.matches(namespace, &labels), expected, "{namespace:?}");
            assert!(read("app=redis").matches(namespace, &labels), "{namespace:?}");
        }
        assert!(!named.matches(Some("prod"), &BTreeMap::new()));
        assert_eq!(named.in_short().as_deref(), Some("label app=redis in namespace prod"));
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for (text, written) in [
            ("a=b", "a=b"),
            (" a == b ", "a=b"),
            ("a in (b)", "a=b"),
            ("a in ( c , b )", "a in (b,c)"),
            ("a notin (b)", "a!=b"),
            ("a notin(b,c)", "a notin (b,c)"),
            ("app.io/name", "app.io/name"),
            ("! a", "!a"),
            ("a in (,b)", "a in (,b)"),
            ("in in (in)", "in=in"),
        ] {
            let selector = read(text);
            let [only] = &selector.requirements.iter().collect::<Vec<_>>()[..] else {
                panic!("{selector:?}")
            };
            assert_eq!(only.to_string(), written, "{text}");
            assert_eq!(read(written), selector, "{written}");
        }
    }

    #[test]
    fn nonsense_is_not_a_selector() {
        for (text, reason) in [
            ("", "it ends"),
            (",", "','"),
            ("a,", "it ends"),
            ("=a", "'='"),
            ("a b", "'b'"),
            ("a=b c", "before 'c'"),
            ("a in b", "in parentheses"),
            ("a in (b", "closing"),
            ("a in (b c)", "closing"),
            ("a>1", "'>'"),
            ("!", "it ends"),
            ("!!a", "'!'"),
            ("a!b", "'!'"),
        ] {
            let error = text.parse::<Selector>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
