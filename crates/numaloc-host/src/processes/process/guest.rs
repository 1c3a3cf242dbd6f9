//! The guest that a process runs, from the command line of QEMU: which memory and which vCPUs make each of its NUMA nodes.
//!
//! The command line is the same for all programs that start QEMU (libvirt, Proxmox, OpenStack, an administrator), and states what they
//! have made of the definitions that each of them has in a form of its own. Parts that are plugged in later are not
//! on it.

mod arguments;

use super::OpenProcess;
use arguments::Arguments;
use numaloc_core::{Backing, Guest, GuestCell, GuestMemory, Threads, amount};
use std::{collections::BTreeMap, io::Read};

/// Longest command line that is read, in bytes. Command lines of guests with hundreds of devices have some ten
/// thousand.
const LONGEST: u64 = 1 << 20;
/// Most NUMA nodes of a guest (include/sysemu/numa.h, `MAX_NODES`).
const MOST_CELLS: usize = 128;
/// Most parts of its memory: one for each node, and for each of 256 slots (include/hw/acpi/acpi_dev_interface.h, `ACPI_MAX_RAM_SLOTS`).
const MOST_MEMORY: usize = MOST_CELLS + 256;

/// The guest with its cells, if the process has threads for its `vcpus` and its command line gives memory to a cell.
pub(super) fn read(process: &OpenProcess, vcpus: BTreeMap<u32, Threads>) -> Option<Guest> {
    if vcpus.is_empty() {
        return None;
    }
    let mut line = Vec::new();
    // A command line that cannot be read, or is cut off, shows no cells: then the guest is a process as any other.
    let file = process.entry.open_relative("cmdline").ok()?;
    file.take(LONGEST + 1).read_to_end(&mut line).ok()?;
    (line.len() as u64 <= LONGEST).then(|| parse(&String::from_utf8_lossy(&line), vcpus))?
}

/// As [`read`], of a command line with a NUL after each argument.
fn parse(line: &str, mut vcpus: BTreeMap<u32, Threads>) -> Option<Guest> {
    let mut guest = Guest::default();
    // The numbers of cells, by the names of their memory.
    let mut owners: Vec<(String, u32)> = Vec::new();
    let mut words = line.split('\0');
    while let Some(word) = words.next() {
        match word.strip_prefix("--").or(word.strip_prefix('-')) {
            Some("numa") => owners.extend(cell(&mut guest, words.next()?, &mut vcpus)),
            Some("object") => guest.memory.extend(memory(words.next()?)),
            Some("device") => owners.extend(device(words.next()?)),
            _ => {}
        }
    }
    if guest.cells.len() > MOST_CELLS || guest.memory.len() > MOST_MEMORY {
        return None;
    }
    for memory in &mut guest.memory {
        let mut owners = owners.iter().filter(|(id, _)| *id == memory.id).map(|(_, cell)| *cell);
        memory.cell = match (owners.next(), owners.next()) {
            (Some(cell), None) => guest.cells.iter().position(|known| known.id == cell),
            _ => None,
        };
    }
    guest.memory.iter().any(|memory| memory.cell.is_some()).then_some(guest)
}

/// Adds the cell of `-numa node,nodeid=0,cpus=0-1,memdev=ram-node0`. Returns the name and the cell of its memory.
fn cell(
    guest: &mut Guest,
    argument: &str,
    vcpus: &mut BTreeMap<u32, Threads>,
) -> Option<(String, u32)> {
    let node = Arguments::parse(argument, "type")?;
    if node.get("type") != Some("node") {
        return None;
    }
    let id = match node.get("nodeid") {
        Some(id) => id.parse().ok()?,
        None => u32::try_from(guest.cells.len()).ok()?,
    };
    let mut cell = GuestCell { id, ..GuestCell::default() };
    for list in node.all("cpus") {
        let (first, last) = list.split_once('-').unwrap_or((list, list));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last {
            return None;
        }
        // A vCPU is in one cell, so each is taken once, however often the command line names it.
        let numbers = vcpus.range(first..=last).map(|(&number, _)| number);
        for number in numbers.collect::<Vec<_>>() {
            if let Some(threads) = vcpus.remove(&number) {
                cell.cpus = cell.cpus.or(&threads.cpus);
                cell.threads.push(threads);
            }
        }
    }
    guest.cells.push(cell);
    node.get("memdev").map(|memory| (memory.to_owned(), id))
}

/// The memory of `-object memory-backend-ram,id=ram-node0,size=1024M`.
fn memory(argument: &str) -> Option<GuestMemory> {
    let object = Arguments::parse(argument, "qom-type")?;
    let is_on = |key| matches!(object.get(key), Some("on" | "yes" | "true" | "y"));
    let backing = match object.get("qom-type")?.strip_prefix("memory-backend-")? {
        "ram" if is_on("share") => Backing::SharedAnonymous,
        "ram" => Backing::Anonymous,
        "memfd" => Backing::Memfd,
        "file" => object
            .get("mem-path")
            .map_or(Backing::Other, |path| Backing::File(path.trim_end_matches('/').to_owned())),
        _ => Backing::Other,
    };
    let bytes = object.get("size").and_then(|size| amount::size(size).ok());
    Some(GuestMemory { id: object.get("id")?.to_owned(), bytes, backing, cell: None })
}

/// The memory of a device that a cell has, with the number of the cell: `-device pc-dimm,memdev=mem-dimm0,node=1`.
fn device(argument: &str) -> Option<(String, u32)> {
    let device = Arguments::parse(argument, "driver")?;
    Some((device.get("memdev")?.to_owned(), device.get("node")?.parse().ok()?))
}

#[cfg(test)]
mod tests;
