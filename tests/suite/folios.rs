//! Large folios of which the target and a stranger map different pages: such a folio moves whole, so it stays.

use crate::{
    app::{App, Layout},
    cpus::pinned,
    disk::{Layered, Mounted},
    engine::migrate,
    settings::{Cgroup, Setting},
    truth::{Truth, release, vmstat},
};
use numaloc_core::{Options, Reason, page_size};
use numaloc_host::Target;
use numaloc_sys::{FilePages, query_pages};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

const FOLIO: usize = 2 << 20;
const MIB: u64 = 1 << 20;

/// The node of a page of a process.
fn node_of(pid: i32, address: u64) -> i32 {
    let mut status = [i32::MIN];
    query_pages(pid, &[address], &mut status).expect("root");
    status[0]
}

/// Processes of a target map the first page of a file on node 1, and this process, a stranger, the fifth. Unless these pages are of one
/// large folio, the first one comes home alone.
fn what_a_stranger_maps_stays(directory: &Path, name: &str, processes: usize, is_large: bool) {
    let _balancing = Setting::numa_balancing(false);
    let path = directory.join("file");
    let file = pinned(1, || {
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("an empty file");
        file.set_len(FOLIO as u64).expect("its length");
        file.write_all_at(&vec![7; FOLIO], 0).expect("room");
        file
    });
    file.sync_all().expect("a disk, or memory");
    let cgroup = Cgroup::new(name);
    let segment = format!("segment=file:{}:4K:touch", path.display());
    let layout = Layout::remote(&[&segment]).load("idle").within(cgroup.path());
    let apps: Vec<App> = (0..processes).map(|_| layout.start("member")).collect();
    let stranger = FilePages::map(&file, 4 * page_size(), page_size() as usize).expect("addresses");
    stranger.populate(0..1).expect("a page");
    let own_pid = std::process::id() as i32;
    let theirs = || node_of(own_pid, stranger.address());
    let ours = || node_of(apps[0].pid(), apps[0].range("segment").start);
    assert_eq!((theirs(), ours()), (1, 1));
    let outcome = migrate(&[cgroup.target()], &Options::default());
    assert_eq!((theirs(), ours()), (1, i32::from(is_large)), "{outcome:?}");
    assert!(!is_large || outcome.account().left_for(Reason::Shared) >= page_size(), "{outcome:?}");
    // Without the stranger, the folio is the target's.
    drop(stranger);
    let outcome = migrate(&[cgroup.target()], &Options::default());
    assert_eq!(ours(), 0, "{outcome:?}");
    drop(apps);
    drop(file);
    fs::remove_file(&path).expect("it is there");
}

/// The same with a tmpfs in huge pages.
fn in_huge_tmpfs(name: &str, huge: &str, processes: usize) {
    let tmpfs = Layered::new("tmpfs", name, &format!("size=16m,huge={huge}"));
    let before = vmstat("thp_file_alloc");
    what_a_stranger_maps_stays(tmpfs.path(), name, processes, true);
    assert!(vmstat("thp_file_alloc") > before, "no huge page");
}

#[test]
fn a_huge_page_that_a_family_and_a_stranger_map_stays() {
    in_huge_tmpfs("huge-family", "always", 2);
}

#[test]
fn a_huge_page_that_a_process_and_a_stranger_map_stays() {
    in_huge_tmpfs("huge-single", "within_size", 1);
}

#[test]
fn a_folio_of_xfs_that_a_family_and_a_stranger_map_stays() {
    // Before 6.6 writes make no large folios there (fs/iomap/buffered-io.c, `iomap_get_folio`).
    let is_large = !release().starts_with("6.1.");
    let mounted = Mounted::new("xfs", 320);
    what_a_stranger_maps_stays(mounted.path(), "xfs-family", 2, is_large);
}

/// The parent has given back a half of each huge page that its child, the target, still maps whole.
#[test]
fn a_huge_page_that_the_parent_maps_in_part_stays() {
    let _balancing = Setting::numa_balancing(false);
    let mut parent = Layout::remote(&["thp:4M"]).load("idle").start("stranger");
    let forked = parent.ask("fork 1");
    let child = forked.trim_start_matches("forked [").trim_end_matches(']');
    let child: i32 = child.parse().expect("a pid");
    assert_eq!(parent.ask("free thp 2097152 first"), "freed thp");
    let range = parent.range("thp");
    let theirs = || Truth::of(parent.pid()).region(range.clone());
    let ours = || Truth::of(child).region(range.clone());
    assert_eq!((theirs(), ours()), ([(1, 2 * MIB)].into(), [(1, 4 * MIB)].into()));
    let outcome = migrate(&[Target::Pid(child)], &Options::default());
    assert_eq!((theirs(), ours()), ([(1, 2 * MIB)].into(), [(1, 4 * MIB)].into()), "{outcome:?}");
    assert!(outcome.account().left_for(Reason::Shared) >= 4 * MIB, "{outcome:?}");
}
