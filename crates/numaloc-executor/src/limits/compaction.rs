//! Free blocks for huge pages on the targets, by compaction of their memory.

use numaloc_core::NodeId;
use numaloc_host::{Roots, node_room};
use numaloc_sys::Companion;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Least time between two compactions of a node, by whichever run: the kernel goes through all of the node's memory.
const EVERY: Duration = Duration::from_secs(60);
/// The time doubles up to this one while the node is short of blocks again each time: what the kernel has not made by then it
/// cannot make.
const SELDOM: Duration = Duration::from_secs(3600);
/// Time between two counts of a node's free blocks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest time that a run waits for a compaction, which then continues by itself, and the run with the blocks that
/// exist.
pub const LONGEST: Duration = Duration::from_secs(10);

/// The compactions of the runs of one process, by node.
#[derive(Debug, Default)]
pub struct Compaction(Mutex<BTreeMap<NodeId, NodeCompactions>>);

#[derive(Debug)]
struct NodeCompactions {
    looked: Option<Instant>,
    begun: Option<Instant>,
    /// Bytes that were wanted when the last one began.
    wanted: u64,
    /// Time after the last one in which none begins.
    pause: Duration,
    /// The write to nodeN/compact blocks in a process of its own, so that a cancel takes effect. Where this process ends meanwhile, the
    /// kernel leaves off (mm/compaction.c, `isolate_migratepages_block`: a fatal signal).
    running: Option<Companion>,
}

impl Default for NodeCompactions {
    fn default() -> Self {
        Self { looked: None, begun: None, wanted: 0, pause: EVERY, running: None }
    }
}

impl NodeCompactions {
    /// Whether to count free blocks, and to compact if they are few.
    fn is_due(&self, now: Instant) -> bool {
        let past = |since: Option<Instant>, span| {
            since.is_none_or(|since| now.saturating_duration_since(since) >= span)
        };
        past(self.looked, LOOK_EVERY) && past(self.begun, self.pause)
    }

    /// Notes this many bytes in free blocks. The last compaction has helped if all that were wanted then exist.
    fn look(&mut self, blocks_bytes: u64, now: Instant) {
        self.looked = Some(now);
        if blocks_bytes >= self.wanted {
            (self.pause, self.wanted) = (EVERY, 0);
        }
    }

    /// Notes that a compaction begins.
    fn begin(&mut self, wanted: u64, now: Instant) {
        // The node is again short of the bytes that were wanted at the last one.
        if self.wanted > 0 {
            self.pause = (self.pause * 2).min(SELDOM);
        }
        (self.begun, self.wanted) = (Some(now), wanted.max(self.wanted));
    }

    fn is_running(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        let Some(answer) = running.answer(Duration::ZERO) else { return true };
        if let Err(error) = answer.result {
            tracing::debug!(%error, "compact");
        }
        self.running = None;
        false
    }
}

/// Whether a node has too few bytes in free blocks of a huge page for the `wanted` ones, and compaction could at least double them.
fn is_short(blocks_bytes: u64, free_bytes: u64, wanted: u64) -> bool {
    blocks_bytes < wanted && blocks_bytes < free_bytes / 2
}

/// The next step of a worker before a call with huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: there are blocks, or no more is done for them.
    Go,
    /// It waits: another worker has begun a compaction.
    Wait,
    /// It waits for the compaction that it has begun.
    Begun,
}

impl Compaction {
    /// Has a node compacted if it is short of free blocks for `wanted` bytes, and if this process may. `free` gives what is free
    /// above the high watermark, in bytes.
    pub fn begin(&self, roots: &Roots, node: NodeId, wanted: u64, free: impl Fn() -> u64) -> Next {
        let (mut nodes, now) = (self.0.lock(), Instant::now());
        let of_node = nodes.entry(node).or_default();
        if of_node.is_running() {
            let waits = of_node.begun.is_some_and(|begun| begun.elapsed() < LONGEST);
            return if waits { Next::Wait } else { Next::Go };
        }
        if !of_node.is_due(now) {
            return Next::Go;
        }
        let blocks = node_room::huge_free_bytes(roots, node).unwrap_or(u64::MAX);
        of_node.look(blocks, now);
        if !is_short(blocks, free(), wanted) || !node_room::can_compact(roots, node) {
            return Next::Go;
        }
        let mut running = Companion::start().ok();
        if let Some(companion) = &mut running {
            companion.ask(node_room::compact(roots, node));
        }
        let next = if running.is_some() { Next::Begun } else { Next::Go };
        tracing::debug!(node = node.0, blocks, wanted, ?next, "compact");
        of_node.begin(wanted, now);
        of_node.running = running;
        next
    }

    /// Whether a node is being compacted.
    pub fn is_running(&self, node: NodeId) -> bool {
        self.0.lock().get_mut(&node).is_some_and(NodeCompactions::is_running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::pmd_size;

    #[test]
    fn it_is_bounded_how_often_and_how_soon() {
        let now = Instant::now();
        let mut of_node = NodeCompactions::default();
        assert!(of_node.is_due(now));
        of_node.looked = Some(now);
        assert!(!of_node.is_due(now), "it has just been looked at");
        assert!(of_node.is_due(now + LOOK_EVERY));
        of_node.begin(8 * pmd_size(), now);
        assert!(!of_node.is_due(now + LOOK_EVERY) && of_node.is_due(now + EVERY));
    }

    #[test]
    fn a_node_that_stays_short_is_compacted_less_and_less_often() {
        let (begin, mut of_node, mut times) = (Instant::now(), NodeCompactions::default(), 0);
        let day = 24 * 60 * 60;
        // Some run or other, each second.
        for now in (0..day).map(|second| begin + Duration::from_secs(second)) {
            if of_node.is_due(now) {
                of_node.look(pmd_size(), now);
                of_node.begin(8 * pmd_size(), now);
                times += 1;
            }
        }
        assert!((24..=32).contains(&times), "{times} in a day");
        let now = begin + Duration::from_secs(day);
        of_node.look(7 * pmd_size(), now);
        assert_eq!(of_node.pause, SELDOM, "fewer than were wanted");
        of_node.look(8 * pmd_size(), now);
        assert_eq!(of_node.pause, EVERY, "it has helped");
        assert!(of_node.is_due(now + SELDOM));
    }

    #[test]
    fn only_a_node_that_is_short_of_blocks_is_compacted() {
        let host = std::env::temp_dir().join(format!("numaloc-compaction-{}", std::process::id()));
        let path = |name: &str| host.join(name);
        let node = path("sys/devices/system/node/node0");
        std::fs::create_dir_all(&node).unwrap();
        std::fs::create_dir_all(path("proc")).unwrap();
        std::fs::write(path("proc/buddyinfo"), "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 1 1\n")
            .unwrap();
        let roots = Roots { proc: path("proc"), sys: path("sys"), ..Roots::default() };
        let begin = |wanted, free: u64| {
            Compaction::default().begin(&roots, NodeId(0), wanted, || free * pmd_size())
        };
        assert_eq!(begin(8 * pmd_size(), 20), Next::Go, "it may not");
        std::fs::write(node.join("compact"), "").unwrap();
        assert_eq!(begin(3 * pmd_size(), 20), Next::Go, "there are enough");
        assert_eq!(begin(8 * pmd_size(), 5), Next::Go, "it would not help");
        let compaction = Compaction::default();
        let again = || compaction.begin(&roots, NodeId(0), 8 * pmd_size(), || 20 * pmd_size());
        assert_eq!(again(), Next::Begun);
        while compaction.is_running(NodeId(0)) {
            std::thread::yield_now();
        }
        assert_eq!(std::fs::read_to_string(node.join("compact")).unwrap(), "1\n");
        assert_eq!(again(), Next::Go, "not so soon");
        std::fs::remove_dir_all(host).unwrap();
    }
}
