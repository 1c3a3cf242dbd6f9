//! A schedule that relieves a node: memory leaves it before a bound process runs out of memory, and comes back later.

use super::*;
use crate::{
    app::Layout,
    exchange::nodes,
    place::{away, home},
    relieve::{NEARLY, best_effort, bound, memory, neighbour, victim},
    settings::{Cgroup, Setting},
    truth::{free_bytes, on, vmstat},
};

fn path(cgroup: &Cgroup) -> String {
    format!("/{}", cgroup.path().file_name().expect("a name").display())
}

fn refused(daemon: &Daemon, words: &[&str], why: &str) {
    let output = daemon.ctl(words);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(why), "{words:?}: {text}");
}

#[test]
fn memory_leaves_in_time_and_comes_back() {
    let (_still, _victim) = (Setting::still_host(), victim());
    let daemon = Daemon::start();
    let cgroup = Cgroup::new("relieved-be");
    let mut be = best_effort(|layout| layout.within(cgroup.path()));
    let mut neighbour = neighbour();
    let (next_to_it, kernel) = (memory(&neighbour), ["oom_kill", "pswpout"].map(vmstat));
    let (node, other, cgroup_path) = (away().to_string(), home().to_string(), path(&cgroup));
    let schedule = [
        &["schedules", "create", "--id", "relief", "--relieve", &node, "--free-below", "256M"][..],
        &["--free-until", "320M", "--return-after", "1s", "--interval", "1s"],
        &["--cgroup", &cgroup_path, "--profile", "fast"],
    ];
    let output = daemon.ctl(&schedule.concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until("there is free memory", || free_bytes(away()) + NEARLY >= 320 * MIB);
    let mut bound = bound().expect("it is not killed");
    until("memory leaves again", || on(&nodes(&be), away()) < 64 * MIB);
    assert_eq!(["oom_kill", "pswpout"].map(vmstat), kernel);

    let of_node = ["schedules", "create", "--cgroup", &cgroup_path, "--interval", "10s"];
    let to_it = [&of_node[..], &["--relieve", &other, "--free-below", "1M", "--to", &node]];
    refused(&daemon, &to_it.concat(), "relieves that node itself");
    bound.check();
    drop(bound);
    until("it comes back", || on(&nodes(&be), away()) >= 128 * MIB);
    assert!(free_bytes(away()) >= 256 * MIB, "no more than there is room for");
    assert_eq!(memory(&neighbour), next_to_it, "nobody else's pages move");
    for app in [&mut be, &mut neighbour] {
        app.check();
    }
    drop((neighbour, be));
}

#[test]
fn registered_best_effort_work_is_moved_and_no_other() {
    let daemon = Daemon::start();
    let (first, second) = (Cgroup::new("relieved-one"), Cgroup::new("relieved-ls"));
    let app = |cgroup: &Cgroup| {
        let layout = Layout::remote(&["anon:32M"]).memory_on(away()).on("").load("idle");
        layout.within(cgroup.path()).start("app")
    };
    let (be, ls) = (app(&first), app(&second));
    let (node, free) = (away().to_string(), format!("{}M", free_bytes(away()) / MIB + 16));
    let relieve = ["relieve", &node, "--free", &free];
    refused(&daemon, &relieve, "no workload of class BE is registered");
    for (cgroup, id, class) in [(&first, "one", "be"), (&second, "ls", "ls")] {
        let path = path(cgroup);
        let words = ["workloads", "register", id, "--cgroup", &path, "--qos", class];
        assert!(daemon.ctl(&words).status.success());
    }
    let spared = path(&second);
    let named = [&relieve[..], &["--cgroup", &spared]].concat();
    refused(&daemon, &named, "only best-effort work makes room");
    let output = daemon.ctl(&relieve);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("wanted"), "{text}");
    assert!(on(&nodes(&be), home()) >= 8 * MIB, "{text}");
    assert_eq!(on(&nodes(&ls), away()), 32 * MIB, "{text}");
}
