//! Where the pages of extents are: scanned piece by piece, by several threads if wished.

mod holes;

use crate::{
    Error,
    files::{
        maps::Object,
        pagemap::{Entries, Entry},
    },
    survey::{
        by_stripe::ByStripe,
        crew::Cut,
        extents::Part,
        folios::{FolioPart, Folios},
        neighbours::{self, Neighbours},
        outsiders::RuledOut,
        reserved::Reserved,
        scan::{Ownership, PageRun, Scanned, Scanner},
        seen::{SeenStretch, StretchKeeper, StretchNotes},
        space::AddressSpace,
    },
};
use holes::Holes;
use numaloc_core::{
    Chunks, Claim, ClaimSet, Claims, Extent, NodeId, Origin, Pages, Residency,
    grains::{Raster, grain_bytes},
    number, page_size,
    phase::Phases,
    pmd_size,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

/// Bytes that are scanned at a time: some milliseconds of base pages.
const PIECE: u64 = 128 << 20;
/// The largest number of pieces of an extent: a large reservation is mostly empty.
const PIECES: u64 = 1024;
/// With more mappings than this, pieces are larger, because each piece begins with a look through all mappings.
const MAPPINGS: u64 = 256;

/// Sees pages and their folios, for one thread.
#[derive(Debug)]
pub(crate) struct Looker {
    pub(crate) scanner: Scanner,
    pub(crate) folios: Folios,
    /// Whether pages may move that strangers map.
    pub(crate) include_shared: bool,
    /// Keeps remote pages for the run that follows.
    pub(crate) keeper: Option<StretchKeeper>,
}

/// Where the pages of an extent are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtentPages {
    /// The pages that belong to the extent, unless it is a [`Pages::Common`] one.
    pub(crate) own: ByStripe,
    /// The pages of a [`Pages::Common`] extent, by the claims of the processes that share them.
    pub(crate) common: BTreeMap<ClaimSet, ByStripe>,
    /// The chunks of a [`Pages::Own`] extent in which pages with several mappings were seen. They are chunks of the
    /// object, so that several processes that saw the same pages have the same bounds.
    pub(crate) several: Chunks,
    /// Where private anonymous memory of a [`numaloc_core::Stripe`] begins, by its pages.
    pub(crate) phases: Phases,
    /// The remote pages of stretches that need no further look.
    pub(crate) seen: Vec<SeenStretch>,
}

/// What a thread takes at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ScanPiece {
    /// A range of the extent with this index, in bytes from its start.
    Range(usize, Range<u64>),
    /// The whole of the extents with these indexes, whose page maps are read in one go.
    Neighbours(Range<usize>, Neighbours),
}

/// Cuts extents into pieces, except those that `is_known`. Ranges end at multiples of the huge page size in the first mapping.
fn pieces(
    parts: &[Part],
    is_known: impl Fn(usize) -> bool + Clone,
) -> impl Iterator<Item = ScanPiece> {
    let groups = neighbours::groups(parts, is_known.clone());
    let looked_at = groups.filter(move |(group, _)| !is_known(group.start));
    looked_at.flat_map(|(group, neighbours)| {
        let index = group.start;
        let neighbours = neighbours.filter(|_| group.len() > 1);
        let together = neighbours.map(|neighbours| ScanPiece::Neighbours(group, neighbours));
        let alone = together.is_none().then(|| ranges(&parts[index]));
        let alone = alone.into_iter().flatten().map(move |range| ScanPiece::Range(index, range));
        together.into_iter().chain(alone)
    })
}

fn ranges(Part { extent, .. }: &Part) -> impl Iterator<Item = Range<u64>> {
    let (start, bytes) = (extent.mappings[0].start, extent.bytes);
    let piece = PIECE * (extent.mappings.len() as u64 / MAPPINGS).max(1);
    let piece = piece.max(bytes / PIECES);
    let end =
        move |from: u64| ((start + from + piece).next_multiple_of(pmd_size()) - start).min(bytes);
    let next = move |before: &Range<u64>| (before.end < bytes).then(|| before.end..end(before.end));
    std::iter::successors(Some(0..end(0)), next)
}

/// Number of pieces of full size to scan through all mappings; at least one.
fn full_pieces(parts: &[Part]) -> usize {
    let bytes = |Part { extent, .. }: &Part| extent.bytes * extent.mappings.len() as u64;
    let all = parts.iter().map(bytes).fold(0, u64::saturating_add);
    usize::try_from(all.div_ceil(PIECE)).unwrap_or(usize::MAX).max(1)
}

/// Finds where the pages of extents are now. Extents in `reserved` are not scanned. Up to `threads` threads scan at
/// the same time, if there is enough to scan.
///
/// # Errors
/// [`Error::Stopped`] if `stop` returns true between two pieces; [`Error::Pages`].
pub(crate) fn find(
    parts: &[Part],
    reserved: &Reserved,
    spaces: &[AddressSpace],
    claims: &Claims,
    threads: usize,
    looker: &(dyn Fn() -> Looker + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<ExtentPages>, Error> {
    let mut all = vec![ExtentPages::default(); parts.len()];
    let known: Vec<bool> = parts
        .iter()
        .zip(&mut all)
        .map(|(part, found)| {
            let residency = reserved.of(&part.extent, claims);
            found.own = residency.map(ByStripe::undivided).unwrap_or_default();
            !found.own.is_empty()
        })
        .collect();
    // Bytes of mappings that are mostly holes which were not seen yet.
    let unseen = |index: usize| reserved.resident_bytes(&parts[index].extent).map(AtomicU64::new);
    let unseen = (0..parts.len()).filter_map(|index| Some((index, unseen(index)?)));
    let unseen: BTreeMap<usize, AtomicU64> = unseen.collect();
    let holes = Holes::of(parts);
    let threads = threads.min(full_pieces(parts));
    let todo = Mutex::new(pieces(parts, |index| known[index]));
    let next = || todo.lock().next();
    let work = || {
        // Its files are opened once there is something to look at.
        let mut opened = None;
        let mut found: Vec<(usize, ExtentPages)> = Vec::new();
        while let Some(piece) = next() {
            let looker = opened.get_or_insert_with(looker);
            if stop() {
                return Err(Error::Stopped);
            }
            match piece {
                ScanPiece::Range(index, range) => {
                    let unseen = unseen.get(&index);
                    if unseen.is_some_and(|unseen| unseen.load(Relaxed) == 0) {
                        continue;
                    }
                    let part = &parts[index];
                    let Some(range) = holes.rest(index, part, range, spaces, looker)? else {
                        continue;
                    };
                    if found.last().is_none_or(|(last, _)| *last != index) {
                        found.push((index, ExtentPages::default()));
                    }
                    let (_, found) = found.last_mut().expect("it has one");
                    let seen = found.add_range(looker, spaces, claims, part, range)?;
                    let less = |unseen: u64| Some(unseen.saturating_sub(seen));
                    unseen.map(|unseen| unseen.fetch_update(Relaxed, Relaxed, less));
                }
                ScanPiece::Neighbours(group, Neighbours { process, addresses }) => {
                    looker.scanner.read_ahead(&spaces[process], addresses)?;
                    for (index, part) in group.clone().zip(&parts[group]) {
                        let mut pages = ExtentPages::default();
                        let all = 0..part.extent.bytes;
                        pages.add_range(looker, spaces, claims, part, all)?;
                        found.push((index, pages));
                    }
                    looker.scanner.forget();
                }
            }
        }
        Ok(found)
    };
    let by_thread: Vec<Result<_, Error>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(others).collect()
    });
    for found in by_thread {
        found?.into_iter().for_each(|(index, found)| all[index].join(found));
    }
    Ok(all)
}

/// Where the pages of an extent are, looked at cut by cut.
///
/// # Errors
/// [`Error::Pages`].
pub(crate) fn of_cuts(
    Looker { scanner, folios, include_shared, .. }: &mut Looker,
    spaces: &[AddressSpace],
    claims: &Claims,
    extent: &Extent,
    cuts: &[Cut],
    ruled_out: RuledOut,
) -> Result<Residency, Error> {
    let &Extent { ref mappings, ref pages, mappers, hugetlb_bytes, rule, .. } = extent;
    let claim = claims.on(mappings, pages, rule);
    let origin = extent.stripe.as_ref().map(|stripe| stripe.origin).unwrap_or_default();
    let place = TallyPlace { extent, origin, include_shared: *include_shared };
    let mut found = ByStripe::default();
    folios.refresh();
    for Cut { range, mappings: all, is_shared } in cuts {
        let mappings = all;
        let scanned =
            Scanned { spaces, claims, mappings, pages, mappers, hugetlb_bytes, ruled_out };
        scanner.scan(&scanned, range.clone(), &mut |run: PageRun<'_>| {
            let is_copy = !is_shared && run.mapping >= extent.mappings.len();
            let address = all[run.mapping].start + run.offset;
            match pages {
                _ if is_copy => {}
                Pages::Common(sharers) if run.claims == Some(sharers) => {
                    place.tally(&mut found, &run, address, &claim, folios)
                }
                Pages::Common(_) | Pages::Own | Pages::Unmapped => {}
                Pages::All => place.tally(&mut found, &run, address, &claim, folios),
            }
        })?;
    }
    Ok(found.take(extent.stripe.as_ref().map(|stripe| stripe.node)))
}

impl ExtentPages {
    /// Counts the pages of a page run by the turn that they are on.
    fn count(&mut self, part: &Part, place: &TallyPlace<'_>, run: &PageRun<'_>, claim: &Claim) {
        let (Some(cycle), Some(node)) = (&claim.cycle, run.node) else { return };
        if part.object != Object::Anonymous {
            return;
        }
        let folio_bytes = if run.huge { pmd_size() } else { page_size() };
        for offset in (run.offset..run.offset + run.bytes).step_by(number::index(folio_bytes)) {
            let index = place.origin.index(offset.cast_signed(), folio_bytes);
            self.phases.add(cycle, (index, folio_bytes), node);
        }
    }

    /// Adds the pages in a range of an extent. Returns the bytes that were seen there.
    fn add_range(
        &mut self,
        Looker { scanner, folios, include_shared, keeper }: &mut Looker,
        spaces: &[AddressSpace],
        claims: &Claims,
        part: &Part,
        range: Range<u64>,
    ) -> Result<u64, Error> {
        let &Part { ref extent, offset, origin, .. } = part;
        let &Extent { ref mappings, ref pages, mappers, hugetlb_bytes, rule, .. } = extent;
        let ruled_out = RuledOut::default();
        let scanned =
            Scanned { spaces, claims, mappings, pages, mappers, hugetlb_bytes, ruled_out };
        let place = TallyPlace { extent, origin, include_shared: *include_shared };
        let claim = claims.on(mappings, pages, rule);
        let mut joined: Option<(ClaimSet, Claim)> = None;
        let mut noted = keeper.as_mut().and_then(|keeper| keeper.begin(extent, &claim));
        let address = |run: &PageRun<'_>| mappings[run.mapping].start + run.offset;
        folios.refresh();
        let mut seen = 0;
        let mut add = |run: PageRun<'_>| match (pages, run.claims) {
            (Pages::Own, _) if run.ownership == Ownership::Several => {
                self.several.add(offset, run.offset..run.offset + run.bytes);
            }
            (Pages::Common(_), None) => {} // belongs to another extent (`Pages::Own`)
            (Pages::Common(_), Some(sharers)) => {
                let (_, claim) = match joined.take().filter(|(known, _)| known == sharers) {
                    Some(known) => joined.insert(known),
                    None => joined.insert((sharers.clone(), claims.join(sharers, rule))),
                };
                let found = match self.common.get_mut(sharers) {
                    Some(found) => found,
                    None => self.common.entry(sharers.clone()).or_default(),
                };
                place.tally(found, &run, address(&run), claim, folios)
            }
            _ => {
                self.count(part, &place, &run, &claim);
                place.tally(&mut self.own, &run, address(&run), &claim, folios);
            }
        };
        scanner.scan(&scanned, range, &mut |run| {
            seen += run.bytes;
            let is_remote = run.node.is_some_and(|node| !claim.home.contains(node));
            noted.iter_mut().filter(|_| is_remote).for_each(|noted| noted.add(&run));
            add(run);
        })?;
        self.seen.extend(noted.map(StretchNotes::into_stretches).unwrap_or_default());
        Ok(seen)
    }

    fn join(&mut self, other: Self) {
        self.phases.join(&other.phases);
        self.own.join(other.own);
        for (claims, found) in other.common {
            self.common.entry(claims).or_default().join(found);
        }
        self.several.join(other.several);
        self.seen.extend(other.seen);
    }
}

/// An extent, and where it begins as the kernel counts.
struct TallyPlace<'a> {
    extent: &'a Extent,
    origin: Origin,
    include_shared: bool,
}

impl TallyPlace<'_> {
    /// Adds a page run that begins at `address` in the mapping that shows it. `claim` says where its pages belong.
    fn tally(
        &self,
        found: &mut ByStripe,
        run: &PageRun<'_>,
        address: u64,
        claim: &Claim,
        folios: &mut Folios,
    ) {
        let &Extent { ref mappings, ref pages, kind, hugetlb_bytes, .. } = self.extent;
        let start = mappings[0].start;
        // The chunks of a [`Pages::Common`] extent are the chunks with pages.
        let tells_home = !matches!(pages, Pages::Common(_));
        let Some(cycle) = &claim.cycle else {
            let is_portioned = claim.portions.is_some();
            let is_home = |node| tells_home && !is_portioned && claim.home.contains(node);
            let residency = found.entry(None);
            tally(residency, run, start, is_home);
            let is_own = matches!(run.ownership, Ownership::Exclusive | Ownership::Family);
            if is_portioned && (is_own || self.include_shared) {
                let size = grain_bytes(self.extent.bytes, hugetlb_bytes);
                let raster = Raster { start, size };
                let (bytes, huge) = (run.offset..run.offset + run.bytes, run.huge);
                let node = run.node.into_iter();
                node.for_each(|node| residency.grains.add(node, raster, bytes.clone(), huge));
            }
            return;
        };
        let mapped_at = address - run.offset;
        folios.parts(run, address, kind, hugetlb_bytes, &mut |part: FolioPart| {
            let head = part.head.wrapping_sub(mapped_at).cast_signed();
            let node = cycle.node(self.origin.index(head, part.folio_bytes));
            let (offset, bytes) = (part.address - mapped_at, part.bytes);
            let huge = part.folio_bytes >= pmd_size();
            let run = PageRun { offset, bytes, huge, entries: Entries::default(), ..*run };
            let is_home = |on| tells_home && on == node;
            tally(found.entry(Some(node)), &run, start, is_home);
        });
    }
}

/// Adds a page run of an extent that begins at `start`. `is_home`: whether its pages are known to belong on a node.
fn tally(
    residency: &mut Residency,
    run: &PageRun<'_>,
    start: u64,
    is_home: impl Fn(NodeId) -> bool,
) {
    let Some(node) = run.node else {
        residency.unplaced_bytes += run.bytes;
        return;
    };
    if !is_home(node) {
        residency.away.add(start, run.offset..run.offset + run.bytes);
    }
    let tally = residency.nodes.entry(node).or_default();
    match run.ownership {
        Ownership::Stranger | Ownership::Several => tally.shared_bytes += run.bytes,
        Ownership::Exclusive | Ownership::Family => tally.owned_bytes += run.bytes,
    }
    tally.huge_bytes +=
        if run.huge || looks_huge(run) { run.bytes / pmd_size() * pmd_size() } else { 0 };
}

/// Whether the frames of a page run of base-page entries follow each other as those of huge pages do. This is a guess, for
/// the prediction of time only.
fn looks_huge(run: &PageRun<'_>) -> bool {
    let Some(last) = run.entries.len().checked_sub(1) else { return false };
    let frames = run.entries.get(0).zip(run.entries.get(last));
    let in_a_row =
        |(first, end): (Entry, Entry)| end.pfn().wrapping_sub(first.pfn()) == last as u64;
    run.bytes >= pmd_size() && frames.is_some_and(in_a_row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::anonymous;

    fn part(start: u64, bytes: u64) -> Part {
        let extent = anonymous(start, bytes);
        Part { extent, object: Object::Anonymous, offset: start, origin: Origin::default() }
    }

    #[test]
    fn pieces_cover_each_extent_once_and_end_at_huge_pages() {
        let sizes = [
            (pmd_size() - 4096, 4096),
            (pmd_size(), PIECE),
            (3 * pmd_size() + 8192, 5 * PIECE + 4096),
        ];
        let parts = sizes.map(|(start, bytes)| part(start, bytes));
        for (index, Part { extent, .. }) in parts.iter().enumerate() {
            let mut end = 0;
            for range in ranges(&parts[index]) {
                assert_eq!(range.start, end);
                assert!(range.end > range.start && range.end - range.start <= PIECE + pmd_size());
                let address = extent.mappings[0].start + range.end;
                assert!(address.is_multiple_of(pmd_size()) || range.end == extent.bytes);
                end = range.end;
            }
            assert_eq!(end, extent.bytes);
        }
        assert_eq!(pieces(&parts, |_| false).count(), 1 + 1 + 5);
        let known = |index| index == 2;
        let rest = [ScanPiece::Range(0, 0..4096), ScanPiece::Range(1, 0..PIECE)];
        assert_eq!(pieces(&parts, known).collect::<Vec<_>>(), rest);
    }

    #[test]
    fn neighbours_are_one_piece() {
        let parts = [part(0, 4096), part(8192, 4096), part(pmd_size(), PIECE)];
        let neighbours = Neighbours { process: 0, addresses: 0..12288 };
        let all = [ScanPiece::Neighbours(0..2, neighbours), ScanPiece::Range(2, 0..PIECE)];
        assert_eq!(pieces(&parts, |_| false).collect::<Vec<_>>(), all);
    }

    #[test]
    fn a_large_reservation_has_no_more_pieces_than_a_large_heap() {
        assert_eq!(pieces(&[part(0, 16 << 40)], |_| false).count(), PIECES as usize);
    }
}
