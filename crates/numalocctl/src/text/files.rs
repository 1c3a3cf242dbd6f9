//! Prints the page cache of files as text.

use super::{csv, left_out::left_out, table::Table};
use crate::{
    clean::clean,
    fields::{bytes_on, node},
    output::View,
    units::{counted, size},
};
use numaloc_api::v1;
use std::{collections::BTreeSet, fmt::Write};

/// A row for each file of which something is cached, and a column for each node.
fn files(cached: &v1::CachedFiles, view: View) -> String {
    let nodes: BTreeSet<u32> = cached.nodes.iter().map(|on| node(on.node_id)).collect();
    if view.csv {
        return csv::files(cached, &nodes, view);
    }
    let is_planned = cached.files.iter().any(|file| file.move_bytes.is_some());
    let knows_mapped = cached.files.iter().any(|file| file.mapped_bytes.is_some());
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
    let sum = |bytes: fn(&v1::CachedFile) -> Option<i64>| -> i64 {
        cached.files.iter().filter_map(bytes).sum()
    };
    let total = v1::CachedFile {
        path: "(total)".into(),
        length_bytes: sum(|file| Some(file.length_bytes)),
        nodes: cached.nodes.clone(),
        mapped_bytes: knows_mapped.then(|| sum(|file| file.mapped_bytes)),
        move_bytes: is_planned.then(|| sum(|file| file.move_bytes)),
        mount_policy: String::new(),
    };
    for file in cached.files.iter().chain((cached.files.len() > 1).then_some(&total)) {
        let mut cells =
            vec![file.path.clone(), size(file.length_bytes), size(bytes_on(&file.nodes, |_| true))];
        if knows_mapped {
            cells.push(file.mapped_bytes.map_or("-".into(), size));
        }
        cells.extend(nodes.iter().map(|node| size(bytes_on(&file.nodes, |on| on == *node))));
        cells.extend(file.move_bytes.map(size));
        table.row(cells);
    }
    if view.rows_alone() {
        return table.render(view);
    }
    let mut text = table.render(view);
    let unlisted = cached.cached_count - cached.files.len() as i64;
    if unlisted > 0 {
        let _ = writeln!(text, "not listed: {}", counted(unlisted, "file", "files"));
    }
    let rest = cached.file_count - cached.cached_count;
    if rest > 0 {
        let _ = writeln!(text, "not in memory: {}", counted(rest, "file", "files"));
    }
    let policies = cached.files.iter().map(|file| clean(&file.mount_policy));
    for policy in policies.filter(|policy| !policy.is_empty()).collect::<BTreeSet<_>>() {
        let _ =
            writeln!(text, "policy: tmpfs with mpol={policy}: pages written from now on follow it");
    }
    if let Some(bytes) = total.move_bytes {
        let _ = match bytes {
            0 => writeln!(text, "nothing to move"),
            _ => writeln!(text, "to move: {}", size(bytes)),
        };
    }
    for file in &cached.left_out {
        let _ = writeln!(text, "left out: {}", clean(&file.reason));
    }
    text
}

/// The same, and the names under which nothing was found.
pub fn files_of(cached: &v1::CachedFiles, missing: &[v1::MissingMember], view: View) -> String {
    let left_out = if view.rows_alone() { String::new() } else { left_out(missing) };
    files(cached, view) + &left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    const MIB: i64 = 1 << 20;

    fn on(nodes: &[(i32, i64)]) -> Vec<v1::NodeBytes> {
        nodes.iter().map(|&(node_id, mib)| v1::NodeBytes { node_id, bytes: mib * MIB }).collect()
    }

    fn cached(to_move: Option<i64>) -> v1::CachedFiles {
        let file = |path: &str, mib: i64, nodes: &[(i32, i64)]| v1::CachedFile {
            path: path.to_owned(),
            length_bytes: mib * MIB,
            nodes: on(nodes),
            mapped_bytes: to_move,
            move_bytes: to_move,
            mount_policy: to_move.map(|_| "interleave:0-1".to_owned()).unwrap_or_default(),
        };
        v1::CachedFiles {
            files: vec![
                file("/srv/model\u{1b}[2J.gguf", 40 << 10, &[(0, 1 << 10), (8, 37 << 10)]),
                file("/srv/index", 12, &[(0, 12)]),
            ],
            file_count: 5,
            cached_count: 2,
            nodes: on(&[(0, 1036), (8, 37 << 10)]),
            left_out: vec![v1::LeftOutFile {
                path: "/srv/fifo".into(),
                reason: "the page cache of /srv/fifo cannot be moved: it is not a regular file"
                    .into(),
            }],
        }
    }

    #[test]
    fn files_in_all_forms() {
        let planned = files(&cached(Some(37 * MIB)), View::TABLE);
        let text = format!("{}\n---\n{planned}", files(&cached(None), View::TABLE),);
        assert!(!text.contains('\u{1b}'));
        assert_snapshot!(text);
    }
}
