//! The threads and mappings of a process.

use super::{bar, bold, write};
use crate::{
    columns::ShownColumn,
    doc::{DetailDoc, MappingDoc, ThreadDoc},
    top::state::TopState,
    units::short,
};
use numaloc_core::{Identity, NodeId, NodeSet};
use ratatui::{buffer::Buffer, layout::Rect, style::Style};
use std::collections::BTreeSet;

/// Draws them as one list, which is scrolled as a whole. Returns how far it is scrolled.
pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    state: &TopState,
    (identity, comm): &(Identity, String),
    detail: Option<&DetailDoc>,
) -> usize {
    let heading =
        format!("process {} ({comm}): threads and mappings; Esc leads back", identity.pid);
    write(buffer, area, area.y, &heading, bold());
    let Some(detail) = detail else {
        write(buffer, area, area.y + 1, " not read yet", Style::new());
        return 0;
    };
    let lines = lines(detail);
    let height = usize::from(area.height.saturating_sub(1));
    let first = state.scroll.min(lines.len().saturating_sub(height));
    for (y, (text, is_header)) in (area.y + 1..area.bottom()).zip(lines.into_iter().skip(first)) {
        match is_header {
            true => bar(buffer, area, y, &text),
            false => write(buffer, area, y, &text, Style::new()),
        }
    }
    first
}

/// The lines, and whether each is a header.
fn lines(detail: &DetailDoc) -> Vec<(String, bool)> {
    let mut lines =
        vec![(format!(" {:>7} {:>5} {:>4} {:>4} {}", "TID", "HOME", "ON", "CPU%", "NAME"), true)];
    lines.extend(detail.threads.iter().map(|each| (thread(each), false)));
    let nodes: BTreeSet<u32> =
        detail.mappings.iter().flat_map(|each| &each.by_node).map(|on| on.node).collect();
    let named: String =
        nodes.iter().map(|&node| format!("{:>5} ", ShownColumn::Node(node).header())).collect();
    lines.push((format!(" {:>14} {:>5} {named}{:<9} {}", "ADDRESS", "SIZE", "KIND", "NAME"), true));
    lines.extend(detail.mappings.iter().map(|each| (mapping(each, &nodes), false)));
    if detail.mappings.is_empty() {
        lines.push((" its page map has not been read yet, or may not be read".into(), false));
    }
    lines
}

fn thread(thread: &ThreadDoc) -> String {
    let home: NodeSet = thread.home_nodes.iter().copied().map(NodeId).collect();
    let home = if home.is_empty() { "-".to_owned() } else { home.to_string() };
    let node = thread.node.map_or("-".to_owned(), |node| node.to_string());
    let cpu = thread.cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.0}"));
    format!(" {:>7} {home:>5} {node:>4} {cpu:>4} {}", thread.tid, thread.comm)
}

fn mapping(mapping: &MappingDoc, nodes: &BTreeSet<u32>) -> String {
    let on = |node: u32| {
        let on = mapping.by_node.iter().find(|on| on.node == node);
        on.map_or("-".to_owned(), |on| short(on.bytes))
    };
    let by_node: String = nodes.iter().map(|&node| format!("{:>5} ", on(node))).collect();
    let MappingDoc { address, bytes, kind, name, map_shared, .. } = mapping;
    let shared = if *map_shared { " shared" } else { "" };
    format!(" {address:>14} {:>5} {by_node}{kind:<9} {name}{shared}", short(*bytes))
}
