//! Files whose page cache is looked at for pages that can move away.

use crate::{
    limits::{calls::Subject, rooms::Room},
    pages::cached::CacheCalls,
    room::TargetMemory,
    work::{Work, rest::Rests},
};
use numaloc_core::{
    CacheStop, NodeId, NodeSet, Supply, cache_move::destination, number, page_size, pmd_size,
};
use numaloc_host::{CacheSearch, CachedPiece, UsedFile, nodes_of, used_files};
use std::{collections::VecDeque, fs::File};

/// Bytes of a file that are mapped at once. Large folios of the page cache lie at multiples of their size in the
/// file, so none of up to this size is in two pieces.
fn mapped_bytes() -> u64 {
    2 * pmd_size()
}
/// Pieces that a worker looks at before it rests.
const PIECES_MOST: usize = 16;

/// The files of a node, and how far they have been looked at.
#[derive(Debug, Default)]
pub struct Walk {
    /// `None`: they have not been looked for yet.
    files: Option<VecDeque<UsedFile>>,
    /// The file whose cache is looked at; kept open between calls.
    open: Option<Open>,
    calls: CacheCalls,
}

/// A file that is open.
#[derive(Debug)]
struct Open {
    file: File,
    /// Its length when it was opened.
    bytes: u64,
    /// Offset up to which it has been looked at, in bytes.
    offset: u64,
    search: CacheSearch,
    /// Nodes that its users may have memory on.
    mems_allowed: NodeSet,
}

/// The result of a look at some pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// Bytes that are on the node now.
    Moved(NodeId, u64),
    /// There was nothing of it on the node, or the run is to stop.
    Nothing,
    /// Another run puts memory where it was to go.
    Busy,
    /// No more cache of any file may be moved, for this reason.
    End(CacheStop),
}

impl Walk {
    /// Looks at pieces until one has pages on `node`, and moves these to one of the nodes `others`.
    pub fn step(
        &mut self,
        node: NodeId,
        others: &NodeSet,
        work: &Work<'_>,
        rests: &mut Rests<'_>,
    ) -> PieceEnd {
        let among = others.minus(&self.calls.refused);
        let to_any = |among: &NodeSet| {
            destination(work.topology, node, among, mapped_bytes(), |to| room_on(work, to))
        };
        if to_any(&among).is_none() {
            return PieceEnd::End(CacheStop::NoOtherRoom);
        }
        for _ in 0..PIECES_MOST {
            if work.stop().is_some() {
                return PieceEnd::Nothing;
            }
            self.open.take_if(|open| open.offset >= open.bytes);
            if self.open.is_none() && !self.next_file(work, node) {
                // A search that was stopped has found nothing.
                return match work.stop() {
                    Some(_) => PieceEnd::Nothing,
                    None => PieceEnd::End(CacheStop::NoFiles),
                };
            }
            let Some(open) = &mut self.open else { continue };
            let Some(offset) = open.search.next(&open.file, open.offset, open.bytes) else {
                open.offset = open.bytes;
                continue;
            };
            let bytes = (open.bytes - offset).min(mapped_bytes());
            open.offset = offset + bytes;
            let found = CachedPiece::look(&open.file, offset, bytes);
            let allowed = among.and(&open.mems_allowed);
            let Ok(piece) = found else {
                // It cannot be mapped, or no longer: so it is with all of the file.
                self.open = None;
                continue;
            };
            let addresses = piece.on(node);
            if addresses.is_empty() {
                continue;
            }
            let Some(to) = to_any(&allowed) else {
                // Where there is room, its users may have no memory.
                self.open = None;
                continue;
            };
            let step = self.carry(work, rests, &addresses, to);
            if let (PieceEnd::Busy, Some(open)) = (step, &mut self.open) {
                open.offset = offset;
            }
            return step;
        }
        PieceEnd::Nothing
    }

    /// Opens the next file; false if there is none.
    fn next_file(&mut self, work: &Work<'_>, node: NodeId) -> bool {
        let files = self.files.get_or_insert_with(|| {
            let stop = || work.stop().is_some();
            let found = used_files(work.roots, work.topology, node, &work.limits.cache_of, &stop);
            let found = found.inspect_err(|error| tracing::debug!(%error, "files in use"));
            let files = found.unwrap_or_default();
            tracing::debug!(node = node.0, files = files.len(), "files in use");
            files.into()
        });
        while let Some(file) = files.pop_front() {
            if let Some((opened, bytes)) = file.open(work.roots) {
                let mems_allowed = file.mems_allowed;
                self.open = Some(Open {
                    file: opened,
                    bytes,
                    offset: 0,
                    search: CacheSearch::new(false),
                    mems_allowed,
                });
                return true;
            }
        }
        false
    }

    /// Moves pages, at the run's pace.
    fn carry(
        &mut self,
        work: &Work<'_>,
        rests: &mut Rests<'_>,
        addresses: &[u64],
        to: NodeId,
    ) -> PieceEnd {
        let bytes = addresses.len() as u64 * page_size();
        let room = work.rooms.take((to, None), bytes, bytes, true, || room_on(work, to));
        let Room::Granted(_reservation) = room else { return PieceEnd::Busy };
        rests.pay(bytes);
        rests.pay_for_drops(bytes);
        if work.stop().is_some() {
            return PieceEnd::Nothing;
        }
        let pagelist = work.plan.options.pacing.pace().pagelist_bytes.unwrap_or(mapped_bytes());
        for call in addresses.chunks(number::index((pagelist / page_size()).max(1))) {
            if self.calls.call(&work.bounds(), &Subject::Node(to), call, to).is_err() {
                break;
            }
        }
        let on = nodes_of(addresses);
        let arrived =
            on.map(|on| on.iter().filter(|on| **on == Some(to)).count() as u64 * page_size());
        arrived.map_or(PieceEnd::Nothing, |bytes| PieceEnd::Moved(to, bytes))
    }
}

/// Bytes that a node can take while its high watermark and reserve stay free.
fn room_on(work: &Work<'_>, node: NodeId) -> u64 {
    TargetMemory::read(work, node, Supply::base()).map_or(0, |memory| memory.free_room())
}
