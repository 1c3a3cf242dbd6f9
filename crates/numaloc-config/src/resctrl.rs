//! `[resctrl]`: the control group of the threads that move.

use crate::{Document, value::text};
use numaloc_core::{DomainValues, GroupName, MoverGroup, Notation};
use serde::{Deserialize, de::Deserializer};

/// The table. numalocd reads it with the rest of its file; `numalocctl doctor` reads it alone ([`Self::alone`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Resctrl {
    /// The name of the group; `None`: threads that move stay in the group that the daemon is in.
    #[serde(deserialize_with = "name")]
    pub group: Option<GroupName>,
    /// Its memory bandwidth, in the unit of this host.
    #[serde(deserialize_with = "numbers")]
    pub memory_bandwidth: Option<DomainValues>,
    /// Its ways of the L3 cache.
    #[serde(deserialize_with = "masks")]
    pub l3: Option<DomainValues>,
}

/// The part of a file that has the table.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResctrlFile {
    resctrl: Resctrl,
}

impl Resctrl {
    /// The table of the text of a file of numalocd. Whatever else is in there does not count, and a table with mistakes counts as none:
    /// these are reported by numalocd.
    pub fn alone(text: &str) -> Self {
        let (file, document) = Document::read::<ResctrlFile>(text);
        document.conclude(file).map(|file| file.resctrl).unwrap_or_default()
    }

    /// The group that is asked for.
    pub fn mover_group(&self) -> Option<MoverGroup> {
        let Self { group, memory_bandwidth, l3 } = self.clone();
        group.map(|name| MoverGroup { name, memory_bandwidth, l3 })
    }
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<GroupName>, D::Error> {
    text(from, "a name such as \"numaloc\"", |text| GroupName::parse(text).map(Some))
}

fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<DomainValues>, D::Error> {
    values(from, Notation::Number)
}

fn masks<'de, D: Deserializer<'de>>(from: D) -> Result<Option<DomainValues>, D::Error> {
    values(from, Notation::Mask)
}

fn values<'de, D: Deserializer<'de>>(
    from: D,
    notation: Notation,
) -> Result<Option<DomainValues>, D::Error> {
    text(from, "values in quotes", |text| DomainValues::parse(text, notation).map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_name_and_values_of_its_host() {
        assert_eq!(Resctrl::alone("").mover_group(), None);
        let text = "[listen]\nx = 1\n[resctrl]\ngroup = \"numaloc\"\nmemory_bandwidth = \"0=20;17=50\"\nl3 = \"f\"";
        let group = Resctrl::alone(text).mover_group().expect("it is set");
        assert_eq!(group.name.as_str(), "numaloc");
        assert_eq!(group.memory_bandwidth.and_then(|values| values.of(17)), Some(50));
        assert_eq!(group.l3.and_then(|values| values.of(3)), Some(0xf));
        assert_eq!(Resctrl::alone("not TOML"), Resctrl::default());
    }

    #[test]
    fn mistakes_are_named() {
        for (line, why) in [
            ("group = \"a/b\"", "'a/b' is not a valid name of a resctrl group"),
            ("group = \"info\"", "'info' is a directory of the kernel"),
            ("group = 7", "a name such as"),
            ("memory_bandwidth = 20", "values in quotes"),
            ("memory_bandwidth = \"20%\"", "'20%' is not valid: expected a number"),
            ("memory_bandwidth = \"0=1;0=2\"", "has domain 0 twice"),
            ("l3 = \"xyz\"", "'xyz' is not valid: expected a mask"),
            ("mb = \"1\"", "unknown field"),
        ] {
            let text = format!("[resctrl]\n{line}");
            let (file, document) = Document::read::<ResctrlFile>(&text);
            let found = document.conclude(file).expect_err(line)[0].to_string();
            assert!(found.contains(why), "{line}: {found}");
        }
    }
}
