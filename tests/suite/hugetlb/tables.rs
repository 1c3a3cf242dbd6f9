//! Processes that share page tables of hugetlb memory. The kernel shares those whose entries are huge pages alone
//! (mm/hugetlb.c, `want_pmd_share`), which pages of 2 MiB are with base pages of 4 KiB.

use super::*;

const PROCESSES: usize = 4;

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
        map.read_exact_at(&mut entry, self.apps[0].range("segment").start / page_size() * 8)
            .expect("it");
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
