//! Resident pages of shared memory that the target has attached and that no process maps at this moment.
//!
//! A database's buffers stay in memory when the session that read them ends, a memfd may be filled by write(2), and a System V
//! segment lives without any process. Such pages have a node, and the next process that touches them pays for it, but no page map
//! shows them. They are found through the object: what is allocated for it (st_blocks) is compared with what was seen mapped, and
//! only where that differs are its pages looked at one by one, through a mapping of this process (/proc/PID/map_files, fs/proc/base.c,
//! `proc_map_files_get_link`, for which it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE). Which of them others map, too,
//! /proc/kpagecount says.

use crate::{
    Error, Roots,
    files::{
        cached_file::{CachedFile, FileId},
        file_system::{TMPFS, mounts},
        mapped_pages::MappedPages,
        maps::{Object, Vma},
        preallocated::has_swapped,
        read,
    },
    survey::{mappers::MapperSearch, mounts::internal_device, space::AddressSpace},
};
use numaloc_core::{
    Chunks, Extent, FileCache, Kind, Mapping, Mempolicy, NodeResidency, Pages, Residency, Rule,
    page_size,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::Arc,
};

/// Less than this is not worth a look: opening an object, and asking all processes whether they map it. PostgreSQL has segments of 1 MiB
/// for its statistics, which one process fills.
const LEAST: u64 = 64 << 10;
/// Most objects of a target that are opened, the largest ones.
const MOST: usize = 256;

/// An object with resident pages that no other process maps.
#[derive(Clone, Debug)]
pub struct AttachedFile {
    /// The way to it, through a process that maps it.
    pub path: PathBuf,
    /// Device and inode under that path at that time.
    pub id: FileId,
    /// Bytes of these pages by node.
    pub cache: FileCache,
}

/// The objects found, by the first mapping of each: process and address.
pub type AttachedFiles = BTreeMap<(usize, u64), AttachedFile>;

/// The result of the search in all objects.
#[derive(Debug, Default)]
pub(super) struct Attached {
    pub(super) extents: Vec<Extent>,
    pub(super) files: AttachedFiles,
    pub(super) unseen_bytes: u64,
    pub(super) swapped_bytes: u64,
}

/// A shared object that the target has attached.
struct SharedObject {
    /// The first mapping of each process.
    mappings: Vec<Mapping>,
    /// Bytes that the longest mapping shows.
    bytes: u64,
    /// Bounds of the first mapping.
    first: (u64, u64),
    name: Arc<str>,
    rule: Option<Rule>,
    /// hugetlb page size in bytes, if it is hugetlb memory.
    hugetlb_bytes: Option<u64>,
    /// Bytes of it that were seen in page maps.
    seen: u64,
}

/// The shared objects of a target, noted before their mappings become extents.
#[derive(Default)]
pub(super) struct SharedObjects {
    objects: BTreeMap<Object, SharedObject>,
    /// Where the mappings begin and end.
    mappings: BTreeMap<(usize, u64), (u64, Object)>,
}

impl SharedObjects {
    pub(super) fn of(vmas: &[Vec<Vma>]) -> Self {
        let mut all = Self::default();
        let is_shared =
            |vma: &&Vma| vma.shared && (vma.kind == Kind::Shmem || vma.hugetlb_bytes.is_some());
        for (process, vmas) in vmas.iter().enumerate() {
            for vma in vmas.iter().filter(is_shared) {
                all.mappings.insert((process, vma.start), (vma.end, vma.object));
                let known = all.objects.entry(vma.object).or_insert_with(|| SharedObject {
                    mappings: Vec::new(),
                    bytes: 0,
                    first: (vma.start, vma.end),
                    name: vma.name.clone(),
                    rule: None,
                    hugetlb_bytes: vma.hugetlb_bytes,
                    seen: 0,
                });
                known.bytes = known.bytes.max(vma.end - vma.start);
                known.rule = known.rule.into_iter().chain(vma.rule).min();
                if known.mappings.last().is_none_or(|last| last.process != process) {
                    known.mappings.push(Mapping { process, start: vma.start });
                }
            }
        }
        all
    }

    /// Counts what was seen in page maps.
    fn count(&mut self, extents: &[Extent]) {
        for Extent { mappings, residency, .. } in extents {
            let Mapping { process, start } = mappings[0];
            let below = self.mappings.range(..=(process, start)).next_back();
            let object = below.filter(|((of, _), (end, _))| *of == process && start < *end);
            if let Some(known) = object.and_then(|(_, (_, object))| self.objects.get_mut(object)) {
                let bytes = residency.nodes.values().map(NodeResidency::total_bytes);
                known.seen += bytes.sum::<u64>() + residency.unplaced_bytes;
            }
        }
    }
}

/// Looks for pages that no process maps.
pub(super) struct AttachedSearch<'a> {
    pub(super) roots: &'a Roots,
    pub(super) spaces: &'a [AddressSpace],
    pub(super) mappers: &'a MapperSearch<'a>,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
}

impl AttachedSearch<'_> {
    /// Finds the pages of these objects that are in none of the `extents` and that no other process maps.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(super) fn find(
        &self,
        mut objects: SharedObjects,
        extents: &[Extent],
    ) -> Result<Attached, Error> {
        objects.count(extents);
        let mut found = Attached::default();
        let mut doubtful: Vec<(Object, SharedObject)> = objects.objects.into_iter().collect();
        doubtful.retain(|(_, object)| object.bytes >= object.seen + LEAST);
        doubtful.sort_by_key(|(_, object)| Reverse(object.bytes - object.seen));
        doubtful.truncate(MOST);
        let mut open: Vec<(Object, SharedObject, CachedFile)> = Vec::new();
        for (key, object) in doubtful {
            if object.hugetlb_bytes.is_none() && !self.is_in_memory(key, object.mappings[0].process)
            {
                continue;
            }
            match CachedFile::open_memory(self.roots, &self.path(&object)) {
                Ok(file) if file.allocated_bytes() >= object.seen + LEAST => {
                    open.push((key, object, file));
                }
                Err(error) if is_forbidden(&error) => {
                    found.unseen_bytes += object.bytes - object.seen;
                }
                // All of it is mapped, or it is another kind of memory, or it has gone.
                Ok(_) | Err(_) => {}
            }
        }
        let keys: BTreeSet<Object> = open.iter().map(|(key, ..)| *key).collect();
        let others = if keys.is_empty() { None } else { self.mappers.attached(&keys)? };
        let mut mapped = MappedPages::open(self.roots);
        let has_swap = has_swapped();
        for (key, object, file) in open {
            let Some(mapped) = mapped.as_mut() else {
                found.unseen_bytes += file.allocated_bytes() - object.seen;
                continue;
            };
            let is_theirs = others.as_ref().is_none_or(|others| others.contains(&key));
            let Some((cache, resident_bytes)) = self.look(&file, mapped)? else { continue };
            if has_swap && file.page_bytes() == page_size() {
                // Memory that is allocated for a file on tmpfs is resident or in swap.
                found.swapped_bytes += file.allocated_bytes().saturating_sub(resident_bytes);
            }
            if cache.bytes() > 0 {
                let at = (object.mappings[0].process, object.mappings[0].start);
                let (path, id) = (file.path().to_owned(), file.id());
                found.extents.push(extent(object, &cache, is_theirs));
                found.files.insert(at, AttachedFile { path, id, cache });
            }
        }
        Ok(found)
    }

    /// Whether an object is on a file system in memory. Its name does not tell that, and to ask a file of another one, such as of FUSE,
    /// may take forever, so it is not even opened.
    fn is_in_memory(&self, object: Object, process: usize) -> bool {
        let (Object::File { device, .. } | Object::Segment { device, .. }) = object else {
            return false;
        };
        // Memfds, System V segments and shared anonymous memory are on no mount table.
        internal_device() == Some(device) || {
            let device = format!("{}:{}", device.0, device.1);
            let text = read::text(&self.spaces[process].path("mountinfo")).unwrap_or_default();
            mounts(&text).any(|mount| mount.kind == TMPFS && mount.device == device)
        }
    }

    fn path(&self, SharedObject { mappings, first: (start, end), .. }: &SharedObject) -> PathBuf {
        self.spaces[mappings[0].process].path(&format!("map_files/{start:x}-{end:x}"))
    }

    /// The pages of a file that no other process maps, and the bytes of all of its resident ones; `None` if it cannot
    /// be mapped any more.
    fn look(
        &self,
        file: &CachedFile,
        mapped: &mut MappedPages,
    ) -> Result<Option<(FileCache, u64)>, Error> {
        let (mut cache, mut resident_bytes) = (FileCache::default(), 0);
        for number in file.numbers() {
            if (self.stop)() {
                return Err(Error::Stopped);
            }
            let Some(nodes) = mapped.unmapped_nodes(file, number) else { return Ok(None) };
            cache.add(number, &nodes.unmapped);
            resident_bytes += nodes.resident_bytes;
        }
        Ok(Some((cache, resident_bytes)))
    }
}

/// Whether this process lacks the rights to look at an object.
fn is_forbidden(error: &Error) -> bool {
    match error {
        Error::FileRights { .. } => true,
        Error::Read { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

/// The extent of the pages that no process maps. If processes outside the target have attached the object, it is
/// theirs, too.
fn extent(object: SharedObject, cache: &FileCache, is_theirs: bool) -> Extent {
    let SharedObject { mappings, bytes, name, rule, hugetlb_bytes, .. } = object;
    let on_node = |bytes| {
        let (owned_bytes, shared_bytes) = if is_theirs { (0, bytes) } else { (bytes, 0) };
        let huge_bytes = if hugetlb_bytes.is_some() { bytes } else { 0 };
        NodeResidency { owned_bytes, shared_bytes, huge_bytes }
    };
    let nodes = cache.nodes().into_iter().map(|(node, bytes)| (node, on_node(bytes)));
    // No page map has chunks with such pages.
    let residency =
        Residency { nodes: nodes.collect(), away: Chunks::default(), ..Residency::default() };
    Extent {
        mappings,
        pages: Pages::Unmapped,
        bytes,
        kind: Kind::Shmem,
        policy: Mempolicy::Default,
        hugetlb_bytes,
        mappers: Default::default(),
        stripe: None,
        rule,
        name,
        residency,
    }
}

#[cfg(test)]
mod tests;
