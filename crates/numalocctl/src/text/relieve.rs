//! Prints what has left a node, and how much is free there.

use super::{migration::migration, plan::plan};
use crate::{doc::RelieveDoc, output::View, units::size};
use numaloc_api::v1;

/// What has moved or would move, and the free memory of the node.
pub fn relieve(document: &RelieveDoc, view: View) -> String {
    let RelieveDoc {
        node_id,
        wanted_free_bytes,
        wanted_bytes_per_second,
        free_before_bytes,
        free_after_bytes,
        plan: answer,
        job,
    } = document;
    let (topology, limits) = (v1::Topology::default(), v1::Limits::default());
    let mut text: String =
        answer.iter().map(|answer| plan(answer, &topology, &limits, view)).collect();
    text.extend(job.iter().map(|job| migration(job, view)));
    if view.rows_alone() {
        return text;
    }
    let now = free_after_bytes.map(|bytes| format!(", {} now", size(bytes)));
    let (before, now) = (size(*free_before_bytes), now.unwrap_or_default());
    let free = wanted_free_bytes.map(|bytes| format!("{} wanted", size(bytes)));
    let used =
        wanted_bytes_per_second.map(|rate| format!("use of at most {}/s wanted", size(rate)));
    let wanted = free.or(used).unwrap_or_default();
    text += &format!("node {node_id}: {before} free before{now}; {wanted}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_beside_what_is_wanted() {
        let preview = RelieveDoc {
            node_id: 1,
            wanted_free_bytes: Some(2 << 30),
            wanted_bytes_per_second: None,
            free_before_bytes: 512 << 20,
            free_after_bytes: None,
            plan: None,
            job: None,
        };
        let text = relieve(&preview, View::TABLE);
        assert_eq!(text, "node 1: 512.0 MiB free before; 2.0 GiB wanted\n");
        let done = RelieveDoc { free_after_bytes: Some(2 << 30), ..preview };
        let text = relieve(&done, View::TABLE);
        assert_eq!(text, "node 1: 512.0 MiB free before, 2.0 GiB now; 2.0 GiB wanted\n");
        let rate = Some(60 << 30);
        let by_use = RelieveDoc { wanted_free_bytes: None, wanted_bytes_per_second: rate, ..done };
        let text = relieve(&by_use, View::TABLE);
        assert!(text.ends_with("; use of at most 60.0 GiB/s wanted\n"), "{text}");
    }
}
