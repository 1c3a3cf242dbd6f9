use super::*;
use crate::fake::Fake;
use std::os::unix::fs::symlink;

fn pids(fake: &Fake, path: &str) -> Vec<i32> {
    processes(&fake.roots(), path).expect("a cgroup").into_iter().collect()
}

fn v2() -> Fake {
    let fake = Fake::new();
    fake.write("cgroup/cgroup.procs", "1\n");
    fake.write("cgroup/a.slice/cgroup.procs", "");
    fake.write("cgroup/a.slice/b/cgroup.procs", "12\n0\n11\n");
    fake.write("cgroup/a.slice/b/c/cgroup.procs", "13\n");
    fake.write("cgroup/other/cgroup.procs", "20\n");
    fake
}

#[test]
fn v2_with_children_however_the_path_is_written() {
    let fake = v2();
    let mounted = fake.path("cgroup/a.slice/b").display().to_string();
    for path in ["/a.slice/b", "a.slice/b", "a.slice/b/", "./a.slice/./b", "/a.slice", &mounted] {
        assert_eq!(pids(&fake, path), [11, 12, 13], "{path}");
    }
    assert_eq!(pids(&fake, "/"), [1, 11, 12, 13, 20]);
    assert_eq!(pids(&fake, &fake.path("cgroup").display().to_string()).len(), 5);
}

#[test]
fn all_matching_cgroups_are_meant_unless_one_has_that_name() {
    let fake = v2();
    for path in ["/a.sl*", "/a.slice/?", "/*/b", "a.*/b/"] {
        assert_eq!(pids(&fake, path), [11, 12, 13], "{path}");
    }
    assert_eq!(pids(&fake, "/*"), [11, 12, 13, 20]);
    for path in ["/*/*/*/*", "/b*", "/a.slice/??", "/a.slice*/nowhere"] {
        let error = processes(&fake.roots(), path).unwrap_err();
        assert!(matches!(error, Error::NoCgroup { .. }), "{path}: {error}");
    }
    fake.write("cgroup/a.slice/b/memory.numa_stat", "anon N0=1 N1=2\n");
    fake.write("cgroup/other/memory.numa_stat", "anon N1=4\n");
    fake.write("cgroup/other2/cgroup.procs", "");
    fake.write("cgroup/other2/memory.numa_stat", "file N1=8\n");
    assert_eq!(
        numa_stat(&fake.roots(), "/other*"),
        Some(CountedMemory {
            nodes: by_nodes([(1, 4)]),
            cache: by_nodes([(1, 8)]),
            ..CountedMemory::default()
        })
    );
    fake.write("cgroup/*/cgroup.procs", "30\n");
    assert_eq!(pids(&fake, "/*"), [30], "a cgroup may be called so");
}

#[test]
fn paths_that_lead_out_are_refused() {
    let fake = v2();
    fake.write("secret/cgroup.procs", "1\n");
    symlink(fake.path("secret"), fake.path("cgroup/a.slice/link")).unwrap();
    let absolute = fake.path("secret").display().to_string();
    let globs = ["/*/../../secret", "/../sec*"];
    for path in ["../secret", "/a.slice/../../secret", "a.slice/link", &absolute, "/etc"]
        .into_iter()
        .chain(globs)
    {
        let error = processes(&fake.roots(), path).unwrap_err();
        assert!(matches!(error, Error::CgroupOutside { .. }), "{path}: {error}");
    }
    for path in ["/a.slice", "/a.slice/*"] {
        assert_eq!(pids(&fake, path), [11, 12, 13], "{path}: a link was followed");
    }
}

#[test]
fn unknown_and_empty_paths_name_no_cgroup() {
    let fake = v2();
    let overlong = ["x".repeat(300), "x/".repeat(3000)];
    let paths = ["", ".", "nowhere", "/a.slice/nowhere", "a.slice/b/cgroup.procs", "a\0b", "a\n"];
    for path in paths.into_iter().chain(overlong.iter().map(String::as_str)) {
        let error = processes(&fake.roots(), path).unwrap_err();
        assert!(matches!(error, Error::NoCgroup { .. }), "{path}: {error}");
    }
}

#[test]
fn v1_and_hybrid_ask_the_hierarchies_in_order() {
    let fake = Fake::new();
    fake.write("cgroup/cpuset/cgroup.procs", "1\n");
    fake.write("cgroup/cpuset/pod/cgroup.procs", "");
    fake.write("cgroup/memory/cgroup.procs", "1\n");
    fake.write("cgroup/memory/pod/cgroup.procs", "5\n5\n4\n");
    fake.write("cgroup/cpu,cpuacct/cgroup.procs", "1\n");
    fake.write("cgroup/cpu,cpuacct/pod/cgroup.procs", "9\n");
    fake.write("cgroup/systemd/cgroup.procs", "1\n");
    fake.write("cgroup/systemd/system.slice/cgroup.procs", "7\n");
    fake.write("cgroup/unified/cgroup.procs", "1\n");
    fake.write("cgroup/unified/only/cgroup.procs", "8\n");
    assert_eq!(pids(&fake, "/pod"), [4, 5], "the first hierarchy that uses it");
    assert_eq!(pids(&fake, "system.slice"), [7]);
    assert_eq!(pids(&fake, "only"), [8]);
    let mounted = fake.path("cgroup/cpu,cpuacct/pod").display().to_string();
    assert_eq!(pids(&fake, &mounted), [9]);
}

fn by_nodes<const N: usize>(of: [(u32, u64); N]) -> BTreeMap<NodeId, u64> {
    of.map(|(node, bytes)| (NodeId(node), bytes)).into()
}

/// Memory of files counts as that of processes only if it is mapped or the files are in memory.
#[test]
fn numa_stat_of_v2_is_in_bytes() {
    let fake = v2();
    let text = "anon N0=4096 N1=8192\nfile N0=100 N1=50 N64=5\nfile_mapped N0=7 N1=30\nshmem N0=9 N1=20\nanon_thp N0=9\n";
    fake.write("cgroup/a.slice/memory.numa_stat", text);
    let nodes = by_nodes([(0, 4105), (1, 8222), (64, 0)]);
    let cache = by_nodes([(0, 91), (1, 20), (64, 5)]);
    let unmapped = by_nodes([(0, 2)]);
    assert_eq!(
        numa_stat(&fake.roots(), "/a.slice"),
        Some(CountedMemory { nodes, cache, unmapped })
    );
    assert_eq!(numa_stat(&fake.roots(), "/other"), None);
    assert_eq!(numa_stat(&fake.roots(), "/nowhere"), None);
}

#[test]
fn numa_stat_of_v1_is_in_pages_with_children() {
    let own = "total=3 N0=1 N1=2\nfile=1 N0=1\nanon=2 N1=2\n";
    let of = |anon, file| {
        let (nodes, cache) = (by_nodes([anon]), by_nodes([file]));
        CountedMemory { nodes, cache, ..CountedMemory::default() }
    };
    assert_eq!(parse_numa_stat(own), of((1, 2 * page_size()), (0, page_size())));
    let all = format!(
        "{own}hierarchical_total=9 N0=4 N1=5\nhierarchical_anon=5 N1=5\nhierarchical_file=4 N0=4\n"
    );
    assert_eq!(parse_numa_stat(&all), of((1, 5 * page_size()), (0, 4 * page_size())));
    assert_eq!(parse_numa_stat("nonsense\nanon N=x Nx=1 y"), CountedMemory::default());
}
