//! The machine's nodes and the target side.

use super::{Findings, kernel::WHOLE_PROC};
use crate::doc::Check;
use numaloc_core::{Options, Supply};
use numaloc_host::{Obstacle, facts::CgroupVersion};

/// `node 0`, or `nodes 0-1`.
fn named(list: &str) -> String {
    let is_one = list.bytes().all(|byte| byte.is_ascii_digit());
    format!("{} {list}", if is_one { "node" } else { "nodes" })
}

/// Whether hwloc can read the machine.
pub fn hwloc(found: &Findings) -> Check {
    match &found.topology {
        Ok(topology) => Check::ok("hwloc", format!("finds {}", named(&topology.ids().to_string()))),
        Err(error) if found.facts.has_processes_alone => {
            Check::problem("hwloc", error.to_string(), WHOLE_PROC)
        }
        Err(error) => Check::problem(
            "hwloc",
            error.to_string(),
            "compare with lstopo, unset HWLOC_* in the environment, and see that /sys is mounted",
        ),
    }
}

/// Whether there is anywhere to move memory to.
pub fn nodes(found: &Findings) -> Check {
    const NAME: &str = "nodes";
    let Ok(topology) = &found.topology else {
        return Check::problem(NAME, "unknown", "see hwloc");
    };
    let with_memory = topology.with_memory();
    match with_memory.len() {
        0 | 1 => Check::problem(
            NAME,
            format!("only node {with_memory} has memory: there is nowhere to move memory to"),
            "use a machine with several NUMA nodes; if it has them, look for numa=off on the kernel's command line and for node interleaving in the firmware",
        ),
        count => Check::ok(NAME, format!("{count} with memory ({with_memory})")),
    }
}

/// Whether the nodes have room for pages.
pub fn room(found: &Findings) -> Check {
    const NAME: &str = "room";
    let Ok(topology) = &found.topology else {
        return Check::problem(NAME, "unknown", "see hwloc");
    };
    let full = topology.nodes().filter(|node| {
        let total_bytes = node.memory.total_bytes;
        let reserve = Options::default().reserve(total_bytes);
        let (memory, way) = (&node.memory, Options::default().make_room);
        let by_cache = memory.room_by_cache(Supply::base(), reserve, way);
        total_bytes > 0 && memory.room(Supply::base(), reserve) + by_cache == 0
    });
    let full: Vec<_> = full.map(|node| node.id.to_string()).collect();
    match full.is_empty() {
        true => Check::ok(NAME, "each node with memory can take pages in"),
        false => Check::warning(
            NAME,
            format!(
                "none on node {} above its high watermark and the reserve, nor in unused page cache",
                full.join(", ")
            ),
            "free memory there, or ask for a smaller --reserve",
        ),
    }
}

/// Whether a node has memory of DAX devices beside its own.
pub fn dax_memory(found: &Findings) -> Check {
    const NAME: &str = "dax_memory";
    let Ok(topology) = &found.topology else {
        return Check::problem(NAME, "unknown", "see hwloc");
    };
    let mixed: Vec<String> = topology
        .with_mixed_memory()
        .flat_map(|node| topology.dax(node.id).iter().map(|device| (node.id, device)))
        .map(|(node, device)| {
            let mib = device.bytes >> 20;
            format!("node {node} has up to {mib} MiB behind {} (kmem)", device.name)
        })
        .collect();
    match mixed.is_empty() {
        true => Check::ok(NAME, "no node has memory of DAX devices beside its own"),
        false => Check::warning(
            NAME,
            format!(
                "{}: memory there may be slower, and numaloc cannot tell it from the rest",
                mixed.join(", ")
            ),
            "have the firmware name a node of its own for the device (target_node in /sys/bus/dax/devices), or use it without kmem: daxctl reconfigure-device --mode=devdax --force",
        ),
    }
}

/// Whether calls that move memory wait for CPUs that are never free.
pub fn real_time(found: &Findings) -> Check {
    const NAME: &str = "real_time";
    let hogs = &found.real_time;
    if hogs.is_empty() {
        return Check::ok(NAME, "no real-time thread uses a whole CPU");
    }
    let named: Vec<String> = hogs.iter().map(ToString::to_string).collect();
    let effect = match hogs.iter().all(|hog| hog.is_limited) {
        true => "calls that move memory may wait up to a second for it",
        false => "calls that move memory may wait for it until the thread sleeps",
    };
    Check::warning(
        NAME,
        format!("{}: {effect}", named.join(", ")),
        "let the thread sleep now and then; kernel.sched_rt_runtime_us=950000, and from Linux 6.12 on the fair server of the CPU, leave kernel threads a part of its time",
    )
}

/// Whether cgroups and units can be targets.
pub fn cgroups(found: &Findings) -> Check {
    if found.facts.has_foreign_cgroups {
        let (found, remedy) = (Obstacle::Cgroups.to_string(), Obstacle::Cgroups.remedy());
        return Check::problem("cgroups", found, remedy);
    }
    match found.facts.cgroups {
        CgroupVersion::None => Check::warning(
            "cgroups",
            "none: --cgroup and --unit cannot work",
            "mount the cgroup file system on /sys/fs/cgroup",
        ),
        version => Check::ok("cgroups", version.name()),
    }
}
