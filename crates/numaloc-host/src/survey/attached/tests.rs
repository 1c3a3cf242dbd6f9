use super::*;
use crate::{Survey, Surveyor, Target, nodes::topology};
use numaloc_core::{Options, Process, planner::Surveyed};
use numaloc_sys::FilePages;
use std::{fs::File, io::Write as _, path::Path};

const MIB: u64 = 1 << 20;

/// A survey of this process; `None` without the rights that it takes.
fn survey() -> Option<(Survey, Surveyed)> {
    let roots = Roots::default();
    if MappedPages::open(&roots).is_none() {
        println!("skipped: without CAP_SYS_ADMIN the kernel hides frames");
        return None;
    }
    let (topology, options) = (topology::topology(&roots).expect("nodes"), Options::default());
    let own = Target::Pid(std::process::id() as i32);
    let found = crate::resolve(&roots, &[own], &topology).expect("this process");
    let processes: Vec<Process> = found.processes;
    Some(Surveyor::new(&roots, &topology, &options).survey(processes, None).expect("its memory"))
}

fn written(path: &Path, bytes: u64) -> File {
    let mut file = File::create(path).expect("a file in memory");
    file.write_all(&vec![7; bytes as usize]).expect("memory");
    File::open(path).expect("just written")
}

/// The bytes of the unmapped extent of this name, and the bytes that were seen mapped.
fn bytes_of(seen: &Surveyed, path: &Path) -> [u64; 2] {
    let name = path.to_str().expect("text");
    let of = |unmapped: bool| {
        let extents = seen.extents.iter().filter(|extent| &*extent.name == name);
        let extents = extents.filter(|extent| (extent.pages == Pages::Unmapped) == unmapped);
        let nodes = extents.flat_map(|extent| extent.residency.nodes.values());
        nodes.map(NodeResidency::total_bytes).sum()
    };
    [of(true), of(false)]
}

/// One test, because surveys of this process at the same time would see each other's looks.
#[test]
fn what_is_attached_and_not_mapped_is_an_extent_of_its_own() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let [path, sparse] = ["segment", "sparse"].map(|name| directory.path().join(name));
    let file = written(&path, 8 * MIB);
    let mapping = FilePages::map(&file, 0, (8 * MIB) as usize).expect("addresses");
    mapping.populate(0..256).expect("it is in memory");
    // It is long, and has nothing.
    let empty = File::create_new(&sparse).expect("a file in memory");
    empty.set_len(64 * MIB).expect("its length");
    let empty = File::open(&sparse).expect("just made");
    let _addresses = FilePages::map(&empty, 0, (64 * MIB) as usize).expect("addresses");
    let Some((survey, seen)) = survey() else { return };
    // A fault maps what lies around it, too (mm/memory.c, `do_fault_around`).
    let [unmapped, mapped] = bytes_of(&seen, &path);
    assert_eq!(unmapped + mapped, 8 * MIB);
    assert!((6 * MIB..=7 * MIB).contains(&unmapped), "{unmapped}");
    assert_eq!(bytes_of(&seen, &sparse), [0, 0]);
    let files: Vec<u64> = survey.attached.values().map(|file| file.cache.bytes()).collect();
    assert!(files.contains(&unmapped), "{files:?}");
    // Now page maps show all of it.
    mapping.populate(0..2048).expect("it is in memory");
    let (_, seen) = self::survey().expect("as before");
    assert_eq!(bytes_of(&seen, &path), [0, 8 * MIB]);
}
