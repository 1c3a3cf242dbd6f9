//! The columns of `top`: what each is, and how they are chosen and sorted by.

mod node;
mod value;

use crate::doc::TopRowDoc;
pub use node::{NodeColumn, node_columns, screen_columns};
use std::str::FromStr;
pub use value::Value;

/// A column. It is also known by the name that esxtop has for it, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// Pid; empty for a cgroup.
    Pid,
    /// Path of a cgroup or name of a process.
    Name,
    /// The home: the nodes of its CPUs.
    Home,
    Memory,
    /// Page cache of a cgroup that is not mapped.
    Cache,
    Remote,
    /// The part of the remote memory that is near.
    Near,
    /// Memory on nodes of lower tiers.
    Demoted,
    Local,
    /// Share of local memory in percent.
    Share,
    /// Time since the memory was scanned.
    Age,
    /// Memory by node, a column each.
    Nodes,
    /// Bytes moved by numaloc.
    Moved,
    /// Bytes moved by the kernel's NUMA balancing.
    Balanced,
    /// Memory traffic, of a workload with a monitoring group of its own.
    Traffic,
    /// The remote part of that traffic.
    RemoteTraffic,
    /// CPU time in percent of one CPU.
    Cpu,
    /// The migration that works on it, and what holds that back.
    Job,
}

/// The description of a column, used by every part that shows, prints, sorts or names columns.
#[derive(Debug)]
pub struct Description {
    column: Column,
    /// The name on the command line and above the column. `NODE` stands for NODE0, NODE1 and so on.
    pub name: &'static str,
    /// esxtop's name for it, which the command line takes as well.
    of_esxtop: Option<&'static str>,
    /// Its meaning, for the help: at most 28 characters.
    pub meaning: &'static str,
    /// Its least width on a screen, in cells. That of [`Column::Nodes`] follows from the nodes.
    pub width: usize,
    /// Columns with a lower rank are left on narrower screens; those with the same rank appear and disappear together.
    pub rank: usize,
    /// Whether it leaves its room to others while it is empty in all rows.
    pub is_optional: bool,
    /// Whether it has words, which begin at the left and are cut at the end, and not numbers.
    pub has_words: bool,
    pub value: for<'a> fn(&'a TopRowDoc) -> Value<'a>,
}

const fn described(
    column: Column,
    [name, meaning]: [&'static str; 2],
    (rank, width): (usize, usize),
    value: for<'a> fn(&'a TopRowDoc) -> Value<'a>,
) -> Description {
    let (of_esxtop, is_optional, has_words) = (None, false, false);
    Description { column, name, of_esxtop, meaning, width, rank, is_optional, has_words, value }
}

impl Description {
    const fn in_esxtop(self, name: &'static str) -> Self {
        Self { of_esxtop: Some(name), ..self }
    }

    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    const fn words(self) -> Self {
        Self { has_words: true, ..self }
    }
}

/// All columns, in the order in which they are shown: that of [`Column`].
static DESCRIPTIONS: [Description; Column::ALL.len()] = [
    described(Column::Pid, ["PID", "process id"], (4, 7), |row| Value::Pid(row.pid)),
    described(Column::Name, ["NAME", "container, cgroup, process"], (0, 14), |row| {
        Value::Name(row.name())
    })
    .words(),
    described(Column::Home, ["HOME", "the nodes of its CPUs"], (5, 5), |row| {
        Value::Nodes(&row.home_nodes)
    })
    .in_esxtop("NHN"),
    described(Column::Memory, ["MEM", "resident memory"], (2, 5), |row| {
        Value::Bytes(row.resident_bytes)
    }),
    described(Column::Cache, ["CACHE", "page cache, not mapped"], (11, 5), |row| {
        Value::Bytes(row.cache_bytes)
    })
    .optional(),
    described(Column::Remote, ["REMOTE", "memory not on a home node"], (3, 6), |row| {
        Value::Bytes(row.remote_bytes)
    })
    .in_esxtop("NRMEM"),
    described(Column::Near, ["NEAR", "of this, near to home"], (10, 5), |row| {
        Value::Bytes(row.near_bytes)
    })
    .optional(),
    described(Column::Demoted, ["DEMOTED", "memory on a lower tier"], (10, 7), |row| {
        Value::Bytes(row.demoted_bytes)
    })
    .optional(),
    described(Column::Local, ["LOCAL", "memory on home nodes"], (8, 5), |row| {
        Value::Bytes(row.local_bytes)
    })
    .in_esxtop("NLMEM"),
    described(Column::Share, ["LOCAL%", "local memory, in percent"], (1, 6), |row| {
        Value::Share(row.local_percent)
    })
    .in_esxtop("N%L"),
    // A share is never without its age.
    described(Column::Age, ["AGE", "time since that was read"], (1, 4), |row| {
        Value::Age(row.age_seconds, row.is_hidden)
    }),
    described(Column::Nodes, ["NODE", "memory by node: NODE0, ..."], (7, 0), |row| Value::ByNode {
        nodes: &row.by_node,
        is_read: row.age_seconds.is_some(),
    })
    .in_esxtop("ND"),
    described(Column::Moved, ["MOVED", "moved by numaloc"], (9, 5), |row| {
        Value::Bytes(Some(row.moved_bytes))
    })
    .in_esxtop("NMIG")
    .optional(),
    described(Column::Balanced, ["KERNEL", "moved by NUMA balancing"], (12, 6), |row| {
        Value::Bytes(row.kernel_migrated_bytes)
    })
    .optional(),
    described(Column::Traffic, ["TRAFFIC", "bytes/s to and from memory"], (14, 7), |row| {
        Value::Bytes(row.traffic_bytes_per_second)
    })
    .optional(),
    described(Column::RemoteTraffic, ["RTRAF", "of this, remote memory"], (14, 5), |row| {
        Value::Bytes(row.remote_traffic_bytes_per_second)
    })
    .optional(),
    described(Column::Cpu, ["CPU%", "CPU time, percent of one CPU"], (6, 5), |row| {
        Value::Percent(row.cpu_percent)
    }),
    described(Column::Job, ["JOB", "migration, what throttles it"], (13, 12), |row| {
        Value::Job(row.job.as_deref(), row.held_back.as_deref())
    })
    .optional()
    .words(),
];

// Each description is at the place of its column.
const _: () = {
    let mut at = 0;
    while at < Column::ALL.len() {
        assert!(DESCRIPTIONS[at].column as usize == at && Column::ALL[at] as usize == at);
        at += 1;
    }
};

impl Column {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 18] = [
        Self::Pid,
        Self::Name,
        Self::Home,
        Self::Memory,
        Self::Cache,
        Self::Remote,
        Self::Near,
        Self::Demoted,
        Self::Local,
        Self::Share,
        Self::Age,
        Self::Nodes,
        Self::Moved,
        Self::Balanced,
        Self::Traffic,
        Self::RemoteTraffic,
        Self::Cpu,
        Self::Job,
    ];

    pub fn description(self) -> &'static Description {
        &DESCRIPTIONS[self as usize]
    }

    /// The name on the command line and above the column.
    pub fn name(self) -> &'static str {
        self.description().name
    }

    pub fn value(self, row: &TopRowDoc) -> Value<'_> {
        (self.description().value)(row)
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_named = |name: &str| name.eq_ignore_ascii_case(text.trim());
        let same = |column: &Self| {
            is_named(column.name()) || column.description().of_esxtop.is_some_and(is_named)
        };
        Self::ALL.into_iter().find(same).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{}' is not a valid column: there are {names}", text.trim())
        })
    }
}

/// Columns that were chosen, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(pub Vec<Column>);

impl FromStr for Columns {
    type Err = String;

    /// Names with commas. LOCAL% implies AGE: without it, the share may be arbitrarily old.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns = Vec::new();
        for name in text.split(',').filter(|name| !name.trim().is_empty()) {
            let column = name.parse()?;
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        match columns.is_empty() {
            true => Err("no column is named".into()),
            false => Ok(Self(with_age(columns))),
        }
    }
}

/// Adds AGE beside LOCAL% if it is missing.
pub fn with_age(mut columns: Vec<Column>) -> Vec<Column> {
    if let (Some(at), false) =
        (columns.iter().position(|&column| column == Column::Share), columns.contains(&Column::Age))
    {
        columns.insert(at + 1, Column::Age);
    }
    columns
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    /// Whether the order is reversed.
    pub reverse: bool,
}

impl FromStr for Sort {
    type Err = String;

    /// A column's name, with a minus sign before it for the reverse order.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, reverse) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        Ok(Self { column: name.parse()?, reverse })
    }
}

/// A column as it is shown: [`Column::Nodes`] is one for each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownColumn {
    /// A column other than the nodes.
    One(Column),
    /// The bytes on the node with this index.
    Node(u32),
}

impl ShownColumn {
    pub fn header(self) -> String {
        match self {
            Self::One(column) => column.name().to_owned(),
            Self::Node(node) => format!("NODE{node}"),
        }
    }

    pub fn column(self) -> Column {
        match self {
            Self::One(column) => column,
            Self::Node(_) => Column::Nodes,
        }
    }

    pub fn value(self, row: &TopRowDoc) -> Value<'_> {
        match self {
            Self::One(column) => column.value(row),
            Self::Node(node) => Column::Nodes.value(row).on(node),
        }
    }

    /// Whether it has words, not numbers.
    pub fn has_words(self) -> bool {
        self.column().description().has_words
    }
}

/// The columns as they are shown on a host with these nodes.
pub fn slots(columns: &[Column], nodes: &[u32]) -> Vec<ShownColumn> {
    let shown = |column: &Column| match column {
        Column::Nodes => nodes.iter().map(|&node| ShownColumn::Node(node)).collect(),
        &column => vec![ShownColumn::One(column)],
    };
    columns.iter().flat_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_and_a_share_has_its_age() {
        let columns = |text: &str| text.parse::<Columns>().map(|columns| columns.0);
        assert_eq!(columns("mem, name,MEM"), Ok(vec![Column::Memory, Column::Name]));
        assert_eq!(columns("n%l,nd"), Ok(vec![Column::Share, Column::Age, Column::Nodes]));
        assert_eq!(columns("age,local%"), Ok(vec![Column::Age, Column::Share]));
        let (plain, of_esxtop) =
            ("home,remote,local,local%,node,moved", "nhn,nrmem,NLMEM,n%l,nd,nmig");
        assert_eq!(columns(plain), columns(of_esxtop));
        assert_eq!(columns(" , "), Err("no column is named".into()));
        let refused = columns("mem,rss").unwrap_err();
        assert!(
            refused.starts_with("'rss' is not a valid column: there are PID, NAME"),
            "{refused}"
        );
        assert!(Column::ALL.iter().all(|column| refused.contains(column.name())), "{refused}");
    }

    #[test]
    fn each_column_has_a_name_and_a_meaning() {
        for column in Column::ALL {
            assert_eq!(column.name().parse(), Ok(column));
            assert!(!column.description().meaning.is_empty(), "{column:?}");
        }
    }

    #[test]
    fn meanings_fit_into_the_help_on_80_columns() {
        for column in Column::ALL {
            assert!(column.description().meaning.len() <= 28, "{column:?}");
        }
    }

    #[test]
    fn there_is_a_column_for_each_node() {
        let headers = |columns: &[Column]| -> Vec<String> {
            slots(columns, &[0, 64]).into_iter().map(ShownColumn::header).collect()
        };
        assert_eq!(headers(&[Column::Share, Column::Nodes]), ["LOCAL%", "NODE0", "NODE64"]);
    }

    #[test]
    fn the_order_may_be_reversed() {
        let sort = |column, reverse| Ok(Sort { column, reverse });
        assert_eq!("remote".parse(), sort(Column::Remote, false));
        assert_eq!("-CPU%".parse(), sort(Column::Cpu, true));
        assert!("--mem".parse::<Sort>().is_err() && "".parse::<Sort>().is_err());
    }
}
