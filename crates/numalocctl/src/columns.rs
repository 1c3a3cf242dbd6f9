//! The columns of `top`: their names, and how they are chosen and sorted by.

use std::str::FromStr;

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
    Local,
    /// Share of local memory in percent.
    Share,
    /// How long ago it was looked where the memory is.
    Age,
    /// Memory by node, a column each.
    Nodes,
    /// Bytes moved by numaloc.
    Moved,
    /// Bytes moved by the kernel's NUMA balancing.
    Balanced,
    /// CPU time in percent of one CPU.
    Cpu,
    /// The migration that works on it, and what holds that back.
    Job,
}

impl Column {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 15] = [
        Self::Pid,
        Self::Name,
        Self::Home,
        Self::Memory,
        Self::Cache,
        Self::Remote,
        Self::Near,
        Self::Local,
        Self::Share,
        Self::Age,
        Self::Nodes,
        Self::Moved,
        Self::Balanced,
        Self::Cpu,
        Self::Job,
    ];

    /// As it is written on the command line and above the column. `NODE` stands for NODE0, NODE1 and so on.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Name => "NAME",
            Self::Home => "HOME",
            Self::Memory => "MEM",
            Self::Cache => "CACHE",
            Self::Remote => "REMOTE",
            Self::Near => "NEAR",
            Self::Local => "LOCAL",
            Self::Share => "LOCAL%",
            Self::Age => "AGE",
            Self::Nodes => "NODE",
            Self::Moved => "MOVED",
            Self::Balanced => "KERNEL",
            Self::Cpu => "CPU%",
            Self::Job => "JOB",
        }
    }

    /// esxtop's name for it, which the command line takes as well.
    fn of_esxtop(self) -> Option<&'static str> {
        match self {
            Self::Home => Some("NHN"),
            Self::Remote => Some("NRMEM"),
            Self::Local => Some("NLMEM"),
            Self::Share => Some("N%L"),
            Self::Nodes => Some("ND"),
            Self::Moved => Some("NMIG"),
            Self::Pid
            | Self::Name
            | Self::Memory
            | Self::Cache
            | Self::Near
            | Self::Age
            | Self::Balanced
            | Self::Cpu
            | Self::Job => None,
        }
    }

    /// What it says, for the help: at most 28 characters.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Pid => "process id",
            Self::Name => "cgroup, or process",
            Self::Home => "the nodes of its CPUs",
            Self::Memory => "resident memory",
            Self::Cache => "page cache, not mapped",
            Self::Remote => "memory not on a home node",
            Self::Near => "of this, near to home",
            Self::Local => "memory on home nodes",
            Self::Share => "local memory, in percent",
            Self::Age => "time since that was read",
            Self::Nodes => "memory by node: NODE0, ...",
            Self::Moved => "moved by numaloc",
            Self::Balanced => "moved by NUMA balancing",
            Self::Cpu => "CPU time, percent of one CPU",
            Self::Job => "migration, what throttles it",
        }
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_named = |name: &str| name.eq_ignore_ascii_case(text.trim());
        let same =
            |column: &Self| is_named(column.name()) || column.of_esxtop().is_some_and(is_named);
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

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    /// Whether the order is the other way round than usual.
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

    /// A column that is new does not compile here: it belongs into [`Column::ALL`], too, at the place that this gives.
    fn place(column: Column) -> usize {
        match column {
            Column::Pid => 0,
            Column::Name => 1,
            Column::Home => 2,
            Column::Memory => 3,
            Column::Cache => 4,
            Column::Remote => 5,
            Column::Near => 6,
            Column::Local => 7,
            Column::Share => 8,
            Column::Age => 9,
            Column::Nodes => 10,
            Column::Moved => 11,
            Column::Balanced => 12,
            Column::Cpu => 13,
            Column::Job => 14,
        }
    }

    #[test]
    fn each_column_has_a_name_a_meaning_and_a_place() {
        for (at, column) in Column::ALL.into_iter().enumerate() {
            assert_eq!(place(column), at, "{column:?}");
            assert_eq!(column.name().parse(), Ok(column));
            assert!(!column.meaning().is_empty(), "{column:?}");
        }
        assert_eq!(place(Column::Job) + 1, Column::ALL.len(), "the last one is the last");
    }

    #[test]
    fn meanings_fit_into_the_help_on_80_columns() {
        for column in Column::ALL {
            assert!(column.meaning().len() <= 28, "{column:?}");
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
