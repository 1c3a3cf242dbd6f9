//! Who maps hugetlb memory whose page tables processes may share.
//!
//! Processes that map the same 1 GiB of a hugetlb object shared have one page table for it (mm/hugetlb.c, `huge_pmd_share`). The
//! kernel then counts one mapping of each page, however many processes map it. So counts do not tell whether others map a page.
//! What tells it is who maps the object, which is looked up in the maps of all processes. A process that maps the object later is
//! not noticed before the next survey, unless it is the target's.

use crate::{
    Arrivals, Error, Roots,
    files::{
        answering::AT_ONCE,
        maps::{self, Object, Vma},
        read::{self, is_gone, numbered},
    },
    survey::{space::AddressSpace, used_files::silent},
};
use numaloc_core::{HUGE, Mappers, Process};
use numaloc_sys::kcmp_vm;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::Path,
};

/// What one page table with entries of 2 MiB maps.
const TABLE: u64 = 1 << 30;
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
struct OtherMapping {
    pid: i32,
    object: Object,
    bytes: Range<u64>,
}

/// Whether processes may share page tables of a mapping (mm/hugetlb.c, `want_pmd_share`).
fn may_share_tables(vma: &Vma) -> bool {
    let is_whole = vma.start.next_multiple_of(TABLE) < vma.end / TABLE * TABLE;
    vma.shared && vma.hugetlb_bytes == Some(HUGE) && is_whole
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
        // What is mapped private, too, is compared page by page.
        let is_doubtful = |shown: &TargetMappings| {
            let is_told = self.tells_shared_tables && self.arrivals.is_none();
            shown.private == 0 && (shown.mappings > 1 || !is_told)
        };
        let doubtful = objects.iter().filter(|(_, shown)| is_doubtful(shown));
        let doubtful: BTreeSet<Object> = doubtful.map(|(&object, _)| object).collect();
        let others = if doubtful.is_empty() { None } else { self.others(&doubtful)? };
        for vma in vmas.iter_mut().flatten().filter(|vma| objects.contains_key(&vma.object)) {
            let shows_it = |other: &OtherMapping| {
                let (theirs, ours) = (&other.bytes, bytes(vma));
                other.object == vma.object && theirs.start < ours.end && ours.start < theirs.end
            };
            let is_targets = doubtful.contains(&vma.object)
                && others.as_ref().is_some_and(|others| !others.iter().any(shows_it));
            vma.mappers = if is_targets { Mappers::Target } else { Mappers::Strangers };
        }
        Ok(())
    }

    /// Those of these objects that processes outside the target map. `None` if not all of these can be known.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn attached(
        &self,
        objects: &BTreeSet<Object>,
    ) -> Result<Option<BTreeSet<Object>>, Error> {
        let others = self.others(objects)?;
        Ok(others.map(|others| others.iter().map(|other| other.object).collect()))
    }

    /// The mappings of these objects outside the target. `None` if not all can be known.
    fn others(&self, objects: &BTreeSet<Object>) -> Result<Option<Vec<OtherMapping>>, Error> {
        let pids: BTreeSet<i32> = self.spaces.iter().flat_map(|space| space.pids()).collect();
        let mut processes = numbered::<i32>(&self.roots.proc);
        if !self.sees_all() || !processes.contains_key(&1) {
            return Ok(None);
        }
        processes.retain(|pid, _| !pids.contains(pid));
        let processes: Vec<_> = processes.into_iter().collect();
        let mut others = Vec::new();
        // A process that is forked meanwhile, and not seen, has a parent that maps the same.
        for some in processes.chunks(AT_ONCE) {
            if (self.stop)() {
                return Err(Error::Stopped);
            }
            if !silent(self.roots, some).is_empty() {
                return Ok(None);
            }
            for (pid, directory) in some {
                let Ok(shown) = shown(*pid, directory, objects) else { return Ok(None) };
                others.extend(shown);
            }
        }
        Ok(Some(self.strangers(others, objects)))
    }

    /// Whether /proc has all processes of the host.
    fn sees_all(&self) -> bool {
        let namespace = read::namespace(&self.roots.proc.join("self/ns/pid"));
        namespace.is_ok_and(|namespace| namespace == FIRST_PIDS)
    }

    /// Those of processes that still exist, do not share their memory with the target, and have not come to it.
    fn strangers(
        &self,
        mut others: Vec<OtherMapping>,
        objects: &BTreeSet<Object>,
    ) -> Vec<OtherMapping> {
        let pids: BTreeSet<i32> = others.iter().map(|other| other.pid).collect();
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
            shown(pid, &directory, objects).is_ok_and(|shown| shown.is_empty())
        };
        let strangers = |pid: &i32| !is_same(*pid) && !has_arrived(*pid) && !is_gone(*pid);
        let strangers: BTreeSet<i32> = pids.iter().copied().filter(strangers).collect();
        others.retain(|other| strangers.contains(&other.pid));
        others
    }
}

/// What a process maps of these objects; nothing if it has ended.
fn shown(
    pid: i32,
    directory: &Path,
    objects: &BTreeSet<Object>,
) -> Result<Vec<OtherMapping>, Error> {
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
    vmas.retain(|vma| objects.contains(&vma.object));
    let other = |vma: Vma| OtherMapping { pid, object: vma.object, bytes: bytes(&vma) };
    Ok(vmas.into_iter().map(other).collect())
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

    /// What is found of the mappings of the first `targets` processes.
    fn mappers(fake: &Fake, targets: i32, tells_shared_tables: bool) -> Vec<Mappers> {
        let spaces: Vec<AddressSpace> = (100..100 + targets).map(|pid| fake.space(pid)).collect();
        let vma = |line: &str| Vma {
            hugetlb_bytes: Some(HUGE),
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
    fn who_cannot_see_everybody_rules_nothing_out() {
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
