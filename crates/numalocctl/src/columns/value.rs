//! The value of a row in a column: as people and programs read it, and for sorting rows.

use crate::{
    clean::clean,
    doc::NodeBytes,
    units::{age, short},
};
use numaloc_core::{NodeId, NodeSet};
use std::cmp::Ordering;

/// The value of a row in a column.
#[derive(Debug)]
pub enum Value<'a> {
    Pid(Option<i32>),
    Name(&'a str),
    /// Nodes, as the kernel lists them: `0-3,8`.
    Nodes(&'a [u32]),
    /// `None`: not known.
    Bytes(Option<u64>),
    /// In percent of all. The least comes first, and only a full share is shown as 100.
    Share(Option<f64>),
    /// In percent of one CPU.
    Percent(Option<f64>),
    /// In seconds, and whether it cannot be known because the page map is not readable.
    Age(Option<f64>, bool),
    /// Bytes by node. They are shown in columns of their own ([`Value::on`]), and sorted by the largest.
    ByNode {
        nodes: &'a [NodeBytes],
        /// Whether a node that is not listed has nothing.
        is_read: bool,
    },
    /// A job, and what throttles it.
    Job(Option<&'a str>, Option<&'a str>),
}

/// More comes first; unknown values come last.
fn most<T: Copy>(left: Option<T>, right: Option<T>, compare: fn(&T, &T) -> Ordering) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => compare(&right, &left),
        (left, right) => right.is_some().cmp(&left.is_some()),
    }
}

impl Value<'_> {
    /// The bytes on a node; `None`: they are not known.
    pub fn on(&self, node: u32) -> Value<'static> {
        let Self::ByNode { nodes, is_read } = self else { return Value::Bytes(None) };
        let found = nodes.iter().find(|each| each.node == node).map(|each| each.bytes);
        Value::Bytes(found.or(is_read.then_some(0)))
    }

    /// As people read it, without control characters. A dash stands for an unknown value.
    pub fn text(&self) -> String {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        match *self {
            Self::Pid(pid) => pid.map_or_else(String::new, |pid| pid.to_string()),
            Self::Name(name) => clean(name),
            Self::Nodes([]) => "-".to_owned(),
            Self::Nodes(nodes) => {
                nodes.iter().map(|&node| NodeId(node)).collect::<NodeSet>().to_string()
            }
            Self::Bytes(bytes) => or_dash(bytes.map(short)),
            // Less than all is 99 at most.
            Self::Share(Some(percent)) if percent < 100.0 => format!("{:.0}", percent.min(99.0)),
            Self::Share(percent) | Self::Percent(percent) => {
                or_dash(percent.map(|percent| format!("{percent:.0}")))
            }
            Self::Age(None, true) => "hid".to_owned(),
            Self::Age(seconds, _) => or_dash(seconds.map(age)),
            Self::ByNode { .. } => String::new(),
            Self::Job(job, held_back) => {
                let held_back = held_back.map(|why| format!(": {why}")).unwrap_or_default();
                clean(&format!("{}{held_back}", job.unwrap_or_default()))
            }
        }
    }

    /// As programs read it: sizes in bytes, empty if unknown.
    pub fn raw(&self) -> String {
        match *self {
            Self::Bytes(bytes) => bytes.map_or_else(String::new, |bytes| bytes.to_string()),
            Self::Share(number) | Self::Percent(number) | Self::Age(number, _) => {
                number.map_or_else(String::new, |number| format!("{number:.2}"))
            }
            Self::Nodes([]) => String::new(),
            Self::Pid(_) | Self::Name(_) | Self::Nodes(_) | Self::ByNode { .. } | Self::Job(..) => {
                self.text()
            }
        }
    }

    /// The usual order of two values of a column, in which most memory comes first and the least local one. Unknown
    /// values come last.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Pid(left), Self::Pid(right)) => left.cmp(right),
            (Self::Name(left), Self::Name(right)) => left.cmp(right),
            (Self::Nodes(left), Self::Nodes(right)) => left.cmp(right),
            (&Self::Bytes(left), &Self::Bytes(right)) => most(left, right, u64::cmp),
            (Self::Share(left), Self::Share(right)) => {
                most(left.map(|share| -share), right.map(|share| -share), f64::total_cmp)
            }
            (&Self::Percent(left), &Self::Percent(right))
            | (&Self::Age(left, _), &Self::Age(right, _)) => most(left, right, f64::total_cmp),
            (Self::ByNode { nodes: left, .. }, Self::ByNode { nodes: right, .. }) => {
                let largest = |nodes: &[NodeBytes]| nodes.iter().map(|node| node.bytes).max();
                most(largest(left), largest(right), u64::cmp)
            }
            (Self::Job(left, _), Self::Job(right, _)) => {
                right.is_some().cmp(&left.is_some()).then_with(|| left.cmp(right))
            }
            // A column has values of one kind.
            _ => Ordering::Equal,
        }
    }

    /// Whether there is something to show.
    pub fn is_something(&self) -> bool {
        match self {
            Self::Bytes(bytes) => *bytes > Some(0),
            Self::Job(job, _) => job.is_some(),
            _ => true,
        }
    }
}
