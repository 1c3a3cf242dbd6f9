//! hugetlb memory that is not private: of files and memfds, and of processes that share page tables.

use crate::{
    app::{App, FEW_WORDS, Layout},
    cli::{code, numalocctl},
    engine::{inspect, migrate},
    place::{away, home},
    scene::{SLACK, Scene, assert_complete},
    settings::{Cgroup, Setting},
    truth::{Truth, node_bytes, on},
};
use nix::mount::{MsFlags, mount, umount};
use numaloc_core::{NodeId, Options, PAGE, Reason};
use numaloc_host::{FrameFile, Roots, Target};
use serde_json::Value;
use std::{fs, fs::File, os::unix::fs::FileExt, path::PathBuf};

const MIB: u64 = 1 << 20;
const PROCESSES: usize = 4;
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

/// Four processes that map a segment of 2 GiB at a multiple of 1 GiB, and have the page table of its first GiB in common. All of it
/// that is touched is on the remote node.
struct Sharers {
    apps: Vec<App>,
    cgroup: Cgroup,
    _fs: HugeFs,
    _settings: [Setting; 3],
}

impl Sharers {
    fn start(name: &str) -> Self {
        let settings = [
            Setting::huge_pool(home(), 16),
            Setting::huge_pool(away(), 16),
            Setting::numa_balancing(false),
        ];
        let (fs, cgroup) = (HugeFs::new(name), Cgroup::new(name));
        let file = fs.file("segment");
        let sharer = |index| {
            let touches = if index == 0 { FEW_WORDS } else { "touch" };
            let region = format!("segment=file:{file}:2G:touch={}:at=8000000000:{touches}", SIZE);
            Layout::remote(&[&region]).load("idle").within(cgroup.path()).start("sharer")
        };
        let mut sharers = Self {
            apps: (0..PROCESSES).map(sharer).collect(),
            cgroup,
            _fs: fs,
            _settings: settings,
        };
        assert_eq!(sharers.count(), Some(1), "the page table is shared");
        sharers.assert_on(away());
        sharers
    }

    /// The kernel's number of mappings of the first page.
    fn count(&self) -> Option<u64> {
        let map = File::open(format!("/proc/{}/pagemap", self.apps[0].pid())).expect("a child");
        let mut entry = [0; 8];
        map.read_exact_at(&mut entry, self.apps[0].range("segment").start / PAGE * 8).expect("it");
        let frame = u64::from_ne_bytes(entry) & ((1 << 55) - 1);
        FrameFile::counts(&Roots::default()).expect("root").get(frame)
    }

    fn targets(&self, count: usize) -> Vec<Target> {
        self.apps[..count].iter().map(|app| Target::Pid(app.pid())).collect()
    }

    /// Asserts that the whole segment is on `node`.
    fn assert_on(&mut self, node: u32) {
        // To move a page, the kernel takes the page table away from all processes but one. They have it again when they touch the
        // memory, as the first one does.
        self.apps[0].check();
        for (index, app) in self.apps.iter().enumerate() {
            let nodes = Truth::of(app.pid()).region(app.range("segment"));
            let is_lost = index > 0 && nodes.is_empty();
            assert!(is_lost || nodes == [(node, SIZE)].into(), "process {index}: {nodes:?}");
        }
    }

    fn finish(mut self) {
        for app in &mut self.apps {
            app.check();
        }
    }
}

#[test]
fn pages_of_a_shared_page_table_come_home_once() {
    let mut sharers = Sharers::start("tables");
    let private = PROCESSES as u64 * 4 * SLACK;
    for targets in [sharers.targets(PROCESSES), vec![sharers.cgroup.target()]] {
        let remote = inspect(&targets, &Options::default()).plan.locality.overall.remote_bytes;
        assert!((SIZE..SIZE + private).contains(&remote), "{remote} bytes are remote");
    }
    let outcome = migrate(&[sharers.cgroup.target()], &Options::default());
    sharers.assert_on(home());
    assert_complete(&outcome);
    let moved = outcome.account().moved_bytes();
    assert!((SIZE..SIZE + private).contains(&moved), "{outcome:?}");
    sharers.finish();
}

#[test]
fn pages_of_a_page_table_that_strangers_share_stay() {
    let mut sharers = Sharers::start("strangers");
    for named in [1, 2] {
        let outcome = migrate(&sharers.targets(named), &Options::default());
        sharers.assert_on(away());
        let left = outcome.account().left_for(Reason::Shared);
        assert!((SIZE..SIZE + 8 * MIB).contains(&left), "{named} named: {outcome:?}");
    }
    // The one that keeps the page table may be a stranger. Then the target no longer shows what is left.
    let all = Options { include_shared: true, ..Options::default() };
    let outcome = migrate(&sharers.targets(2), &all);
    assert!(outcome.account().moved_bytes() < 2 * SIZE, "each once: {outcome:?}");
    sharers.apps[0].check();
    let nodes = Truth::of(sharers.apps[0].pid()).region(sharers.apps[0].range("segment"));
    assert!(on(&nodes, home()) > 0 && on(&nodes, home()) + on(&nodes, away()) == SIZE, "{nodes:?}");
    sharers.finish();
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
    let [all, free] = ["HugePages_Total:", "HugePages_Free:"].map(|field| node_bytes(node, field));
    // A number of pages, not of KiB.
    ((all - free) >> 10) * 2 * MIB
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
