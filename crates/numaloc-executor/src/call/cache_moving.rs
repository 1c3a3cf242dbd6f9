//! Room on a full target, by page cache that moves to another node.
//!
//! Cache of files that processes use is mapped a piece at a time, without reading it and without reading any of it from the disk,
//! and what lies on the target goes to another node by move_pages(2). That is a copy in memory: a process that uses the file finds it
//! cached as before. The other node is never filled: it keeps its high watermark and reserve free.

use crate::{
    limits::rooms::{Pool, Room},
    room::{
        cache::Patience,
        moved_cache::{Numbers, Open, Walk},
    },
    work::{Work, ledger::Ledger, rest::Rests},
};
use numaloc_core::{
    CacheStop, HUGE, NodeId, NodeSet, PAGE, Supply,
    cache_move::{AHEAD, destination, runs},
};
use numaloc_host::used_files;
use numaloc_sys::{FilePages, query_pages};
use std::{
    io,
    sync::TryLockError,
    time::{Duration, Instant},
};

/// How much of a file is mapped at once. Large folios of the page cache lie at multiples of their size in the file, so none of up to
/// this size is in two pieces.
const PIECE: u64 = 2 * HUGE;
/// Pieces that a worker looks at before it rests.
const PIECES_MOST: usize = 16;
/// Pause while another worker moves cache, or while others take what has become free.
const PAUSE: Duration = Duration::from_millis(1);

/// Moves a piece of page cache away from `node`, or waits a moment while another worker does; false if no more is available.
pub fn await_room(
    work: &Work<'_>,
    rests: &mut Rests<'_>,
    ledger: &mut Ledger<'_>,
    node: NodeId,
    patience: &mut Option<Patience>,
) -> bool {
    let moved = &work.moved_cache;
    let Numbers { balance, stop } = moved.of(node);
    if let Some(stop) = stop {
        ledger.cache_stop(stop);
        return false;
    }
    if balance.vacated_bytes() >= AHEAD {
        // Others take what has become free.
        let Ok(memory) = work.memory.read_for(node, Supply::BASE) else { return false };
        let (free, now) = (memory.free_bytes, Instant::now());
        if !patience.get_or_insert_with(|| Patience::new(free, now)).lasts(free, now) {
            moved.end(node, CacheStop::Stuck);
        }
        rests.pause(PAUSE);
        return true;
    }
    let mut walks = match moved.walks.try_lock() {
        Ok(walks) => walks,
        Err(TryLockError::WouldBlock) => {
            rests.pause(PAUSE);
            return true;
        }
        Err(TryLockError::Poisoned(_)) => panic!("no worker panics while it holds this"),
    };
    match step(walks.entry(node).or_default(), work, rests, node) {
        PieceEnd::Moved(to, bytes) => {
            ledger.cache_moved(node, to, bytes);
            moved.left(node, bytes);
        }
        PieceEnd::Nothing => {}
        PieceEnd::Busy => {
            rests.pause(PAUSE);
        }
        PieceEnd::End(stop) => moved.end(node, stop),
    }
    drop(walks);
    rests.rest();
    true
}

/// What has become of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceEnd {
    /// So many bytes are on that node now.
    Moved(NodeId, u64),
    /// There was nothing of it on the node, or the run is to stop.
    Nothing,
    /// Another run puts memory where it was to go.
    Busy,
    /// No more is available.
    End(CacheStop),
}

/// Looks at pieces until one has pages on `node`, and moves these.
fn step(walk: &mut Walk, work: &Work<'_>, rests: &mut Rests<'_>, node: NodeId) -> PieceEnd {
    let among = work.moved_cache.others.minus(&walk.refused);
    let to_any =
        |among: &NodeSet| destination(work.topology(), node, among, PIECE, |to| room_on(work, to));
    if to_any(&among).is_none() {
        return PieceEnd::End(CacheStop::NoOtherRoom);
    }
    for _ in 0..PIECES_MOST {
        if work.stop().is_some() {
            return PieceEnd::Nothing;
        }
        walk.open.take_if(|open| open.offset >= open.bytes);
        if walk.open.is_none() && !next_file(walk, work, node) {
            // A search that was stopped has found nothing.
            return match work.stop() {
                Some(_) => PieceEnd::Nothing,
                None => PieceEnd::End(CacheStop::NoFiles),
            };
        }
        let Some(open) = &mut walk.open else { continue };
        let (offset, bytes) = (open.offset, (open.bytes - open.offset).min(PIECE));
        open.offset += bytes;
        let pages = FilePages::map(&open.file, offset, bytes as usize);
        let found = pages.and_then(|pages| Ok((on_node(&pages, node)?, pages)));
        let allowed = among.and(&open.mems_allowed);
        let Ok((addresses, _pages)) = found else {
            // It cannot be mapped, or no longer: so it is with all of the file.
            walk.open = None;
            continue;
        };
        if addresses.is_empty() {
            continue;
        }
        let Some(to) = to_any(&allowed) else {
            // Where there is room, its users may have no memory.
            walk.open = None;
            continue;
        };
        let step = carry(walk, work, rests, &addresses, to);
        if let (PieceEnd::Busy, Some(open)) = (step, &mut walk.open) {
            open.offset = offset;
        }
        return step;
    }
    PieceEnd::Nothing
}

/// Opens the next file; false if there is none.
fn next_file(walk: &mut Walk, work: &Work<'_>, node: NodeId) -> bool {
    let files = walk.files.get_or_insert_with(|| {
        let stop = || work.stop().is_some();
        let found = used_files(work.roots, work.topology(), node, &work.limits.cache_of, &stop);
        let found = found.inspect_err(|error| tracing::debug!(%error, "files in use"));
        let files = found.unwrap_or_default();
        tracing::debug!(node = node.0, files = files.len(), "files in use");
        files.into()
    });
    while let Some(file) = files.pop_front() {
        if let Some((opened, bytes)) = file.open(work.roots) {
            let mems_allowed = file.mems_allowed;
            walk.open = Some(Open { file: opened, bytes, offset: 0, mems_allowed });
            return true;
        }
    }
    false
}

/// Moves pages, at the run's pace.
fn carry(
    walk: &mut Walk,
    work: &Work<'_>,
    rests: &mut Rests<'_>,
    addresses: &[u64],
    to: NodeId,
) -> PieceEnd {
    let bytes = addresses.len() as u64 * PAGE;
    let pool: Pool = (to, None);
    let granted = match work.rooms.take(pool, bytes, bytes, || room_on(work, to)) {
        Room::Granted(granted) => granted,
        Room::Unsettled | Room::None => return PieceEnd::Busy,
    };
    let _landing = work.rooms.landing(pool, granted);
    rests.pay(bytes);
    rests.pay_for_drops(bytes);
    if work.stop().is_some() {
        return PieceEnd::Nothing;
    }
    let pagelist = work.plan.options.pacing.pace().pagelist_bytes.unwrap_or(PIECE);
    for call in addresses.chunks((pagelist / PAGE).max(1) as usize) {
        if let Err(error) = walk.call(call, to) {
            tracing::debug!(to = to.0, %error, "page cache");
            // It is outside of the cpuset of this process.
            if let Some(nix::libc::EACCES | nix::libc::ENODEV) = error.raw_os_error() {
                walk.refused.insert(to);
            }
            break;
        }
    }
    let mut status = vec![0; addresses.len()];
    match query_pages(0, addresses, &mut status) {
        Ok(()) => {
            let arrived = status.iter().filter(|&&on| u32::try_from(on) == Ok(to.0)).count();
            PieceEnd::Moved(to, arrived as u64 * PAGE)
        }
        Err(_) => PieceEnd::Nothing,
    }
}

/// Addresses of the pages that are in memory and on `node`. Nothing is read from the disk for it, unless the kernel drops a page
/// between the two looks.
fn on_node(pages: &FilePages, node: NodeId) -> io::Result<Vec<u64>> {
    let mut addresses = Vec::new();
    for run in runs(&pages.resident()?) {
        // The file has become shorter, or a page cannot be read.
        if pages.populate(run.clone()).is_ok() {
            addresses.extend(run.map(|page| pages.address() + page as u64 * PAGE));
        }
    }
    let mut status = vec![0; addresses.len()];
    if !addresses.is_empty() {
        query_pages(0, &addresses, &mut status)?;
    }
    let mut on = status.into_iter().map(|on| u32::try_from(on) == Ok(node.0));
    addresses.retain(|_| on.next() == Some(true));
    Ok(addresses)
}

/// Bytes that a node can take while its high watermark and reserve stay free.
fn room_on(work: &Work<'_>, node: NodeId) -> u64 {
    let Ok(memory) = work.memory.read_for(node, Supply::BASE) else { return 0 };
    memory.room(Supply::BASE, work.plan.options.reserve(memory.total_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn pages_of_a_file_are_found_where_they_are() {
        let path = std::env::temp_dir().join(format!("numaloc-on-node-{}", std::process::id()));
        std::fs::write(&path, vec![7; 4 * PAGE as usize]).expect("a temporary file");
        let file = File::open(&path).expect("it is there");
        std::fs::remove_file(path).expect("it is there");
        let pages = FilePages::map(&file, 0, 4 * PAGE as usize).expect("it can be mapped");
        let all: Vec<u64> =
            (0..64).flat_map(|node| on_node(&pages, NodeId(node)).unwrap()).collect();
        assert_eq!(all.len(), 4);
    }
}
