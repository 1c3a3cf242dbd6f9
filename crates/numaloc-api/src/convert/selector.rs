//! Label selectors, made of match_labels and match_expressions as in Kubernetes.

use super::{
    check::{count, text, token},
    labels::{LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, labels},
    names::must_name,
};
use crate::{
    Problem, Violations, v1,
    value::{Condition, Requirement, Selector, TOKEN_MAX},
};
use std::collections::BTreeSet;

/// Most values of a condition.
const VALUES_MAX: usize = 64;

/// Reads a selector. It may have no condition.
pub fn selector(field: &str, from: v1::LabelSelector, bad: &mut Violations) -> Selector {
    let at = |name: &str| format!("{field}.{name}");
    let labels = labels(&at("match_labels"), from.match_labels, bad);
    let mut requirements: BTreeSet<_> =
        labels.into_iter().map(|(key, value)| Requirement::equals(key, value)).collect();
    if count(&at("match_expressions"), from.match_expressions.len(), LABELS_MAX, bad) {
        let one =
            |(index, from)| requirement(&at(&format!("match_expressions[{index}]")), from, bad);
        requirements.extend(from.match_expressions.into_iter().enumerate().filter_map(one));
    }
    Selector { namespace: token(&at("namespace"), from.namespace, TOKEN_MAX, bad), requirements }
}

fn requirement(
    field: &str,
    from: v1::LabelSelectorRequirement,
    bad: &mut Violations,
) -> Option<Requirement> {
    use v1::LabelSelectorOperator as Operator;
    let at = |name: &str| format!("{field}.{name}");
    if from.key.is_empty() {
        bad.push(at("key"), Problem::Missing);
    }
    let key = text(&at("key"), from.key, LABEL_KEY_MAX, bad);
    let operator = must_name(&at("operator"), from.operator, bad)?;
    let values = match operator {
        Operator::In | Operator::NotIn => values(&at("values"), from.values, bad),
        Operator::Exists | Operator::DoesNotExist | Operator::Unspecified => {
            if !from.values.is_empty() {
                bad.push(at("values"), Problem::NotEmpty);
            }
            BTreeSet::new()
        }
    };
    let condition = match operator {
        Operator::In => Condition::In(values),
        Operator::NotIn => Condition::NotIn(values),
        Operator::Exists => Condition::Exists,
        Operator::DoesNotExist => Condition::DoesNotExist,
        Operator::Unspecified => return None,
    };
    Some(Requirement { key: key?, condition })
}

fn values(field: &str, from: Vec<String>, bad: &mut Violations) -> BTreeSet<String> {
    if from.is_empty() {
        bad.push(field, Problem::Missing);
    }
    if !count(field, from.len(), VALUES_MAX, bad) {
        return BTreeSet::new();
    }
    // An empty value is a value, too.
    let one = |(index, value)| text(&format!("{field}[{index}]"), value, LABEL_VALUE_MAX, bad);
    from.into_iter().enumerate().map(one).map(Option::unwrap_or_default).collect()
}

impl From<&Selector> for v1::LabelSelector {
    /// A condition with one value becomes an entry of match_labels. match_labels has one entry for each label, so further
    /// conditions on the same label stay in match_expressions.
    fn from(selector: &Selector) -> Self {
        let mut message =
            Self { namespace: selector.namespace.clone().unwrap_or_default(), ..Self::default() };
        for required in &selector.requirements {
            match required.only_value() {
                Some(value) if !message.match_labels.contains_key(&required.key) => {
                    message.match_labels.insert(required.key.clone(), value.clone());
                }
                _ => message.match_expressions.push(required.into()),
            }
        }
        message
    }
}

impl From<&Requirement> for v1::LabelSelectorRequirement {
    fn from(required: &Requirement) -> Self {
        use v1::LabelSelectorOperator as Operator;
        let operator = match &required.condition {
            Condition::In(_) => Operator::In,
            Condition::NotIn(_) => Operator::NotIn,
            Condition::Exists => Operator::Exists,
            Condition::DoesNotExist => Operator::DoesNotExist,
        };
        let values = required.condition.values().cloned().collect();
        Self { key: required.key.clone(), operator: operator.into(), values }
    }
}

impl From<v1::LabelSelector> for Selector {
    /// For answers of a daemon. Requirements that cannot be parsed are left out.
    fn from(message: v1::LabelSelector) -> Self {
        selector("", message, &mut Violations::of_record())
    }
}
