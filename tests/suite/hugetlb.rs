//! hugetlb memory that is not private: of files and memfds, and of processes that share page tables.

mod tables;

use crate::{
    app::{App, FEW_WORDS, Layout},
    cli::{code, numalocctl},
    engine::{inspect, migrate},
    place::{away, home},
    scene::{SLACK, Scene, assert_complete},
    settings::{Cgroup, HUGETLB_BYTES, Setting, hugetlb_pages},
    truth::{Truth, on},
};
use nix::mount::{MsFlags, mount, umount};
use numaloc_core::{NodeId, Options, Reason, page_size};
use numaloc_host::{FrameFile, Roots, Target};
use serde_json::Value;
use std::{fs, fs::File, os::unix::fs::FileExt, path::PathBuf};

const MIB: u64 = 1 << 20;
/// The touched part of a segment of 2 GiB.
const SIZE: u64 = 16 * MIB;

/// A hugetlbfs that is mounted as long as this lives.
struct HugeFs(PathBuf);

impl HugeFs {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/tmp/{name}"));
        fs::create_dir_all(&path).expect("a directory");
        let options = Some("pagesize=2M");
        let mounted = mount(Some("hugetlbfs"), &path, Some("hugetlbfs"), MsFlags::empty(), options);
        mounted.expect("root may mount it");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path").to_owned()
    }
}

impl HugeFs {
    /// Removes its files, which hold their pages as long as they are there.
    fn clear(&self) {
        for file in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            fs::remove_file(file.path()).ok();
        }
    }
}

impl Drop for HugeFs {
    fn drop(&mut self) {
        self.clear();
        umount(&self.0).ok();
    }
}

#[test]
fn one_process_alone_has_its_segment_moved() {
    let _pools = (Setting::huge_pool(home(), 16), Setting::huge_pool(away(), 16));
    let fs = HugeFs::new("alone");
    let region = format!("segment=file:{}:2G:touch={SIZE}:at=8000000000:{FEW_WORDS}", fs.file("a"));
    let mut app = Layout::remote(&[&region]).load("idle").start("alone");
    let outcome = migrate(&[Target::Pid(app.pid())], &Options::default());
    let nodes = Truth::of(app.pid()).region(app.range("segment"));
    assert_eq!(nodes, [(home(), SIZE)].into(), "{outcome:?}");
    assert_complete(&outcome);
    app.check();
}

/// Huge pages of a node that are in use, in bytes.
fn used(node: u32) -> u64 {
    let [all, free] = ["nr_hugepages", "free_hugepages"].map(|count| hugetlb_pages(node, count));
    (all - free) * HUGETLB_BYTES
}

/// A process that has filled most of a file has ended, as a database's session does, and what it has left is not in any page map. The
/// rest of the file is a hole, and stays one.
#[test]
fn unmapped_memory_comes_home_with_mapped_memory() {
    let _settings =
        [Setting::huge_pool(0, 32), Setting::huge_pool(1, 32), Setting::numa_balancing(false)];
    let fs = HugeFs::new("attached");
    let segment = format!("segment=file:{}:48M", fs.file("a"));
    let with = |more: &str| Layout::remote(&[&format!("{segment}:{more}")]).load("idle");
    drop(with("touch=32M").start("filler"));
    assert_eq!([used(0), used(1)], [0, 32 * MIB]);
    let mut app = with("touch=4M").start("target");
    let target = [Target::Pid(app.pid())];
    let inspected = inspect(&target, &Options::default());
    assert_eq!(inspected.plan.unmapped, [(NodeId(1), 28 * MIB)].into());
    assert_eq!([used(0), used(1)], [0, 32 * MIB], "a look takes no page");
    let outcome = migrate(&target, &Options::default());
    assert_eq!([used(0), used(1)], [32 * MIB, 0], "{outcome:?}");
    assert_eq!(outcome.account().shortfall_bytes(), 0, "{outcome:?}");
    // Another process has attached it: then it is theirs, too.
    let mut stranger = with("touch=4M").start("stranger");
    let left = migrate(&target, &Options { to: Some("1".parse().unwrap()), ..Options::default() });
    assert_eq!([used(0), used(1)], [32 * MIB, 0], "{left:?}");
    assert!(left.account().left_for(Reason::Shared) >= 28 * MIB, "{left:?}");
    app.check();
    stranger.check();
}

/// A plan, as the command line makes it.
fn plan(pid: i32, more: &[&str]) -> Value {
    let pid = pid.to_string();
    let asked = [&["plan", "--standalone", "-o", "json", "--pid", &pid], more].concat();
    let output = numalocctl(&asked);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["plan"].clone()
}

/// A region of 32 MiB on the remote node with `pages` in the pool of the home node: what a plan says, and what a run does.
fn plan_and_run(region: &str, pages: u64, fs: Option<&HugeFs>) -> (Value, u64) {
    let _pools = (Setting::huge_pool(home(), pages), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&[region, "anon:16M"]);
    let plan = plan(scene.app.pid(), &["--exclude-file"]);
    let moves = plan["extent_moves"].as_array().expect("a list");
    let huge = moves.iter().filter(|entry| entry["hugetlb_page_bytes"] == 2 << 20);
    assert_eq!(huge.count(), 1, "{plan:#}");
    let outcome = scene.migrate(&Options::default());
    let at_home = on(&scene.nodes("huge"), home());
    let left = outcome.account().left_for(Reason::NoMemory);
    assert!(left.abs_diff(32 * MIB - at_home) <= SLACK, "{outcome:?}");
    drop(scene.finish());
    fs.into_iter().for_each(HugeFs::clear);
    (plan, at_home)
}

fn the_plan_is_about_the_pool(region: &str, fs: Option<&HugeFs>) {
    let (plan, at_home) = plan_and_run(region, 0, fs);
    assert_eq!((plan["no_room_bytes"].as_u64(), at_home), (Some(32 * MIB), 0), "{plan:#}");
    let (plan, at_home) = plan_and_run(region, 32, fs);
    assert_eq!((plan["no_room_bytes"].as_u64(), at_home), (Some(0), 32 * MIB), "{plan:#}");
    assert_eq!(plan["expected_room"][0]["pool_bytes"].as_u64(), Some(32 * MIB), "{plan:#}");
}

#[test]
fn the_plan_knows_hugetlb_files() {
    let fs = HugeFs::new("files");
    the_plan_is_about_the_pool(&format!("huge=file:{}:32M:dirty", fs.file("{}")), Some(&fs));
}

#[test]
fn the_plan_knows_hugetlb_memfds() {
    the_plan_is_about_the_pool("huge=huge-memfd:32M", None);
}

#[test]
fn the_plan_knows_private_hugetlb_memory_beside_large_mappings() {
    the_plan_is_about_the_pool("huge=hugetlb:32M", None);
}
