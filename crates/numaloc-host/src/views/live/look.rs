//! One look at the pages of a process: its page map, window by window, so that it can be interrupted at any of them.

use crate::{
    Error, Roots,
    files::{
        maps::{self, Vma},
        read,
    },
    processes::process::{self, Miss},
    survey::{
        mounts::Mounts,
        reserved::Reserved,
        scan::{PageRun, Scanned, Scanner},
        space::AddressSpace,
    },
    views::attached::AttachedObjects,
};
use numaloc_core::{
    Claims, Identity, Mappers, Mapping, NodeId, NodeSet, Options, Pages, Topology, home::home,
    live::MappingNow,
};
use std::{collections::BTreeMap, sync::Arc};

/// Address space that is looked at in one go: 2 MiB of page map entries.
const WINDOW: u64 = 1 << 30;
/// Mappings that are looked at in one go.
const MAPPINGS: usize = 256;

/// The page map of one process while it is being read, a piece at a time.
#[derive(Debug)]
pub(super) struct PageLook {
    pub(super) identity: Identity,
    pub(super) home: NodeSet,
    space: [AddressSpace; 1],
    vmas: Vec<Vma>,
    reserved: Reserved,
    /// The mapping that is looked at, and how far.
    index: usize,
    offset: u64,
    pub(super) mappings: Vec<MappingNow>,
    pub(super) attached: AttachedObjects,
    pub(super) unplaced_bytes: u64,
}

/// Why there is nothing to look at.
#[derive(Debug)]
pub(super) enum NoLook {
    /// It has ended, or has no memory.
    Gone,
    /// Its page map may not be read, or cannot be read now.
    Hidden,
}

impl PageLook {
    /// Begins to look at a process.
    pub(super) fn begin(
        roots: &Arc<Roots>,
        topology: &Topology,
        identity: Identity,
        can_scan: bool,
    ) -> Result<Self, NoLook> {
        let process = match process::read(roots, identity.pid, topology) {
            Ok(process) if process.identity == identity => process,
            Err(Miss::NoRights { .. }) => return Err(NoLook::Hidden),
            _ => return Err(NoLook::Gone),
        };
        let home = home(topology, &process, &Options::default());
        let space = match AddressSpace::answering(roots, process) {
            Ok(Some(space)) => space,
            Err(Error::NoRights { .. } | Error::Silent { .. }) => return Err(NoLook::Hidden),
            _ => return Err(NoLook::Gone),
        };
        let text = match space.read("maps", read::text) {
            Ok(Some(text)) => text,
            Err(Error::NoRights { .. }) => return Err(NoLook::Hidden),
            _ => return Err(NoLook::Gone),
        };
        // A mapping without access rights is mostly a reservation. Without PAGEMAP_SCAN a terabyte of it would take
        // seconds.
        let is_wanted = |line: &&str| {
            can_scan || !line.split(' ').nth(1).is_some_and(|perms| perms.starts_with("---"))
        };
        let mut vmas: Vec<Vma> =
            text.lines().filter(is_wanted).filter_map(maps::parse_line).collect();
        let mut mounts = Mounts::new(roots);
        vmas.iter_mut().for_each(|vma| mounts.tell(&space, vma));
        // No sum has it.
        vmas.retain(|vma| vma.fixed.is_none());
        let (mappings, unplaced_bytes) = (Vec::new(), 0);
        let attached = AttachedObjects::of(&vmas);
        let mut reserved = Reserved::default();
        if !can_scan && reserved.count(0, &space, &vmas, &|| false).is_err() {
            return Err(NoLook::Hidden);
        }
        Ok(Self {
            identity,
            home,
            space: [space],
            vmas,
            reserved,
            index: 0,
            offset: 0,
            mappings,
            attached,
            unplaced_bytes,
        })
    }

    /// Continues by a window. Returns whether it is done.
    pub(super) fn advance(&mut self, scanner: &mut Scanner) -> Result<bool, NoLook> {
        let mut left = WINDOW;
        for _ in 0..MAPPINGS {
            let Some(vma) = self.vmas.get(self.index) else { return Ok(true) };
            if let Some(nodes) = self.reserved.nodes(0, vma.start) {
                self.add(nodes.clone());
                self.index += 1;
                continue;
            }
            let length = vma.end - vma.start;
            let end = length.min(self.offset.saturating_add(left));
            let mappings = [Mapping { process: 0, start: vma.start }];
            // The owner of a page does not matter here, so it is not looked up.
            let scanned = Scanned {
                spaces: &self.space,
                claims: &Claims::default(),
                mappings: &mappings,
                pages: &Pages::Own,
                mappers: Mappers::Counted,
                hugetlb_bytes: vma.hugetlb_bytes,
                ruled_out: Default::default(),
            };
            let (mut nodes, mut unplaced_bytes) = (BTreeMap::new(), 0);
            let mut visit = |run: PageRun<'_>| match run.node {
                Some(node) => *nodes.entry(node).or_insert(0) += run.bytes,
                None => unplaced_bytes += run.bytes,
            };
            // An address space that ends shows no pages, and is gone at the next stat.
            let result = scanner.scan(&scanned, self.offset..end, &mut visit);
            result.map_err(|_| NoLook::Hidden)?;
            self.unplaced_bytes += unplaced_bytes;
            self.add(nodes);
            left -= end - self.offset;
            self.offset = end;
            if end == length {
                (self.index, self.offset) = (self.index + 1, 0);
            }
            if left == 0 {
                break;
            }
        }
        Ok(self.index == self.vmas.len())
    }

    /// Adds what a window of the mapping in hand has shown.
    fn add(&mut self, nodes: BTreeMap<NodeId, u64>) {
        if nodes.is_empty() {
            return;
        }
        let vma = &self.vmas[self.index];
        match self.mappings.last_mut().filter(|last| last.start == vma.start) {
            Some(last) => {
                nodes
                    .into_iter()
                    .for_each(|(node, bytes)| *last.nodes.entry(node).or_insert(0) += bytes);
            }
            None => self.mappings.push(MappingNow {
                start: vma.start,
                bytes: vma.end - vma.start,
                kind: vma.kind,
                name: vma.name.clone(),
                shared: vma.shared,
                nodes,
            }),
        }
    }

    /// Resident bytes by node, as far as the look has come.
    pub(super) fn nodes(&self) -> BTreeMap<NodeId, u64> {
        let mut sum = BTreeMap::new();
        for (&node, &bytes) in self.mappings.iter().flat_map(|mapping| &mapping.nodes) {
            *sum.entry(node).or_insert(0) += bytes;
        }
        sum
    }
}
