use super::*;
use crate::{CpuId, Identity, Node, NodeId, NodeMemory};
use proptest::{collection::vec, prelude::*};

/// Nodes 0 to 3 with two CPUs each.
fn machine() -> Topology {
    with_nodes(4)
}

fn with_nodes(count: u32) -> Topology {
    let memory = NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() };
    let cpus = |id| [2 * id, 2 * id + 1].map(CpuId).into_iter().collect();
    let node = |id| Node { id: NodeId(id), cpus: cpus(id), memory: memory.clone() };
    Topology::new((0..count).map(node), [])
}

/// A process with one group of threads for each pair of a CPU list and the CPU time used, in seconds.
fn process(threads: &[(&str, u64)]) -> Process {
    let group = |&(cpus, seconds): &(&str, u64)| Threads {
        cpus: cpus.parse().expect("a list"),
        mems_allowed: None,
        count: 1,
        cpu_time: Duration::from_secs(seconds),
        busiest: Vec::new(),
    };
    let threads: Vec<Threads> = threads.iter().map(group).collect();
    Process {
        identity: Identity { pid: 1, start_time: 1 },
        comm: "app".into(),
        cpus: threads.iter().fold(Default::default(), |cpus, group| group.cpus.or(&cpus)),
        threads,
        mems_allowed: "0-3".parse().expect("a list"),
        device_nodes: NodeSet::new(),
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    }
}

fn home_by(rule: HomeRule, threads: &[(&str, u64)]) -> String {
    let options = Options { home: rule, ..Options::default() };
    home(&machine(), &process(threads), &options).to_string()
}

#[test]
fn one_helper_makes_all_nodes_home_unless_threads_are_weighed() {
    let threads = [("0-1", 96), ("0-7", 4)];
    assert_eq!(home_by(HomeRule::Cpus, &threads), "0-3");
    assert_eq!(home_by(HomeRule::Busy, &threads), "0");
    assert_eq!(home_by(HomeRule::Busy, &[("0-1", 94), ("0-7", 6)]), "0-3", "it works");
    assert_eq!(home_by(HomeRule::Busy, &[("0-1", 0), ("0-7", 0)]), "0-3", "no thread has worked");
    assert_eq!(home_by(HomeRule::Near, &[("0-1", 1)]), "0", "the others are at distance 20");
}

#[test]
fn devices_decide_where_they_are_known() {
    let options = Options { home: HomeRule::Devices, ..Options::default() };
    let with = |nodes: &str, cpus: &str| {
        let device_nodes = nodes.parse().unwrap_or_default();
        let process = Process { device_nodes, ..process(&[(cpus, 1)]) };
        home(&machine(), &process, &options).to_string()
    };
    assert_eq!(with("2", "0-1"), "2");
    assert_eq!(with("1,3", "0-7"), "1,3", "also of an unpinned one");
    assert_eq!(with("", "0-1"), "0", "it has none open, or sysfs does not say where they are");
    assert_eq!(with("7", "0-1"), "0", "a node without memory");
    let named = Options { to: "1".parse().ok(), ..options.clone() };
    let process = Process { device_nodes: "2".parse().expect("a list"), ..process(&[("0-1", 1)]) };
    assert_eq!(home(&machine(), &process, &named).to_string(), "1");
}

#[test]
fn threads_that_add_most_nodes_are_left_out_first() {
    let busy = |threads: &[(&str, u64)]| home_by(HomeRule::Busy, threads);
    assert_eq!(busy(&[("0-1", 92), ("2-3", 3), ("0-7", 5)]), "0-1");
    assert_eq!(busy(&[("0-3", 97), ("4-5", 3)]), "0-1");
    assert_eq!(busy(&[("0", 50), ("1", 46), ("2-3", 4)]), "0", "CPUs of one node count together");
    assert_eq!(busy(&[("0-1", 1), ("2-3", 1), ("4-5", 1), ("6-7", 1)]), "0-3", "all work");
}

#[test]
fn threads_that_add_no_node_do_not_use_up_the_idle_share() {
    // 10 of 200 seconds may be left out: those of nodes 1 to 3, then not those of 4 and 5, and again those of 6. The thread on node 4
    // alone adds nothing to 4 and 5.
    let threads = [("0-1", 186), ("2-7", 9), ("8-11", 3), ("8-9", 1), ("12-13", 1)];
    let options = Options { home: HomeRule::Busy, ..Options::default() };
    assert_eq!(home(&with_nodes(7), &process(&threads), &options).to_string(), "0,4-5");
}

#[test]
fn the_nodes_asked_for_go_before_all_threads() {
    let to = Some("2".parse().expect("a list"));
    let options = Options { to, home: HomeRule::Busy, ..Options::default() };
    assert_eq!(home(&machine(), &process(&[("0-1", 1)]), &options).to_string(), "2");
}

#[test]
fn wide_threads_are_those_beyond_the_busiest() {
    let wide = |threads: &[(&str, u64)]| -> Vec<String> {
        let found = wide_threads(&machine(), &process(threads));
        found.iter().map(|threads| threads.cpus.to_string()).collect()
    };
    assert_eq!(wide(&[("0-1", 96), ("0-7", 4), ("1", 9)]), ["0-7"]);
    assert_eq!(wide(&[("0-1", 0), ("0-7", 0)]), ["0-7"], "of sleepers, those with most nodes");
    assert_eq!(wide(&[("0-1", 50), ("2-3", 49)]), ["2-3"]);
    assert!(wide(&[("0-1", 1), ("0-7", 9)]).is_empty(), "the busiest may run everywhere");
    assert!(wide(&[]).is_empty());
}

proptest! {
    #[test]
    fn a_busy_home_is_a_part_of_the_home_and_leaves_little_out(
        threads in vec((0..8_u32, 0..8_u32, 0..1000_u64), 1..12),
    ) {
        let lists: Vec<(String, u64)> =
            threads.iter().map(|&(a, b, time)| (format!("{}-{}", a.min(b), a.max(b)), time)).collect();
        let lists: Vec<(&str, u64)> = lists.iter().map(|(list, time)| (&list[..], *time)).collect();
        let (topology, process) = (machine(), process(&lists));
        let of = |home| super::home(&topology, &process, &Options { home, ..Options::default() });
        let (all, busy) = (of(HomeRule::Cpus), of(HomeRule::Busy));
        prop_assert!(!busy.is_empty() && busy.is_subset(&all));
        let out = process.threads.iter().filter(|t| !topology.local_nodes(&t.cpus).is_subset(&busy));
        let out: Duration = out.map(|threads| threads.cpu_time).sum();
        let total: Duration = process.threads.iter().map(|threads| threads.cpu_time).sum();
        prop_assert!(out * 100 <= total * IDLE_PERCENT);
    }
}

#[test]
fn memory_may_be_where_the_threads_that_make_the_home_may_have_it() {
    let with_mems = |threads: &[(&str, u64, &str)]| {
        let pairs: Vec<_> = threads.iter().map(|&(cpus, seconds, _)| (cpus, seconds)).collect();
        let mut process = process(&pairs);
        for (group, (_, _, mems)) in process.threads.iter_mut().zip(threads) {
            group.mems_allowed = Some(mems.parse().expect("a list"));
        }
        let mems = process.threads.iter().filter_map(|group| group.mems_allowed.as_ref());
        process.mems_allowed = mems.fold(NodeSet::new(), |all, mems| all.or(mems));
        process
    };
    let by = |rule: HomeRule, to: Option<&str>, process: &Process| {
        let to = to.map(|to| to.parse().expect("a list"));
        let options = Options { home: rule, to, ..Options::default() };
        allowed(&machine(), process, &options).to_string()
    };
    let process = with_mems(&[("2-3", 0, "1"), ("0-1", 96, "0")]);
    assert_eq!(by(HomeRule::Busy, None, &process), "0", "the first thread sleeps elsewhere");
    assert_eq!(by(HomeRule::Cpus, None, &process), "0-1");
    assert_eq!(by(HomeRule::Busy, Some("1"), &process), "0-1", "named: any thread may have it");
    let bound = with_mems(&[("2-3", 0, "0-3"), ("0-1", 96, "1")]);
    assert_eq!(
        by(HomeRule::Busy, None, &bound),
        "1",
        "the busy thread may not have memory on its own node"
    );
}

#[test]
fn nodes_that_are_named_and_local_to_no_cpu_are_away() {
    let process = process(&[("0-3", 1)]);
    let away = |to: Option<&str>| {
        let to = to.map(|to| to.parse().expect("a list"));
        away(&machine(), &process, &Options { to, ..Options::default() }).to_string()
    };
    assert_eq!(away(None), "");
    assert_eq!(away(Some("0")), "");
    assert_eq!(away(Some("1-2")), "2");
    assert_eq!(away(Some("3")), "3");
}
