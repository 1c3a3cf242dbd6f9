//! The mappings of a program that are memory of a cell of its guest. A mapping that is not certain belongs to no cell.
//!
//! QEMU maps its memory backends one after the other, in the order of its command line (softmmu/vl.c, `object_create_late`), each with a
//! gap before the next (util/mmap-alloc.c, `qemu_ram_mmap`), so a backend is a VMA of its own length. A file is known by its name. Memfds
//! have one name for all backends, and anonymous memory has none: they are known by their length, and where several have the same, by
//! their order. The kernel gives a mapping the highest room that is long enough (mm/mmap.c, `vm_unmapped_area`), so of mappings of
//! one length a later one is below. Programs without a limit of the stack have them the other way round, and are recognized by
//! the distance to their stack.

use crate::{
    machine::guest::{Backing, Guest, GuestMemory},
    memory::extent::Kind,
    page_size,
};
use std::{cmp::Reverse, collections::BTreeMap};

/// A mapping of the program that runs a guest.
#[derive(Clone, Copy, Debug)]
pub struct MappedRange<'a> {
    /// First virtual address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Path or name as in /proc/PID/maps.
    pub name: &'a str,
    /// Kind of memory that backs its pages.
    pub kind: Kind,
    /// Whether it is mapped shared.
    pub shared: bool,
}

/// The name of a memfd that QEMU has made for a backend (backends/hostmem-memfd.c).
const MEMFD: &str = "/memfd:memory-backend-memfd";
/// Shared anonymous memory, as the kernel shows it.
const ZERO: &str = "/dev/zero";

/// For each mapping the cell whose memory it is, by its index in [`Guest::cells`].
pub fn cells(guest: &Guest, mappings: &[MappedRange<'_>]) -> Vec<Option<usize>> {
    let mut found = vec![None; mappings.len()];
    let mut alike: BTreeMap<(&Backing, Option<u64>), Vec<&GuestMemory>> = BTreeMap::new();
    for memory in &guest.memory {
        match &memory.backing {
            Backing::File(path) => by_name(memory, path, mappings, &mut found),
            Backing::Other => {}
            backing => alike.entry((backing, memory.bytes)).or_default().push(memory),
        }
    }
    // A part of unknown length could be any mapping of its kind.
    let is_certain = |backing: &Backing| !alike.contains_key(&(backing, None));
    let stack = mappings.iter().find(|mapping| mapping.kind == Kind::Stack);
    for ((backing, bytes), alike) in alike.iter().filter(|((backing, _), _)| is_certain(backing)) {
        let bytes = bytes.unwrap_or_default().next_multiple_of(page_size());
        let is_meant =
            |mapping: &MappedRange<'_>| mapping.bytes == bytes && is_backed(mapping, backing);
        let mut meant: Vec<usize> =
            (0..mappings.len()).filter(|&index| is_meant(&mappings[index])).collect();
        // The mappings of a program with a limit of the stack are in the upper half of the addresses below it.
        let is_ordered = meant.len() == 1
            || meant
                .iter()
                .all(|&index| stack.is_some_and(|stack| mappings[index].start > stack.start / 2));
        if meant.len() != alike.len() || !is_ordered {
            continue;
        }
        meant.sort_by_key(|&index| Reverse(mappings[index].start));
        for (index, memory) in meant.into_iter().zip(alike) {
            found[index] = memory.cell;
        }
    }
    found
}

/// Whether a mapping is of this kind.
fn is_backed(mapping: &MappedRange<'_>, backing: &Backing) -> bool {
    let name = undeleted(mapping.name);
    match backing {
        Backing::Anonymous => mapping.kind == Kind::Anonymous && !mapping.shared,
        Backing::SharedAnonymous => mapping.shared && name == ZERO,
        Backing::Memfd => name == MEMFD,
        Backing::File(_) | Backing::Other => false,
    }
}

/// Notes the mappings of a file. A mapping that could be several parts of the memory is left out.
fn by_name(
    memory: &GuestMemory,
    path: &str,
    mappings: &[MappedRange<'_>],
    found: &mut [Option<usize>],
) {
    let id = memory.id.replace('/', "_");
    for (mapping, found) in mappings.iter().zip(found) {
        let name = undeleted(mapping.name);
        if name.starts_with('/') && (name == path || is_made_by_qemu(name, &id)) {
            *found = match found {
                Some(other) if memory.cell != Some(*other) => None,
                _ => memory.cell,
            };
        }
    }
}

/// Whether QEMU has made a file for the backend with this id: in the directory that it was given, with six random characters at
/// the end (softmmu/physmem.c, `file_ram_open`). Its directory may have another path in the mount namespace of the program.
fn is_made_by_qemu(name: &str, id: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or_default();
    let random = base.strip_prefix("qemu_back_mem.").and_then(|rest| {
        rest.strip_prefix("_objects_").unwrap_or(rest).strip_prefix(id)?.strip_prefix('.')
    });
    random.is_some_and(|random| random.len() == 6 && !random.contains('.'))
}

fn undeleted(name: &str) -> &str {
    name.strip_suffix(" (deleted)").unwrap_or(name)
}

#[cfg(test)]
mod tests;
