//! Which nodes a strategy is for: a label selector of Kubernetes.

use numaloc_api::written::{Problem, SHOWN_MAX, Tree, below, shown};
use std::collections::BTreeMap;

/// A label selector (`metav1.LabelSelector`). One without a condition selects every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSelector {
    labels: BTreeMap<String, String>,
    expressions: Vec<Expression>,
    /// None was given, which selects nothing.
    is_missing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Expression {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl NodeSelector {
    /// Reads the selector at `path`.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn read(path: &str, tree: &Tree) -> Result<Self, Problem> {
        let map = match tree {
            Tree::Null => return Ok(Self { is_missing: true, ..Self::default() }),
            Tree::Map(map) => map,
            other => return Err(Problem::sort(path, "an object", other)),
        };
        let mut selector = Self::default();
        for (name, value) in map {
            let path = below(path, name);
            match (name.as_str(), value) {
                (_, Tree::Null) => {}
                ("matchLabels", Tree::Map(labels)) => {
                    let one = |(key, value): (&String, &Tree)| {
                        Ok((key.clone(), text(&below(&path, key), value)?))
                    };
                    selector.labels = labels.iter().map(one).collect::<Result<_, Problem>>()?;
                }
                ("matchLabels", other) => return Err(Problem::sort(&path, "an object", other)),
                ("matchExpressions", Tree::List(list)) => {
                    let one = |(at, tree)| Expression::read(&format!("{path}[{at}]"), tree);
                    let expressions = list.iter().enumerate().map(one);
                    selector.expressions = expressions.collect::<Result<_, Problem>>()?;
                }
                ("matchExpressions", other) => {
                    return Err(Problem::sort(&path, "a list", other));
                }
                _ => {
                    let hint = "known here: matchLabels, matchExpressions";
                    return Err(Problem::new(&path, "is not known", hint));
                }
            }
        }
        Ok(selector)
    }

    /// Whether a node with these labels is selected.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.is_missing
            && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|expression| expression.holds(labels))
    }
}

impl Expression {
    fn read(path: &str, tree: &Tree) -> Result<Self, Problem> {
        let Tree::Map(map) = tree else { return Err(Problem::sort(path, "an object", tree)) };
        let named = |name| (below(path, name), map.get(name).unwrap_or(&Tree::Null));
        let (key_path, key) = named("key");
        let (operator_path, operator) = named("operator");
        let operator = match text(&operator_path, operator)?.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                let problem = format!("is \"{}\", which is not known", shown(other, SHOWN_MAX));
                let hint = "write In, NotIn, Exists or DoesNotExist";
                return Err(Problem::new(&operator_path, problem, hint));
            }
        };
        let (values_path, values) = named("values");
        let values = match values {
            Tree::Null => Vec::new(),
            Tree::List(list) => {
                let one = |(at, tree)| text(&format!("{values_path}[{at}]"), tree);
                list.iter().enumerate().map(one).collect::<Result<_, _>>()?
            }
            other => return Err(Problem::sort(&values_path, "a list", other)),
        };
        if matches!(operator, Operator::In | Operator::NotIn) == values.is_empty() {
            let problem = "must name values for In and NotIn, and none for the others";
            return Err(Problem::new(&values_path, problem, ""));
        }
        Ok(Self { key: text(&key_path, key)?, operator, values })
    }

    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_among = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::In => is_among,
            Operator::NotIn => !is_among,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

fn text(path: &str, tree: &Tree) -> Result<String, Problem> {
    match tree {
        Tree::Text(text) => Ok(text.clone()),
        other => Err(Problem::sort(path, "text", other)),
    }
}
