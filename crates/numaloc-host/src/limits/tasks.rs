//! Number of threads and processes that this process may have.

use crate::{Roots, files::read, limits::capabilities, processes::cgroup};
use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

/// A bound on the tasks of this process, which are its threads and the processes that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLimit {
    /// The largest number of tasks.
    pub most: usize,
    /// The `pids.max` of the cgroup that has the bound; `None`: it is that of all processes of this user (RLIMIT_NPROC).
    pub file: Option<PathBuf>,
}

impl fmt::Display for TaskLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{} allows {}", file.display(), self.most),
            None => write!(f, "RLIMIT_NPROC allows all processes of this user {}", self.most),
        }
    }
}

/// The lowest bound on the tasks of this process: of its cgroup, of those above it (kernel/cgroup/pids.c, `pids_try_charge`), or of its
/// user. `None`: there is none, or it cannot be read. The bound of a parent is for all cgroups below it.
pub fn task_limit(roots: &Roots) -> Option<TaskLimit> {
    let own = cgroup_directories(roots).into_iter().filter_map(|directory| {
        let file = directory.join("pids.max");
        // "max" is not a number, and stands for no bound.
        let most = read::text(&file).ok()?.trim().parse().ok()?;
        Some(TaskLimit { most, file: Some(file) })
    });
    own.chain(of_user(roots)).min_by_key(|limit| limit.most)
}

/// The directories of this process's cgroup and of the cgroups above it, in the hierarchy that bounds tasks. Cgroups
/// that this process does not see are left out: then the root of the mount is its own, in a cgroup namespace or by a
/// bind mount.
fn cgroup_directories(roots: &Roots) -> Vec<PathBuf> {
    let text = read::text(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let hierarchies = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let root = match controllers {
            "" => cgroup::unified_root(roots)?,
            _ if controllers.split(',').any(|name| name == "pids") => {
                roots.cgroup.join(controllers)
            }
            _ => return None,
        };
        Some((root, path))
    });
    hierarchies.flat_map(|(root, path)| upwards(&root, path)).collect()
}

fn upwards(root: &Path, path: &str) -> Vec<PathBuf> {
    let path = Path::new(path.trim_start_matches('/'));
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    let path = if is_inside { path } else { Path::new("") };
    path.ancestors().map(|above| root.join(above)).collect()
}

/// The bound for all processes of this user, which root and those with either capability do not have (kernel/fork.c, `copy_process`).
fn of_user(roots: &Roots) -> Option<TaskLimit> {
    let capabilities = capabilities::read(roots);
    if roots.own_uid()? == 0 || capabilities.sys_admin || capabilities.sys_resource {
        return None;
    }
    let limits = read::text(&roots.proc.join("self/limits")).ok()?;
    let values = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    let most = values.split_whitespace().next()?.parse().ok()?;
    Some(TaskLimit { most, file: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const SLICE: &str = "cgroup/system.slice";
    const UNIT: &str = "cgroup/system.slice/numalocd.service";

    #[test]
    fn the_lowest_of_the_cgroups_above_counts() {
        let fake = Fake::new();
        let limit = || task_limit(&fake.roots());
        fake.write("cgroup/cgroup.procs", "");
        fake.write("proc/self/cgroup", "0::/system.slice/numalocd.service\n");
        assert_eq!(limit(), None, "the controller is off");
        let of = |directory: &str, most| {
            Some(TaskLimit { most, file: Some(fake.path(directory).join("pids.max")) })
        };
        fake.write(&format!("{UNIT}/pids.max"), "512\n");
        assert_eq!(limit(), of(UNIT, 512));
        fake.write(&format!("{SLICE}/pids.max"), "100\n");
        assert_eq!(limit(), of(SLICE, 100));
        fake.write(&format!("{SLICE}/pids.max"), "max\n");
        assert_eq!(limit(), of(UNIT, 512));
        fake.write(&format!("{UNIT}/pids.max"), "max\n");
        assert_eq!(limit(), None);
    }

    #[test]
    fn a_namespace_and_the_hierarchy_of_v1_have_bounds_of_their_own() {
        let fake = Fake::new();
        fake.write("cgroup/cgroup.procs", "");
        fake.write("cgroup/pids.max", "64\n");
        fake.write("proc/self/cgroup", "0::/../../other\n");
        assert_eq!(task_limit(&fake.roots()).map(|limit| limit.most), Some(64));

        let fake = Fake::new();
        fake.write("cgroup/pids/numalocd/pids.max", "32\n");
        fake.write("proc/self/cgroup", "5:cpuset:/\n3:pids:/numalocd\n0::/\n");
        let limit = task_limit(&fake.roots()).unwrap();
        let file = fake.path("cgroup/pids/numalocd/pids.max");
        assert_eq!(limit.to_string(), format!("{} allows 32", file.display()));
    }

    #[test]
    fn the_bound_of_a_user_is_not_that_of_root() {
        let fake = Fake::new();
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax processes             300                  400                  processes\n";
        fake.write("proc/self/limits", limits);
        let of_user = || task_limit(&fake.roots()).map(|limit| (limit.most, limit.file));
        fake.write("proc/self/status", "CapEff:\t0000000000800000\n");
        // Only root can have files of another user; all others are another user than root.
        let chown = |user| std::os::unix::fs::chown(fake.path("proc/self"), Some(user), None);
        if fake.roots().own_uid() == Some(0) {
            assert_eq!(of_user(), None);
            chown(1000).unwrap();
        }
        assert_eq!(of_user(), Some((300, None)));
        for capability in ["0000000000200000", "0000000001000000"] {
            fake.write("proc/self/status", &format!("CapEff:\t{capability}\n"));
            assert_eq!(of_user(), None, "CAP_SYS_ADMIN, CAP_SYS_RESOURCE");
        }
    }
}
