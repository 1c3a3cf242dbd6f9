//! Prints what is on a node, and what is left of it after a drain.

use super::{migration::migration, plan::plan, table::Table};
use crate::{clean::clean, doc::DrainNodeDoc, fields::word, output::View, units::size};
use numaloc_api::{Known, v1};
use numaloc_core::contents::ContentKind;
use std::fmt::Write;

/// Most owners that are shown.
const OWNERS: usize = 10;

/// Whether the kernel can move memory of this kind to another node.
pub fn is_movable(kind: v1::ContentKind) -> bool {
    ContentKind::known(kind.into()).flatten().is_some_and(ContentKind::is_movable)
}

/// What has moved, what was on the node by kind, what is left there, and whose it is.
pub fn drain_node(document: &DrainNodeDoc, view: View) -> String {
    let DrainNodeDoc { before, plans, jobs, after } = document;
    let (topology, limits) = (v1::Topology::default(), v1::Limits::default());
    let plan = |answer| plan(answer, &topology, &limits, view);
    let mut text: String = plans.iter().map(plan).collect();
    text.extend(jobs.iter().map(|job| migration(job, view)));
    text += &kinds(before, after.as_ref(), view);
    let now = after.as_ref().unwrap_or(before);
    text += &owners(now);
    text += &blocks(now);
    text
}

fn kinds(before: &v1::NodeContents, after: Option<&v1::NodeContents>, view: View) -> String {
    let mut table = Table::new().words(format!("NODE {}", before.node_id)).numbers("BEFORE");
    if after.is_some() {
        table = table.numbers("NOW");
    }
    table = table.words("MOVES");
    let bytes = |contents: &v1::NodeContents, kind: v1::ContentKind| {
        let found = contents.kinds.iter().find(|each| each.kind() == kind);
        found.map_or(0, |each| each.bytes)
    };
    let mut row = |name: String, before: i64, after: Option<i64>, moves: &str| {
        let cells = [name, size(before)].into_iter().chain(after.map(size));
        table.row(cells.chain([moves.to_owned()]).collect());
    };
    // A kind that comes later in one of them is shown, too.
    let all = before.kinds.iter().chain(after.iter().flat_map(|after| &after.kinds));
    let kinds: std::collections::BTreeSet<i32> = all.map(|each| each.kind).collect();
    for kind in kinds.into_iter().filter_map(|kind| v1::ContentKind::try_from(kind).ok()) {
        let name = word(kind.as_str_name(), "CONTENT_KIND_").replace('_', " ");
        let moves = if is_movable(kind) { "yes" } else { "no" };
        row(name, bytes(before, kind), after.map(|after| bytes(after, kind)), moves);
    }
    row("free".to_owned(), before.free_bytes, after.map(|after| after.free_bytes), "-");
    table.render(view)
}

fn owners(contents: &v1::NodeContents) -> String {
    let mut text = String::new();
    for owner in contents.owners.iter().take(OWNERS) {
        let (memory, cache) = (size(owner.memory_bytes), size(owner.cache_bytes));
        let name = clean(&owner.cgroup);
        let _ = writeln!(text, "of cgroup {name}: {memory} of processes, {cache} of other cache");
    }
    let others = contents.owners.len().saturating_sub(OWNERS) as i64;
    let others = others + i64::from(contents.left_out_owner_count);
    if others > 0 {
        let _ = writeln!(text, "and of {others} cgroups with less");
    }
    text
}

fn blocks(contents: &v1::NodeContents) -> String {
    let v1::NodeContents { movable_block_count, kernel_block_count, block_bytes, .. } = contents;
    if *block_bytes == 0 {
        return "this kernel has no memory hotplug: the memory cannot go offline\n".to_owned();
    }
    let all = movable_block_count + kernel_block_count;
    format!(
        "{movable_block_count} of its {all} online blocks of {} are in the zone Movable; memory of the kernel can keep the others online\n",
        size(*block_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(bytes: &[(v1::ContentKind, i64)], free_mib: i64) -> v1::NodeContents {
        let kinds =
            bytes.iter().map(|&(kind, mib)| v1::KindBytes { kind: kind.into(), bytes: mib << 20 });
        v1::NodeContents {
            node_id: 2,
            total_bytes: 512 << 20,
            free_bytes: free_mib << 20,
            kinds: kinds.collect(),
            owners: vec![v1::ContentOwner {
                cgroup: "/system.slice/a\n.service".into(),
                memory_bytes: 3 << 20,
                cache_bytes: 1 << 20,
            }],
            left_out_owner_count: 4,
            block_bytes: 128 << 20,
            movable_block_count: 3,
            kernel_block_count: 1,
            offline_block_count: 0,
        }
    }

    #[test]
    fn what_is_left_is_beside_what_was_there() {
        use v1::ContentKind::{Anonymous, Cache, Slab};
        let before = contents(&[(Anonymous, 300), (Slab, 2)], 200);
        let after = contents(&[(Anonymous, 3), (Cache, 1), (Slab, 2)], 506);
        let drained = DrainNodeDoc {
            before: before.clone(),
            plans: Vec::new(),
            jobs: Vec::new(),
            after: Some(after),
        };
        let preview = DrainNodeDoc { after: None, ..drained.clone() };
        let text = [drained, preview].map(|document| drain_node(&document, View::TABLE));
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn kinds_move_as_the_core_says() {
        for kind in numaloc_core::contents::ContentKind::ALL {
            assert_eq!(is_movable(kind.into()), kind.is_movable(), "{kind:?}");
        }
    }
}
