//! The threads and mappings of a process.

use super::{bar, bold, write};
use crate::{columns::ShownColumn, top::state::TopState, units::short};
use numaloc_core::{
    Identity, NodeSet,
    live::{Detail, MappingNow, ThreadNow},
};
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

/// Draws them as one list, which is scrolled as a whole. Returns how far it is scrolled.
pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    state: &TopState,
    (identity, comm): &(Identity, String),
    detail: Option<&Detail>,
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
fn lines(detail: &Detail) -> Vec<(String, bool)> {
    let mut lines =
        vec![(format!(" {:>7} {:>5} {:>4} {:>4} {}", "TID", "HOME", "ON", "CPU%", "NAME"), true)];
    lines.extend(detail.threads.iter().map(|each| (thread(each), false)));
    let mut nodes = NodeSet::new();
    detail.mappings.iter().flat_map(|each| each.nodes.keys()).for_each(|&node| nodes.insert(node));
    let named: String =
        nodes.iter().map(|node| format!("{:>5} ", ShownColumn::Node(node.0).header())).collect();
    lines.push((format!(" {:>14} {:>5} {named}{:<9} {}", "ADDRESS", "SIZE", "KIND", "NAME"), true));
    lines.extend(detail.mappings.iter().map(|each| (mapping(each, &nodes), false)));
    if detail.mappings.is_empty() {
        lines.push((" its page map has not been read yet, or may not be read".into(), false));
    }
    lines
}

fn thread(thread: &ThreadNow) -> String {
    let home = if thread.home.is_empty() { "-".to_owned() } else { thread.home.to_string() };
    let node = thread.node.map_or("-".to_owned(), |node| node.to_string());
    let cpu = thread.cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.0}"));
    format!(" {:>7} {home:>5} {node:>4} {cpu:>4} {}", thread.tid, thread.comm)
}

fn mapping(mapping: &MappingNow, nodes: &NodeSet) -> String {
    let on = |node| mapping.nodes.get(&node).map_or("-".to_owned(), |&bytes| short(bytes));
    let by_node: String = nodes.iter().map(|node| format!("{:>5} ", on(node))).collect();
    let kind = mapping.kind.name();
    let shared = if mapping.shared { " shared" } else { "" };
    let (start, size) = (mapping.start, short(mapping.bytes));
    format!(" {start:>14x} {size:>5} {by_node}{kind:<9} {}{shared}", mapping.name)
}
