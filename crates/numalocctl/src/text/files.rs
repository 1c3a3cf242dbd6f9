//! Prints the page cache of files as text.

use super::table::Table;
use crate::{
    clean::clean,
    doc::{FileDoc, FilesDoc, FilesMovedDoc, NodeBytes},
    output::View,
    units::{counted, seconds, size},
};
use numaloc_core::Reason;
use std::{collections::BTreeSet, fmt::Write};

/// A row for each file of which something is cached, and a column for each node.
pub fn files(document: &FilesDoc, view: View) -> String {
    let nodes: BTreeSet<u32> = document.cached.iter().map(|on| on.node).collect();
    let is_planned = document.files.iter().any(|file| file.bytes_to_move.is_some());
    let knows_mapped = document.files.iter().any(|file| file.mapped_bytes.is_some());
    let mut table = Table::new().words("FILE").numbers("SIZE").numbers("CACHED");
    if knows_mapped {
        table = table.numbers("MAPPED");
    }
    for node in &nodes {
        table = table.numbers(format!("NODE{node}"));
    }
    if is_planned {
        table = table.numbers("TO MOVE");
    }
    let sum = |bytes: fn(&FileDoc) -> Option<u64>| document.files.iter().filter_map(bytes).sum();
    let total = FileDoc {
        path: "(total)".into(),
        bytes: sum(|file| Some(file.bytes)),
        cached: document.cached.clone(),
        mapped_bytes: knows_mapped.then(|| sum(|file| file.mapped_bytes)),
        bytes_to_move: is_planned.then(|| sum(|file| file.bytes_to_move)),
        mount_policy: None,
    };
    for file in document.files.iter().chain((document.files.len() > 1).then_some(&total)) {
        let mut cells =
            vec![file.path.clone(), size(file.bytes), size(all(&file.cached, |_| true))];
        if knows_mapped {
            cells.push(file.mapped_bytes.map_or("-".into(), size));
        }
        cells.extend(nodes.iter().map(|node| size(all(&file.cached, |on| on == *node))));
        cells.extend(file.bytes_to_move.map(size));
        table.row(cells);
    }
    if view.rows_alone() {
        return table.render(view);
    }
    let mut text = table.render(view);
    let rest = document.file_count - document.files.len() as u64;
    if rest > 0 {
        let files = counted(rest as i64, "file", "files");
        let _ = writeln!(text, "not in memory: {files}");
    }
    let policies = document.files.iter().filter_map(|file| file.mount_policy.as_deref());
    for policy in policies.collect::<BTreeSet<_>>() {
        let _ = writeln!(
            text,
            "policy: tmpfs with mpol={policy}: pages that are written anew go where that says"
        );
    }
    if let Some(bytes) = total.bytes_to_move {
        let _ = match bytes {
            0 => writeln!(text, "nothing to move"),
            _ => writeln!(text, "to move: {}", size(bytes)),
        };
    }
    for file in &document.left_out {
        let _ = writeln!(text, "left out: {}", clean(&file.reason));
    }
    text
}

/// What has moved and what has not, and where the files are now.
pub fn files_moved(document: &FilesMovedDoc, view: View) -> String {
    let after = document.after.as_ref().map(|after| files(after, view)).unwrap_or_default();
    if view.rows_alone() {
        return after;
    }
    let mut text = String::new();
    let (moved, found) = (size(document.moved_bytes), size(document.found_bytes));
    let _ = match document.found_bytes {
        0 => writeln!(text, "nothing to move"),
        _ => writeln!(text, "moved: {moved} of {found} in {}", seconds(document.elapsed_seconds)),
    };
    for flow in &document.flows {
        let (from, to) = (flow.from_node, flow.to_node);
        let _ = writeln!(text, "  {} from node {from} to node {to}", size(flow.bytes));
    }
    if document.vanished_bytes > 0 {
        let _ = writeln!(text, "vanished: {}", size(document.vanished_bytes));
    }
    for left in &document.left {
        let reason = Reason::ALL.into_iter().find(|reason| reason.name() == left.reason);
        let why = reason.map_or_else(|| left.reason.to_owned(), |reason| reason.to_string());
        let _ = writeln!(text, "left: {}: {why}", size(left.bytes));
    }
    match document.after {
        Some(_) => text + "\n" + &after,
        None => text,
    }
}

/// Bytes on these nodes.
fn all(cached: &[NodeBytes], are_meant: impl Fn(u32) -> bool) -> u64 {
    cached.iter().filter(|on| are_meant(on.node)).map(|on| on.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::{FlowDoc, LeftBytesDoc, LeftOutFileDoc};
    use insta::assert_snapshot;

    const MIB: u64 = 1 << 20;

    fn on(nodes: &[(u32, u64)]) -> Vec<NodeBytes> {
        nodes.iter().map(|&(node, mib)| NodeBytes { node, bytes: mib * MIB }).collect()
    }

    fn document(to_move: Option<u64>) -> FilesDoc {
        let file = |path: &str, mib: u64, nodes: &[(u32, u64)]| FileDoc {
            path: path.to_owned(),
            bytes: mib * MIB,
            cached: on(nodes),
            mapped_bytes: to_move,
            bytes_to_move: to_move,
            mount_policy: to_move.map(|_| "interleave:0-1".to_owned()),
        };
        FilesDoc {
            files: vec![
                file("/srv/model\u{1b}[2J.gguf", 40 << 10, &[(0, 1 << 10), (8, 37 << 10)]),
                file("/srv/index", 12, &[(0, 12)]),
            ],
            file_count: 5,
            cached: on(&[(0, 1036), (8, 37 << 10)]),
            left_out: vec![LeftOutFileDoc {
                path: "/srv/fifo".into(),
                reason: "the page cache of /srv/fifo cannot be moved: it is no regular file".into(),
            }],
        }
    }

    #[test]
    fn files_in_all_forms() {
        let moved = FilesMovedDoc {
            after: Some(document(None)),
            found_bytes: 600 * MIB,
            moved_bytes: 512 * MIB,
            vanished_bytes: 8 * MIB,
            left: vec![LeftBytesDoc { reason: Reason::Busy.name(), bytes: 80 * MIB }],
            flows: vec![FlowDoc { from_node: 8, to_node: 0, bytes: 512 * MIB }],
            elapsed_seconds: 0.4,
            calls: 256,
            longest_call_seconds: 0.002,
        };
        let planned = files(&document(Some(37 * MIB)), View::TABLE);
        let text = format!(
            "{}\n---\n{planned}\n---\n{}",
            files(&document(None), View::TABLE),
            files_moved(&moved, View::TABLE)
        );
        assert!(!text.contains('\u{1b}'));
        assert_snapshot!(text);
    }
}
