//! Labels as they are kept in memory of each event.

use std::collections::BTreeMap;

/// Labels in one block of memory: events are many, and most have few labels or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedLabels(Box<str>);

/// No label has control characters.
const BEFORE_KEY: char = '\0';
const BEFORE_VALUE: char = '\u{1}';

impl PackedLabels {
    /// Whether all of these labels are among them.
    pub fn has_all(&self, wanted: &BTreeMap<String, String>) -> bool {
        wanted.iter().all(|label| {
            let text = format!("{}{BEFORE_KEY}", written(label));
            self.0.contains(&text)
        })
    }
}

impl From<&BTreeMap<String, String>> for PackedLabels {
    fn from(labels: &BTreeMap<String, String>) -> Self {
        let mut text: String = labels.iter().map(written).collect();
        if !text.is_empty() {
            text.push(BEFORE_KEY);
        }
        Self(text.into())
    }
}

fn written((key, value): (&String, &String)) -> String {
    format!("{BEFORE_KEY}{key}{BEFORE_VALUE}{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn labels_match_as_a_whole() {
        let kept = PackedLabels::from(&labels(&[("app", "web"), ("empty", ""), ("tier", "a")]));
        let has = |pairs: &[(&str, &str)]| kept.has_all(&labels(pairs));
        for pairs in [
            &[][..],
            &[("app", "web")],
            &[("empty", "")],
            &[("tier", "a"), ("app", "web"), ("empty", "")],
        ] {
            assert!(has(pairs), "{pairs:?}");
        }
        for pairs in
            [[("app", "we")], [("pp", "web")], [("app", "")], [("app", "webx")], [("web", "app")]]
        {
            assert!(!has(&pairs), "{pairs:?}");
        }
        assert!(!has(&[("app", "web"), ("tier", "b")]));
        let none = PackedLabels::from(&labels(&[]));
        assert!(none.has_all(&labels(&[])) && !none.has_all(&labels(&[("app", "web")])));
    }
}
