//! Files in memory that processes of a target have open and none has mapped.
//!
//! A memfd that was filled by write(2) and passed on as a descriptor takes memory that is charged to the target's cgroup, and no page map
//! shows it. Nor does it tell whose it is: it is named, and moves as a file.

use crate::{
    Error,
    files::{file_system::device_numbers, maps::Object, read::numbered},
    survey::{Survey, vmas},
};
use numaloc_core::{HeldFile, page_size};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// Less than this is not worth a line.
const LEAST: u64 = 64 << 10;
/// Most descriptors of a target that are looked at: a tenth of a second.
const DESCRIPTORS: usize = 1 << 16;
/// Most files that are named, the largest ones.
const NAMED: usize = 16;
/// Prefixes of the names of files in memory (mm/memfd.c, `MFD_NAME_PREFIX`; shm_overview(7)). Other files are not
/// asked, because their server may not answer.
const IN_MEMORY: [&str; 2] = ["/memfd:", "/dev/shm/"];

impl Survey {
    /// The files in memory that processes of the target have open and none has mapped, the largest first. Processes whose descriptors
    /// may not be read have none.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `stop` returns true; the errors of reading the maps of processes that have such files open.
    pub fn held(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<HeldFile>, Error> {
        let mut open: BTreeMap<Object, HeldFile> = BTreeMap::new();
        let mut left = DESCRIPTORS;
        for (process, space) in self.spaces.iter().enumerate() {
            if stop() {
                return Err(Error::Stopped);
            }
            let descriptors = numbered::<i32>(&space.path("fd")).into_iter().take(left);
            let descriptors: Vec<_> = descriptors.collect();
            left -= descriptors.len();
            for (fd, at) in descriptors {
                if let Some((object, file)) = held(fd, &at, process) {
                    open.entry(object).or_insert(file);
                }
            }
        }
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let mut common = vmas::Common::default();
        for space in &self.spaces {
            let vmas = vmas::read_all(space, &mut common)?;
            let mapped: HashSet<Object> = vmas.iter().map(|vma| vma.object).collect();
            open.retain(|object, _| !mapped.contains(object));
        }
        let mut held: Vec<HeldFile> = open.into_values().collect();
        held.sort_by_key(|file| (Reverse(file.bytes), file.process, file.fd));
        held.truncate(NAMED);
        Ok(held)
    }
}

/// The file behind a descriptor, if it is in memory, in base pages, and worth a line.
fn held(fd: i32, at: &Path, process: usize) -> Option<(Object, HeldFile)> {
    let name = fs::read_link(at).ok()?;
    let name = name.to_string_lossy();
    IN_MEMORY.iter().find(|start| name.starts_with(**start))?;
    let file = fs::metadata(at).ok()?;
    let bytes = file.blocks() * 512;
    // Files in huge pages are not moved by their names.
    if !file.is_file() || bytes < LEAST || file.blksize() != page_size() {
        return None;
    }
    let object = Object::File { device: device_numbers(file.dev()), inode: file.ino() };
    Some((object, HeldFile { process, fd, name: name.into_owned(), bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::{
        fs::File,
        os::{fd::AsRawFd as _, unix::fs::FileExt as _},
    };

    fn of(file: &File) -> Option<(Object, HeldFile)> {
        let fd = file.as_raw_fd();
        held(fd, Path::new(&format!("/proc/self/fd/{fd}")), 7)
    }

    #[test]
    fn files_in_memory_of_some_size_are_found() {
        let file = File::from(memfd_create("held", MFdFlags::MFD_CLOEXEC).expect("a memfd"));
        assert_eq!(of(&file), None, "it is empty");
        file.write_all_at(&vec![7; 1 << 20], 0).expect("memory");
        let (_, held) = of(&file).expect("it is in memory");
        assert_eq!((&*held.name, held.process), ("/memfd:held (deleted)", 7));
        assert!(held.bytes >= 1 << 20, "{held:?}");
        assert_eq!(of(&File::open("/proc/self/exe").expect("it is there")), None, "on a disk");
    }
}
