//! Pictures of processes: their page maps are read once, and become cells while they are read.
//!
//! Each process is looked at alone, through its own page map, so that a panel shows what its addresses show: memory that
//! several processes map is in the panel of each. The kept data follows the picture's size, not the memory's.

use crate::{
    Error, Roots,
    files::read,
    processes::devices::with_device_nodes,
    survey::{
        page_access::{PageAccess, Source},
        scan::{Ownership, PageRun, Precision, Scanned, Scanner},
        space::{AddressSpace, distinct},
        vmas,
    },
};
use numaloc_core::{
    Claims, Mappers, Mapping, NodeSet, Options, Pages, Process, Topology, number, page_size,
    picture::{After, Area, Bounds, Panel, Picture, Read, Side, Stretch, again, areas, side},
    planner, pmd_pages, pmd_size,
};
use std::{cmp::Reverse, ops::Range, slice, sync::Arc};

/// Most processes in a picture.
const PANELS: usize = 8;
/// Most rows of a process.
const ROWS: usize = 16;
/// From this much on, in bytes, parts of large areas stand for the whole. The page map of so much has 128 MiB.
const SAMPLED_FROM: u64 = 64 << 30;

/// The processes of a picture, held open, so that a second look is at the same memory.
#[derive(Debug)]
pub struct Viewer<'a> {
    roots: &'a Roots,
    page_access: PageAccess,
    shown: Vec<PanelSpace>,
    cells: u64,
    left_out: u64,
    left_out_bytes: u64,
    ended: u64,
}

#[derive(Debug)]
struct PanelSpace {
    space: AddressSpace,
    home: NodeSet,
    sampled: bool,
}

impl<'a> Viewer<'a> {
    /// Opens the largest of some processes. A row gets at most `cells` cells. With `exact` every page is looked at,
    /// however many there are.
    ///
    /// # Errors
    /// [`Error::NoRights`] if a process may not be read, and the errors of reading the host's page frames and the
    /// process's files.
    pub fn open(
        roots: &'a Roots,
        topology: &Topology,
        processes: Vec<Process>,
        options: &Options,
        cells: u64,
        exact: bool,
    ) -> Result<Self, Error> {
        let page_access = PageAccess::new(roots)?;
        let shared_roots = Arc::new(roots.clone());
        let (all, mut spaces) = (processes.len(), Vec::new());
        for process in processes {
            let process = with_device_nodes(roots, options, process);
            spaces.extend(AddressSpace::answering(&shared_roots, process)?);
        }
        let ended = (all - spaces.len()) as u64;
        let mut by_size = Vec::new();
        for space in distinct(spaces) {
            by_size.push((resident_bytes(&space)?, space));
        }
        by_size.sort_by_key(|(bytes, space)| (Reverse(*bytes), space.pid()));
        let rest = by_size.split_off(by_size.len().min(PANELS));
        let mut shown = Vec::new();
        for (bytes, space) in by_size {
            let home = planner::home(topology, &space.process, options);
            let sampled = !exact && to_read(&page_access, &space, bytes)? > SAMPLED_FROM;
            shown.push(PanelSpace { space, home, sampled });
        }
        let left_out_bytes = rest.iter().map(|(bytes, _)| bytes).sum();
        let left_out = rest.len() as u64;
        Ok(Self { roots, page_access, shown, cells, left_out, left_out_bytes, ended })
    }

    /// The method of finding page locations.
    pub fn source(&self) -> Source {
        self.page_access.source
    }

    /// Looks at the processes. Processes that end meanwhile are only counted.
    ///
    /// # Errors
    /// [`Error::Pages`] if the pages of a process that exists cannot be read, and the errors of reading its files.
    pub fn look(&self) -> Result<Picture, Error> {
        let Self { left_out, left_out_bytes, ended, .. } = *self;
        let mut picture = Picture { left_out, left_out_bytes, ended, ..Picture::default() };
        for shown in &self.shown {
            let areas = areas_of(&shown.space)?;
            match self.seen(shown, |bounds, read| side(areas, bounds, read))? {
                Some(before) => picture.panels.push(Panel {
                    pid: shown.space.pid(),
                    comm: shown.space.process.comm.clone(),
                    home: shown.home.clone(),
                    before,
                    after: After::None,
                }),
                None => picture.ended += 1,
            }
        }
        Ok(picture)
    }

    /// Looks again at the rows of a picture that [`Self::look`] has given.
    ///
    /// # Errors
    /// As [`Self::look`].
    pub fn look_again(&self, picture: &mut Picture) -> Result<(), Error> {
        for panel in &mut picture.panels {
            let Some(shown) = self.shown.iter().find(|shown| shown.space.pid() == panel.pid) else {
                continue;
            };
            let areas = areas_of(&shown.space)?;
            let before = &panel.before;
            let seen = self.seen(shown, |bounds, read| again(before, &areas, bounds, read))?;
            panel.after = seen.map_or(After::Ended, After::Seen);
        }
        Ok(())
    }

    /// The picture of a process; `None` if it has ended by then.
    fn seen(
        &self,
        shown: &PanelSpace,
        look: impl FnOnce(Bounds, &mut Read<'_, Error>) -> Result<Side, Error>,
    ) -> Result<Option<Side>, Error> {
        let mut scanner =
            Scanner::new(self.roots, &self.page_access, Precision::Sampled).with_gaps();
        let (claims, space) = (Claims::default(), &shown.space);
        let mut read = |range: Range<u64>, see: &mut dyn FnMut(&Stretch)| {
            let mappings = [Mapping { process: 0, start: range.start }];
            let scanned = Scanned {
                spaces: slice::from_ref(space),
                claims: &claims,
                mappings: &mappings,
                pages: &Pages::All,
                mappers: Mappers::Counted,
                hugetlb_bytes: None,
                ruled_out: Default::default(),
            };
            let bytes = range.end - range.start;
            // Page maps are read by multiples of a huge page. From such an address on, no read ends within a huge page.
            let head = (range.start.next_multiple_of(pmd_size()) - range.start).min(bytes);
            for part in [0..head, head..bytes] {
                scanner.scan(&scanned, part, &mut |run| stretches(range.start, &run, see))?;
            }
            Ok(())
        };
        let bounds = Bounds { cells: self.cells, rows: ROWS, sampled: shown.sampled };
        let side = look(bounds, &mut read)?;
        Ok(space.is_alive().then_some(side))
    }
}

/// The areas of a process; none if it has ended.
fn areas_of(space: &AddressSpace) -> Result<Vec<Area>, Error> {
    let vmas = vmas::read(space, &mut Default::default())?;
    Ok(areas(vmas.into_iter().map(|vma| Area {
        start: vma.start,
        end: vma.end,
        kind: vma.kind,
        is_shared: vma.shared,
        name: vma.name,
    })))
}

/// Resident bytes by the kernel's own count, hugetlb pages included (fs/proc/task_mmu.c, `task_mem` and
/// `hugetlb_report_usage`); 0 if the process has ended.
fn resident_bytes(space: &AddressSpace) -> Result<u64, Error> {
    let text = space.read("status", read::text)?.unwrap_or_default();
    let field = |name| read::kib(&text, name).unwrap_or(0);
    Ok(field("VmRSS").saturating_add(field("HugetlbPages")))
}

/// Bytes whose page map entries would have to be read: without PAGEMAP_SCAN also those of holes.
fn to_read(
    page_access: &PageAccess,
    space: &AddressSpace,
    resident_bytes: u64,
) -> Result<u64, Error> {
    if page_access.can_scan {
        Ok(resident_bytes)
    } else {
        Ok(areas_of(space)?.iter().map(Area::bytes).fold(0, u64::saturating_add))
    }
}

/// The pages of a run that was found in a range from `start` on, cut into huge ones and others.
fn stretches(start: u64, run: &PageRun<'_>, see: &mut dyn FnMut(&Stretch)) {
    let shared = matches!(run.ownership, Ownership::Stranger | Ownership::Several);
    let (first, end) = (start + run.offset, start + run.offset + run.bytes);
    let mut tell = |range: Range<u64>, huge| {
        if range.start < range.end {
            see(&Stretch { range, node: run.node, huge, shared });
        }
    };
    if run.huge {
        return tell(first..end, true);
    }
    let (mut told, mut at) = (first, first.next_multiple_of(pmd_size()));
    while at + pmd_size() <= end {
        if is_huge_page(run, number::index((at - first) / page_size())) {
            tell(told..at, false);
            tell(at..at + pmd_size(), true);
            told = at + pmd_size();
        }
        at += pmd_size();
    }
    tell(told..end, false);
}

/// Whether the entries from `index` on, which is at a multiple of a huge page's size, are those of a huge page: their frames follow
/// each other from such a multiple on. A scan meets a few huge pages as base pages before it notices ([`Scanner`]), and
/// without PAGEMAP_SCAN all of them.
fn is_huge_page(run: &PageRun<'_>, index: usize) -> bool {
    let index_last = number::index(pmd_pages()) - 1;
    let frames = run.entries.get(index).zip(run.entries.get(index + index_last));
    frames.is_some_and(|(first, last)| {
        first.pfn() != 0
            && (first.pfn() * page_size()).is_multiple_of(pmd_size())
            && last.pfn() == first.pfn() + index_last as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entries, fake::Crowd, resolve};
    use numaloc_core::NodeId;

    fn entries(frames: impl Iterator<Item = u64>) -> Vec<u8> {
        frames.flat_map(|frame| (1u64 << 63 | frame).to_ne_bytes()).collect()
    }

    fn seen(start: u64, run: &PageRun<'_>) -> Vec<(u64, u64, bool)> {
        let mut seen = Vec::new();
        stretches(start, run, &mut |stretch| {
            let Range { start, end } = stretch.range;
            seen.push((start / page_size(), (end - start) / page_size(), stretch.huge));
        });
        seen
    }

    #[test]
    fn huge_pages_are_distinguished_from_base_pages_with_frames_in_a_row() {
        let node = Some(NodeId(0));
        let run =
            |entries| PageRun { bytes: 1200 * page_size(), node, entries, ..PageRun::default() };
        let bytes = entries(512 * 7 - 100..512 * 7 + 1100);
        let aligned = seen((512 * 3 - 100) * page_size(), &run(Entries::of(&bytes)));
        let first = 512 * 3 - 100;
        let expected =
            [(first, 100, false), (512 * 3, 512, true), (512 * 4, 512, true), (512 * 5, 76, false)];
        assert_eq!(aligned, expected);
        let moved = entries(512 * 7 - 99..512 * 7 + 1101);
        assert_eq!(seen(first * page_size(), &run(Entries::of(&moved))), [(first, 1200, false)]);
        let hidden = entries((0..1200).map(|_| 0));
        assert_eq!(seen(0, &run(Entries::of(&hidden))), [(0, 1200, false)]);
    }

    fn picture(processes: usize) -> Picture {
        let crowd = Crowd::new(processes);
        let roots = crowd.roots(64);
        let topology = Crowd::topology();
        let found = resolve(&roots, &[Crowd::target()], &topology).unwrap().processes;
        let options = Options::default();
        let viewer = Viewer::open(&roots, &topology, found, &options, 64, false).unwrap();
        let mut picture = viewer.look().unwrap();
        viewer.look_again(&mut picture).unwrap();
        picture
    }

    #[test]
    fn a_process_is_shown_by_its_page_map() {
        let picture = picture(1);
        let [panel] = &picture.panels[..] else { panic!("{picture:?}") };
        let total = panel.before.total();
        assert_eq!(
            total.nodes,
            [(NodeId(0), 8 * page_size()), (NodeId(1), 8 * page_size())].into()
        );
        assert_eq!(total.remote_bytes(&panel.home), crate::fake::REMOTE);
        let rows: Vec<_> =
            panel.before.rows.iter().map(|row| (row.area.start, row.cells.len())).collect();
        assert_eq!(rows, [(0x10000, 8), (0x20000, 4), (0x40000, 4)]);
        assert_eq!(panel.after, After::Seen(panel.before.clone()));
    }

    #[test]
    fn of_a_crowd_some_are_shown_and_the_others_counted() {
        let picture = picture(PANELS + 3);
        assert_eq!((picture.panels.len(), picture.left_out, picture.ended), (PANELS, 3, 0));
    }
}
