//! Mappers of hugetlb memory whose page tables processes may share.
//!
//! Processes that map the same 1 GiB of a hugetlb object shared have one page table for it (mm/hugetlb.c, `huge_pmd_share`). The
//! kernel then counts one mapping of each page, however many processes map it. So counts do not tell whether others map a page.
//! The mappers of the object tell it, and they are looked up in the maps of all processes. A process that maps the
//! object later is not noticed before the next survey, unless it is the target's.
//!
//! In the same way it is found out who maps the memory of a target that gets and loses processes ([`super::outsiders`]).

use crate::{
    Arrivals, Error, Roots,
    files::{
        answering::AT_ONCE,
        maps::{self, Object, Vma},
        read::{self, is_gone, numbered},
    },
    processes::thread::{self, Layout},
    survey::{space::AddressSpace, used_files::silent},
};
use numaloc_core::{Mappers, Process, page_size, pmd_size};
use numaloc_sys::kcmp_vm;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ops::Range,
    path::Path,
};

/// Bytes that one page table maps whose entries are as large as a huge page (the kernel's PUD_SIZE): 1 GiB with base pages
/// of 4 KiB.
fn table_bytes() -> u64 {
    pmd_size() * (page_size() / 8)
}
/// The inode of the first pid namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const FIRST_PIDS: u64 = 0xefff_fffc;

/// The target, and what is needed to find out who else maps its memory.
pub(crate) struct MapperSearch<'a> {
    pub(crate) roots: &'a Roots,
    pub(crate) spaces: &'a [AddressSpace],
    /// The processes that the target gets meanwhile.
    pub(crate) arrivals: Option<&'a dyn Arrivals>,
    /// Whether the kernel tells pages with one mapping from those with a shared page table.
    pub(crate) tells_shared_tables: bool,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

/// Mappings of an object in the target.
#[derive(Default)]
struct TargetMappings {
    mappings: usize,
    private: usize,
}

/// A mapping outside the target.
pub(super) struct OtherMapping {
    pub(super) pid: i32,
    pub(super) object: Object,
    pub(super) bytes: Range<u64>,
}

/// The findings about the processes outside the target.
#[derive(Default)]
pub(super) struct Others {
    pub(super) mappings: Vec<OtherMapping>,
    /// The pids of processes that were forked, without an exec since, from where processes of the target were: copies
    /// of private memory may be common to both.
    pub(super) kin: BTreeSet<i32>,
}

/// The questions about the processes outside the target.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) objects: BTreeSet<Object>,
    /// The layouts of the target's processes, to find their kin by; none: kin are not asked for.
    pub(super) layouts: HashSet<Layout>,
    /// The device of memory that is on no mount, so that no file system is stacked upon it.
    pub(super) internal: Option<(u32, u32)>,
}

/// Whether processes may share page tables of a mapping (mm/hugetlb.c, `want_pmd_share`).
fn may_share_tables(vma: &Vma) -> bool {
    let table = table_bytes();
    let is_whole = vma.start.next_multiple_of(table) < vma.end / table * table;
    vma.shared && vma.hugetlb_bytes == Some(pmd_size()) && is_whole
}

/// The bytes of its object that a VMA shows.
fn bytes(vma: &Vma) -> Range<u64> {
    vma.offset..vma.offset + (vma.end - vma.start)
}

impl MapperSearch<'_> {
    /// Fills in how the mappers of these VMAs of the target are known.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn fill(&self, vmas: &mut [Vec<Vma>]) -> Result<(), Error> {
        let mut objects: BTreeMap<Object, TargetMappings> = BTreeMap::new();
        for vma in vmas.iter().flatten().filter(|vma| may_share_tables(vma)) {
            objects.entry(vma.object).or_default();
        }
        if objects.is_empty() {
            return Ok(());
        }
        for vma in vmas.iter().flatten() {
            if let Some(shown) = objects.get_mut(&vma.object) {
                shown.mappings += 1;
                shown.private += usize::from(!vma.shared);
            }
        }
        // Memory that is also mapped private is compared page by page.
        let is_doubtful = |shown: &TargetMappings| {
            let is_known = self.tells_shared_tables && self.arrivals.is_none();
            shown.private == 0 && (shown.mappings > 1 || !is_known)
        };
        let doubtful = objects.iter().filter(|(_, shown)| is_doubtful(shown));
        let doubtful: BTreeSet<Object> = doubtful.map(|(&object, _)| object).collect();
        let asked = Asked { objects: doubtful, ..Asked::default() };
        let others = if asked.objects.is_empty() { None } else { self.others(&asked)? };
        let doubtful = asked.objects;
        for vma in vmas.iter_mut().flatten().filter(|vma| objects.contains_key(&vma.object)) {
            let shows_it = |other: &OtherMapping| {
                let (theirs, ours) = (&other.bytes, bytes(vma));
                other.object == vma.object && theirs.start < ours.end && ours.start < theirs.end
            };
            let is_targets = doubtful.contains(&vma.object)
                && others.as_ref().is_some_and(|others| !others.mappings.iter().any(shows_it));
            vma.mappers = if is_targets { Mappers::Target } else { Mappers::Strangers };
        }
        Ok(())
    }

    /// The objects among these that processes outside the target map. `None` if not all of these can be known.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn attached(
        &self,
        objects: &BTreeSet<Object>,
    ) -> Result<Option<BTreeSet<Object>>, Error> {
        let others = self.others(&Asked { objects: objects.clone(), ..Asked::default() })?;
        Ok(others.map(|others| others.mappings.iter().map(|other| other.object).collect()))
    }

    /// Processes outside the target that map these objects, or are kin. `None` if not all can be known.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(super) fn others(&self, asked: &Asked) -> Result<Option<Others>, Error> {
        let pids: BTreeSet<i32> = self.spaces.iter().flat_map(|space| space.pids()).collect();
        let mut processes = numbered::<i32>(&self.roots.proc);
        if !self.sees_all() || !processes.contains_key(&1) {
            return Ok(None);
        }
        processes.retain(|pid, _| !pids.contains(pid));
        let processes: Vec<_> = processes.into_iter().collect();
        let mut others = Others::default();
        // A process that is forked meanwhile, and not seen, has a parent that maps the same.
        for some in processes.chunks(AT_ONCE) {
            if (self.stop)() {
                return Err(Error::Stopped);
            }
            if !silent(self.roots, some).is_empty() {
                return Ok(None);
            }
            for (pid, directory) in some {
                let Ok(shown) = shown(*pid, directory, asked) else { return Ok(None) };
                let Some(is_kin) = self.is_kin(*pid, asked) else { return Ok(None) };
                others.mappings.extend(shown);
                others.kin.extend(is_kin.then_some(*pid));
            }
        }
        Ok(Some(self.strangers(others, asked)))
    }

    /// Whether /proc has all processes of the host.
    fn sees_all(&self) -> bool {
        let namespace = read::namespace(&self.roots.proc.join("self/ns/pid"));
        namespace.is_ok_and(|namespace| namespace == FIRST_PIDS)
    }

    /// Whether a process was forked from where one of the target was. `None` if that is hidden.
    fn is_kin(&self, pid: i32, asked: &Asked) -> Option<bool> {
        if asked.layouts.is_empty() {
            return Some(false);
        }
        match thread::layout(self.roots, pid) {
            Some(layout) if layout.is_hidden() => None,
            layout => Some(layout.is_some_and(|layout| asked.layouts.contains(&layout))),
        }
    }

    /// The findings about processes that still exist, do not share their memory with the target, and have not joined
    /// it.
    fn strangers(&self, mut others: Others, asked: &Asked) -> Others {
        let mapping = others.mappings.iter().map(|other| other.pid);
        let pids: BTreeSet<i32> = mapping.chain(others.kin.iter().copied()).collect();
        if pids.is_empty() {
            return others;
        }
        let is_same = |pid: i32| {
            let mut spaces = self.spaces.iter();
            spaces.any(|space| kcmp_vm(space.tid(), pid).is_ok_and(|order| order.is_eq()))
        };
        let arrived = self.arrivals.map_or_else(Vec::new, |arrivals| {
            let mut arrived = arrivals.arrived(&|pid| !pids.contains(&pid));
            arrived.retain(|process| arrivals.admits(process));
            arrived
        });
        let has_arrived = |pid: i32| {
            let is_it = |process: &Process| process.identity.pid == pid;
            arrived.iter().any(is_it)
        };
        let is_gone = |pid: i32| {
            let directory = self.roots.proc.join(pid.to_string());
            let maps_none = || shown(pid, &directory, asked).is_ok_and(|shown| shown.is_empty());
            thread::is_exiting(self.roots, pid)
                || self.is_kin(pid, asked) == Some(false) && maps_none()
        };
        let strangers = |pid: &i32| !is_same(*pid) && !has_arrived(*pid) && !is_gone(*pid);
        let strangers: BTreeSet<i32> = pids.iter().copied().filter(strangers).collect();
        others.mappings.retain(|other| strangers.contains(&other.pid));
        others.kin.retain(|pid| strangers.contains(pid));
        others
    }
}

/// The mappings of these objects in a process; none if it has ended.
fn shown(
    pid: i32,
    directory: &Path,
    Asked { objects, internal, .. }: &Asked,
) -> Result<Vec<OtherMapping>, Error> {
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let text = match read::text(&directory.join("maps")) {
        Err(Error::Read { source, .. }) if is_gone(&source) => return Ok(Vec::new()),
        text => text?,
    };
    let mut vmas: Vec<Vma> = text.lines().filter_map(maps::parse_line).collect();
    let is_segment = |object: &Object| matches!(object, Object::Segment { .. });
    if objects.iter().any(is_segment) && vmas.iter().any(|vma| is_segment(&vma.object)) {
        let namespace = match read::namespace(&directory.join("ns/ipc")) {
            Err(Error::Read { source, .. }) if is_gone(&source) => return Ok(Vec::new()),
            namespace => namespace?,
        };
        vmas.iter_mut().for_each(|vma| vma.object = vma.object.within(namespace));
    }
    let same = |vma: Vma| {
        let asked = objects.iter().filter(move |&&object| may_be(vma.object, object, *internal));
        let bytes = bytes(&vma);
        asked.map(move |&object| OtherMapping { pid, object, bytes: bytes.clone() })
    };
    Ok(vmas.into_iter().flat_map(same).collect())
}

/// Whether a mapping of `shown` may show pages of `object`: it is the same, or a file of an overlay or another file system without a
/// block device, which may pass on the inode number of a file below it.
fn may_be(shown: Object, object: Object, internal: Option<(u32, u32)>) -> bool {
    match (shown, object) {
        _ if shown == object => true,
        (_, Object::Compared { .. }) => object.may_share(shown),
        (Object::File { device: (0, _), inode }, Object::File { device: below, inode: file })
            if internal.is_some() =>
        {
            let is_stacked = |device: (u32, u32)| internal != Some(device);
            let Object::File { device, .. } = shown else { return false };
            is_stacked(device)
                && is_stacked(below)
                && Object::low_bits(inode) == Object::low_bits(file)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::{fs, os::unix::fs::symlink};

    const SEGMENT: &str = "40000000-c0000000 rw-s 00000000 00:1f 77 /dev/hugepages/guest";

    /// A host with an init, and processes from 100 on that map these.
    fn host(maps: &[&str]) -> Fake {
        let fake = Fake::new();
        fake.process(1, "init", &["0"]);
        for (pid, maps) in (100..).zip(maps) {
            fake.process(pid, "guest", &["0"]);
            fake.write(&format!("proc/{pid}/maps"), &format!("{maps}\n"));
        }
        fs::create_dir_all(fake.path("proc/self/ns")).expect("a directory");
        symlink("pid:[4026531836]", fake.path("proc/self/ns/pid")).expect("a link");
        fake
    }

    /// The mappers found for the mappings of the first `targets` processes.
    fn mappers(fake: &Fake, targets: i32, tells_shared_tables: bool) -> Vec<Mappers> {
        let spaces: Vec<AddressSpace> = (100..100 + targets).map(|pid| fake.space(pid)).collect();
        let vma = |line: &str| Vma {
            hugetlb_bytes: Some(pmd_size()),
            ..maps::parse_line(line).expect("a line")
        };
        let vmas = |space: &AddressSpace| {
            let text = read::text(&space.path("maps")).expect("its maps");
            text.lines().map(vma).collect::<Vec<_>>()
        };
        let mut vmas: Vec<Vec<Vma>> = spaces.iter().map(vmas).collect();
        let roots = &fake.roots();
        let stop = &|| false;
        let search =
            MapperSearch { roots, spaces: &spaces, arrivals: None, tells_shared_tables, stop };
        search.fill(&mut vmas).expect("not stopped");
        vmas.into_iter().flatten().map(|vma| vma.mappers).collect()
    }

    #[test]
    fn what_others_map_is_shared_with_strangers() {
        let fake = host(&[SEGMENT; 3]);
        for tells in [false, true] {
            assert_eq!(mappers(&fake, 3, tells), [Mappers::Target; 3]);
            assert_eq!(mappers(&fake, 2, tells), [Mappers::Strangers; 2]);
            assert_eq!(mappers(&fake, 1, tells), [Mappers::Strangers]);
        }
        let elsewhere = "40000000-80000000 rw-s 80000000 00:1f 77 /dev/hugepages/guest";
        assert_eq!(mappers(&host(&[SEGMENT, SEGMENT, elsewhere]), 2, true), [Mappers::Target; 2]);
    }

    #[test]
    fn one_process_alone_is_looked_up_where_the_kernel_does_not_tell() {
        let fake = host(&[SEGMENT]);
        assert_eq!(mappers(&fake, 1, false), [Mappers::Target]);
        assert_eq!(mappers(&fake, 1, true), [Mappers::Strangers], "of pages with several mappings");
    }

    #[test]
    fn without_a_view_of_all_processes_nothing_is_ruled_out() {
        let fake = host(&[SEGMENT; 2]);
        fs::remove_file(fake.path("proc/self/ns/pid")).expect("a link");
        symlink("pid:[4026532189]", fake.path("proc/self/ns/pid")).expect("a link");
        assert_eq!(mappers(&fake, 2, true), [Mappers::Strangers; 2]);
        let fake = host(&[SEGMENT; 2]);
        fake.remove(1);
        assert_eq!(mappers(&fake, 2, true), [Mappers::Strangers; 2]);
    }

    #[test]
    fn less_than_a_whole_table_is_counted() {
        let short = "40200000-80000000 rw-s 00200000 00:1f 77 /dev/hugepages/guest";
        let private = "40000000-80000000 rw-p 00000000 00:1f 77 /dev/hugepages/guest";
        for line in [short, private] {
            assert_eq!(mappers(&host(&[line; 2]), 1, false), [Mappers::Counted], "{line}");
        }
        let fake = host(&[SEGMENT, private]);
        assert_eq!(mappers(&fake, 2, false), [Mappers::Strangers; 2], "mapped in both ways");
    }
}
