//! Obstacles that hide a part of the host from this process without an error: options of mounts, and namespaces.

use crate::{
    Roots,
    files::{procfs_mount, read},
    limits::capabilities,
};
use std::fmt;

/// An obstacle that hides a part of the host from this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// /proc has the option `hidepid`, and this process lacks CAP_SYS_PTRACE, which overrides it (fs/proc/base.c, `has_pid_permissions`).
    Processes {
        /// Its value as it is written (`2`, `invisible`).
        hidepid: String,
    },
    /// This process is in a cgroup namespace of its own: the cgroups of all other processes show as paths with `..`, which name no
    /// directory (cgroup_namespaces(7)).
    Cgroups,
}

impl Obstacle {
    /// The advice on removing it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Processes { .. } => {
                "run as root or with CAP_SYS_PTRACE, or in the group of /proc's option gid="
            }
            Self::Cgroups => {
                "start the container in the host's cgroup namespace (--cgroupns=host of docker and podman)"
            }
        }
    }
}

impl fmt::Display for Obstacle {
    /// The hidden part, without the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes { hidepid } => write!(
                f,
                "processes of other users are hidden, because /proc is mounted with hidepid={hidepid}"
            ),
            Self::Cgroups => f.write_str(
                "the cgroups of other processes cannot be named, because this process is in a cgroup namespace of its own",
            ),
        }
    }
}

/// The obstacles that hide a part of the host from this process now.
pub fn obstacles(roots: &Roots) -> Vec<Obstacle> {
    let hidepid = procfs_mount::hidepid(&procfs_mount::mounts(&roots.proc), &roots.proc);
    let processes = hidepid
        .filter(|_| !capabilities::read(roots).sys_ptrace)
        .map(|hidepid| Obstacle::Processes { hidepid });
    let cgroups = has_foreign_cgroups(roots).then_some(Obstacle::Cgroups);
    processes.into_iter().chain(cgroups).collect()
}

/// Whether the first process of the host, or its first kernel thread, shows in a cgroup outside of the own namespace's root
/// (kernel/cgroup/cgroup.c, `cgroup_path_ns_locked`). In a pid namespace of its own, too, these are others, which are inside.
pub(crate) fn has_foreign_cgroups(roots: &Roots) -> bool {
    ["1", "2"].into_iter().any(|pid| {
        let text = read::text(&roots.proc.join(pid).join("cgroup")).unwrap_or_default();
        let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.any(|path| path == "/.." || path.starts_with("/../"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn what_hides_a_part_of_the_host_is_found() {
        let fake = Fake::new();
        let found = || obstacles(&fake.roots());
        assert_eq!(found(), []);
        fake.write("proc/1/cgroup", "0::/init.scope\n");
        fake.write("proc/2/cgroup", "0::/\n");
        assert_eq!(found(), []);
        for (pid, cgroup) in [(1, "0::/../../init.scope\n"), (2, "3:cpuset:/..\n0::/..\n")] {
            fake.write(&format!("proc/{pid}/cgroup"), cgroup);
            assert_eq!(found(), [Obstacle::Cgroups], "{cgroup}");
            fake.write(&format!("proc/{pid}/cgroup"), "0::/..data\n");
        }
        let proc = fake.path("proc").display().to_string();
        fake.write("proc/self/mounts", &format!("proc {proc} proc rw,hidepid=2 0 0\n"));
        assert_eq!(found(), [Obstacle::Processes { hidepid: "2".into() }]);
        fake.write("proc/self/status", "CapEff:\t0000000000080000\n");
        assert_eq!(found(), [], "CAP_SYS_PTRACE sees them");
    }
}
