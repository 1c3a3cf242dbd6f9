//! How fast this host moves memory: measured on memory of this process's own, which goes back and forth between two nodes.

use numaloc_core::{HUGE, NodeId, PAGE};
use numaloc_sys::{MoveFlag, Scratch, ScratchPages, move_pages, query_pages};
use std::{
    io,
    time::{Duration, Instant},
};

/// How fast folios of one size were moved in page lists of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Size of a folio.
    pub folio_bytes: u64,
    /// Folios in a page list.
    pub run_folios: u64,
    /// Bytes per second, not 0.
    pub bytes_per_second: u64,
}

/// What is measured: the size of a folio and the length of page lists. The first is the shortest page list of a profile, the last
/// of base pages the longest that the kernel makes.
const CASES: [(u64, u64); 4] = [(PAGE, 16), (PAGE, 64), (PAGE, HUGE / PAGE), (HUGE, 1)];
/// Memory of each size: enough that the fixed price of a call does not count much.
const BASE_BYTES: u64 = 8 << 20;
const HUGE_BYTES: u64 = 16 << 20;
/// Moves of each case. The fastest counts: what disturbs a move makes it slower.
const ROUNDS: usize = 6;
/// An address in the kernel's half ends a page list (see `pagelist`).
const STOP: u64 = !(PAGE - 1);

/// Measures all sizes that this host gives memory in, with 24 MiB at most, which takes some tens of milliseconds.
///
/// # Errors
/// The memory is not there, or cannot be moved between these nodes.
pub fn rates(nodes: [NodeId; 2]) -> io::Result<Vec<Timed>> {
    let base = Scratch::new(BASE_BYTES as usize, ScratchPages::Base)?;
    let huge = Scratch::new(HUGE_BYTES as usize, ScratchPages::Huge);
    // Without huge pages on either node they are not measured.
    let huge = huge.ok().filter(|huge| nodes.iter().all(|&node| is_huge(huge, node)));
    let mut timed = Vec::new();
    for (folio_bytes, run_folios) in CASES {
        let (memory, bytes) = match folio_bytes {
            PAGE => (Some(&base), BASE_BYTES),
            _ => (huge.as_ref(), HUGE_BYTES),
        };
        let Some(memory) = memory else { continue };
        let folios: Vec<u64> =
            (0..bytes / folio_bytes).map(|index| memory.address() + index * folio_bytes).collect();
        let addresses = with_stops(&folios, run_folios);
        let fastest = fastest(&addresses, &folios, nodes)?;
        let bytes_per_second = bytes as f64 / fastest.as_secs_f64().max(1e-9);
        let bytes_per_second = (bytes_per_second as u64).max(1);
        timed.push(Timed { folio_bytes, run_folios, bytes_per_second });
    }
    Ok(timed)
}

/// The shortest of several moves to one node and the other in turn.
fn fastest(addresses: &[u64], folios: &[u64], nodes: [NodeId; 2]) -> io::Result<Duration> {
    let mut status = vec![0; addresses.len()];
    // Not timed: it may have less to move.
    move_pages(0, addresses, nodes[0].0, &mut status, MoveFlag::Own)?;
    let mut fastest = Duration::MAX;
    for node in [nodes[1], nodes[0]].into_iter().cycle().take(ROUNDS) {
        let begin = Instant::now();
        move_pages(0, addresses, node.0, &mut status, MoveFlag::Own)?;
        fastest = fastest.min(begin.elapsed());
        let ends = [folios[0], folios[folios.len() - 1]];
        let mut on = [0; 2];
        query_pages(0, &ends, &mut on)?;
        if on.iter().any(|&on| on != node.0 as i32) {
            return Err(io::Error::other(format!("memory does not go to node {node}")));
        }
    }
    Ok(fastest)
}

/// Whether this memory is in huge pages after it has gone to a node: then any page of one takes all others along.
fn is_huge(memory: &Scratch, node: NodeId) -> bool {
    let folios: Vec<u64> = (0..HUGE_BYTES / HUGE).map(|at| memory.address() + at * HUGE).collect();
    let mut status = vec![0; folios.len()];
    if move_pages(0, &folios, node.0, &mut status, MoveFlag::Own).is_err() {
        return false;
    }
    let inner: Vec<u64> = folios.iter().map(|folio| folio + HUGE / 2).collect();
    query_pages(0, &inner, &mut status).is_ok()
        && status.iter().all(|&status| status == node.0 as i32)
}

/// The addresses with a stop after each run.
fn with_stops(folios: &[u64], run_folios: u64) -> Vec<u64> {
    let run = usize::try_from(run_folios).unwrap_or(usize::MAX);
    let runs: Vec<&[u64]> = folios.chunks(run).collect();
    runs.join(&STOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_lists_have_the_length_that_is_measured() {
        assert_eq!(with_stops(&[1, 2, 3, 4, 5], 2), [1, 2, STOP, 3, 4, STOP, 5]);
        assert_eq!(with_stops(&[1, 2], 512), [1, 2]);
    }

    /// Moves to the node where the memory is take time, too.
    #[test]
    fn a_move_takes_time_and_one_to_nowhere_is_an_error() {
        let here = Scratch::new(PAGE as usize, ScratchPages::Base).expect("a page");
        let mut status = [0];
        query_pages(0, &[here.address()], &mut status).expect("our own");
        let node = NodeId(u32::try_from(status[0]).expect("it is present"));
        for timed in rates([node, node]).expect("it stays") {
            assert!(timed.bytes_per_second > 0, "{timed:?}");
        }
        assert!(rates([node, NodeId(1023)]).is_err());
    }
}
