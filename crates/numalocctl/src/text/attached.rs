//! Prints how much shared memory a target has attached that no process maps.

use crate::{fields::amount, units::size};
use numaloc_api::v1;

/// The size of attached memory found, and the part that could not be scanned.
pub fn attached(unmapped: &[v1::NodeBytes], unseen_bytes: i64) -> String {
    let mut text = String::new();
    let all: u64 = unmapped.iter().map(|on| amount(on.bytes)).sum();
    if all > 0 {
        let nodes = unmapped.iter().map(|on| format!("node {} {}", on.node_id, size(on.bytes)));
        let nodes = nodes.collect::<Vec<_>>().join(", ");
        text += &format!("attached: {} that no process maps now: {nodes}\n", size(all));
    }
    if unseen_bytes > 0 {
        text += &format!(
            "unseen: up to {} of attached shared memory, if it is in memory and no process maps it; CAP_SYS_ADMIN and CAP_FOWNER are needed to see and move it (numalocd: the drop-ins frames and files)\n",
            size(unseen_bytes)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_no_line() {
        assert_eq!(attached(&[], 0), "");
        let text = attached(&[v1::NodeBytes { node_id: 1, bytes: 60 << 20 }], 0);
        assert_eq!(text, "attached: 60.0 MiB that no process maps now: node 1 60.0 MiB\n");
        let unseen = attached(&[], 32 << 20);
        assert!(unseen.starts_with("unseen: up to 32.0 MiB"), "{unseen}");
        assert!(unseen.contains("frames and files"), "{unseen}");
    }
}
