//! `[tiers]`: the memory tiers of a host, as its operator sets them.

use crate::Document;
use numaloc_core::NodeSet;
use serde::{
    Deserialize,
    de::{Deserializer, Error},
};

/// The table. numalocd reads it with the rest of its file; numalocctl without a daemon reads it alone ([`Self::alone`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Tiers {
    /// The nodes of each tier, the fastest first. Empty: the host itself says which tiers it has.
    #[serde(deserialize_with = "order")]
    pub order: Vec<NodeSet>,
}

/// The part of a file that has the table.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    tiers: Tiers,
}

impl Tiers {
    /// The table of the text of numalocd's file. Whatever else is in there does not count, and a table with mistakes counts as none: these
    /// are reported by numalocd.
    pub fn alone(text: &str) -> Self {
        let (file, document) = Document::read::<File>(text);
        document.conclude(file).map(|file| file.tiers).unwrap_or_default()
    }
}

fn order<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NodeSet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let mut seen = NodeSet::new();
    let tier = |text: String| {
        let nodes: NodeSet = text.parse().map_err(|_| invalid::<D>(&text))?;
        if nodes.is_empty() {
            return Err(invalid::<D>(&text));
        }
        if nodes.intersects(&seen) {
            let message = format!("node {} is in two tiers: name it once", nodes.and(&seen));
            return Err(D::Error::custom(message));
        }
        seen = seen.or(&nodes);
        Ok(nodes)
    };
    texts.into_iter().map(tier).collect()
}

fn invalid<'de, D: Deserializer<'de>>(text: &str) -> D::Error {
    let expected = "expected a list of nodes for each tier, for example [\"0-1\", \"2\"]";
    D::Error::custom(format!("'{text}' is not a valid list of nodes: {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let (file, document) = Document::read::<File>(text);
        let read = document.conclude(file).map_err(|problems| problems[0].to_string());
        read.map(|file| file.tiers.order.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn tiers_are_lists_of_nodes_and_each_node_is_in_one() {
        assert_eq!(read(""), Ok(Vec::new()));
        let order = read("[tiers]\norder = [\"0-1\", \"2,4\"]");
        assert_eq!(order, Ok(vec!["0-1".to_owned(), "2,4".to_owned()]));
        for (order, why) in [
            (r#"["0-1", "1"]"#, "node 1 is in two tiers"),
            (r#"["fast"]"#, "'fast' is not a valid list of nodes"),
            (r#"[""]"#, "'' is not a valid list of nodes"),
            (r#"["0-"]"#, "'0-' is not a valid list of nodes"),
            ("[0]", "expected text in quotes, not 0"),
            ("7", "tiers.order: "),
        ] {
            let found = read(&format!("[tiers]\norder = {order}"));
            assert!(found.as_ref().is_err_and(|found| found.contains(why)), "{order}: {found:?}");
        }
    }

    #[test]
    fn the_table_is_read_from_a_file_of_which_the_rest_is_not_understood() {
        let text = "[listen]\nunknown = 7\n[tiers]\norder = [\"1\", \"0\"]\n";
        assert_eq!(Tiers::alone(text).order.len(), 2);
        assert_eq!(Tiers::alone("[tiers]\norder = [\"x\"]\n"), Tiers::default());
        assert_eq!(Tiers::alone("not TOML"), Tiers::default());
    }
}
