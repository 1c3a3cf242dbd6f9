//! Texts that stand in pictures, drawn or written.

use crate::{
    clean::clean,
    units::{percent, size},
};
use numaloc_core::{
    NodeId, NodeSet,
    picture::{AreaRow, Cell, DRAWN_PERCENT, OtherAreas, Panel, Picture, Side},
};
use std::cmp::Reverse;

/// Place, time and command of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub host: String,
    /// The time to the second.
    pub time: String,
    /// The arguments of the command line.
    pub command: String,
}

impl Origin {
    /// `db1, 2026-11-26T08:16:33Z, numalocctl 0.1.0: locality --pid 4711 --draw`.
    pub fn words(&self) -> String {
        format!("{}, {}", self.place(), self.program())
    }

    /// `db1, 2026-11-26T08:16:33Z`.
    pub fn place(&self) -> String {
        clean(&format!("{}, {}", self.host, self.time))
    }

    /// `numalocctl 0.1.0: locality --pid 4711 --draw`.
    pub fn program(&self) -> String {
        clean(&format!("numalocctl {}: {}", env!("CARGO_PKG_VERSION"), self.command))
    }
}

/// `4711 redis-server, home node 0`.
pub fn title(panel: &Panel) -> String {
    let home = match (panel.home.is_empty(), panel.home.len()) {
        (true, _) => "no home node".to_owned(),
        (_, 1) => format!("home node {}", panel.home),
        _ => format!("home nodes {}", panel.home),
    };
    format!("{} {}, {home}", panel.pid, clean(&panel.comm))
}

/// `1.2 GiB resident, 38.2 % remote, 1.0 GiB in huge pages, 4.0 MiB shared`.
pub fn sums(side: &Side, home: &NodeSet) -> String {
    let total = side.total();
    let mut text = format!("{} resident", size(total.resident_bytes()));
    if let Some(remote) = remote(&total, home) {
        text += &format!(", {remote}");
    }
    let parts = [
        (total.huge_bytes, "in huge pages"),
        (total.shared_bytes, "shared"),
        (total.unplaced_bytes, "on no known node"),
    ];
    for (bytes, what) in parts.into_iter().filter(|(bytes, _)| *bytes > 0) {
        text += &format!(", {} {what}", size(bytes));
    }
    text
}

/// `38.2 % remote`; `None` where nothing is on a known node.
pub fn remote(cell: &Cell, home: &NodeSet) -> Option<String> {
    let placed: u64 = cell.nodes.values().sum();
    let share = cell.remote_bytes(home) as f64 * 100.0 / placed as f64;
    // A small share still has a line.
    let share = if share > 0.0 { share.max(0.1) } else { share };
    (placed > 0).then(|| format!("{} % remote", percent(share)))
}

/// The name of a row, of at most `width` characters; of long paths the end is kept.
pub fn name(row: &AreaRow, width: usize) -> String {
    let name = if row.area.name.is_empty() { row.area.kind.name() } else { &row.area.name };
    shortened(&clean(name), width)
}

/// `7f1000000000, 96.0 GiB, mapped shared`: first address, length, and whether it is mapped shared.
pub fn facts(row: &AreaRow) -> String {
    let shared = if row.area.is_shared { ", mapped shared" } else { "" };
    format!("{:x}, {}{shared}", row.area.start, size(row.area.bytes()))
}

/// `7f1000000000-7f1006000000, 96.0 MiB of addresses, mapped shared`.
pub fn place(row: &AreaRow) -> String {
    let shared = if row.area.is_shared { ", mapped shared" } else { "" };
    let (start, end) = (row.area.start, row.area.end);
    format!("{start:x}-{end:x}, {} of addresses{shared}", size(row.area.bytes()))
}

/// `node 1: 2.0 GiB remote, node 0: 1.0 GiB`: most comes first.
pub fn amounts(cell: &Cell, home: &NodeSet) -> String {
    let mut nodes: Vec<_> = cell.nodes.iter().filter(|(_, bytes)| **bytes > 0).collect();
    nodes.sort_by_key(|(_, bytes)| Reverse(**bytes));
    let words = |(node, bytes): (&NodeId, &u64)| {
        let remote = if home.contains(*node) { "" } else { " remote" };
        format!("node {node}: {}{remote}", size(*bytes))
    };
    let unplaced = (cell.unplaced_bytes > 0).then(|| size(cell.unplaced_bytes));
    let unplaced = unplaced.map(|bytes| format!("{bytes} on no known node"));
    nodes.into_iter().map(words).chain(unplaced).collect::<Vec<_>>().join(", ")
}

/// A text of at most `width` characters, of which the end is kept.
pub fn shortened(text: &str, width: usize) -> String {
    let count = text.chars().count();
    match count > width {
        true => text.chars().skip(count + 1 - width).fold("…".to_owned(), |mut kept, sign| {
            kept.push(sign);
            kept
        }),
        false => text.to_owned(),
    }
}

/// `~` before an estimate.
pub fn about(is_sampled: bool) -> &'static str {
    if is_sampled { "~" } else { "" }
}

/// `other: 12 mappings`; `None` if there are none.
pub fn other(other: &OtherAreas) -> Option<String> {
    match other.areas {
        0 => None,
        1 => Some("other: 1 mapping".to_owned()),
        many => Some(format!("other: {many} mappings")),
    }
}

/// The mappings that a picture shows one by one.
pub fn bars_have() -> String {
    format!(
        "Mappings with {DRAWN_PERCENT} % of a process's memory, and of its remote memory, are shown one by one."
    )
}

/// Notes on the whole picture: estimates, and parts that are left out.
pub fn notes(picture: &Picture) -> Vec<String> {
    let mut notes = Vec::new();
    if picture.is_sampled() {
        let looked = picture.panels.iter().flat_map(Panel::sides).map(Side::looked);
        let (bytes, looked) = looked.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        notes.push(format!(
            "Sampled: {} of {} of addresses were scanned, and ~ marks estimates (--draw-exact scans all).",
            size(looked),
            size(bytes)
        ));
    }
    let has_shared = |panel: &&Panel| panel.sides().any(|side| side.total().shared_bytes > 0);
    if picture.panels.iter().filter(has_shared).count() > 1 {
        notes.push(
            "Memory that several processes map counts for each of them, and has a bar for the one with most of it."
                .to_owned(),
        );
    }
    if picture.left_out > 0 {
        let processes = if picture.left_out == 1 { "process" } else { "processes" };
        notes.push(format!(
            "Left out: {} smaller {processes} with {} resident by the kernel's count.",
            picture.left_out,
            size(picture.left_out_bytes)
        ));
    }
    if picture.ended > 0 {
        let processes = if picture.ended == 1 { "process" } else { "processes" };
        notes.push(format!("{} {processes} ended meanwhile.", picture.ended));
    }
    notes
}
