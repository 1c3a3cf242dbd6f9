//! Other programs on this host that may be moving pages between nodes, as far as they can be seen.

use crate::{
    Roots,
    files::read::{self, numbered},
    numa_balancing,
};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Something that may be moving pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageMover {
    /// The kernel's own balancing, with the value of kernel.numa_balancing.
    NumaBalancing(u32),
    /// The daemon numad, by its pid.
    Numad(i32),
    /// A thread of DAMON with a scheme that migrates (from Linux 6.11), by its number in sysfs.
    Damon(u32),
}

impl fmt::Display for PageMover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumaBalancing(value) => {
                write!(f, "the kernel (kernel.numa_balancing is {value})")
            }
            Self::Numad(pid) => write!(f, "numad (process {pid})"),
            Self::Damon(number) => write!(f, "DAMON (kdamond {number} has a scheme that migrates)"),
        }
    }
}

/// The movers that are active now; what cannot be read is left out.
pub fn movers(roots: &Roots) -> Vec<PageMover> {
    let balancing = numa_balancing::read(roots).ok().flatten().filter(|&value| value != 0);
    let mut movers: Vec<PageMover> = balancing.map(PageMover::NumaBalancing).into_iter().collect();
    movers.extend(numbered::<i32>(&roots.proc).into_iter().filter_map(|(pid, path)| {
        let comm = read::text(&path.join("comm")).ok()?;
        (comm.trim_end() == "numad").then_some(PageMover::Numad(pid))
    }));
    let kdamonds = numbered::<u32>(&roots.sys.join("kernel/mm/damon/admin/kdamonds"));
    let migrating = kdamonds.into_iter().filter(|(_, path)| migrates(path));
    movers.extend(migrating.map(|(number, _)| PageMover::Damon(number)));
    movers
}

/// Whether a kdamond runs, and one of its schemes has the action migrate_hot or migrate_cold
/// (Documentation/admin-guide/mm/damon/usage.rst). Without such a scheme it only watches.
fn migrates(kdamond: &Path) -> bool {
    let says = |path: PathBuf, begin: &str| {
        read::text(&path).is_ok_and(|text| text.trim_end().starts_with(begin))
    };
    let contexts = numbered::<u32>(&kdamond.join("contexts")).into_values();
    let mut schemes =
        contexts.flat_map(|context| numbered::<u32>(&context.join("schemes")).into_values());
    says(kdamond.join("state"), "on")
        && schemes.any(|scheme| says(scheme.join("action"), "migrate_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn those_at_work_are_named() {
        let fake = Fake::new();
        assert_eq!(movers(&fake.roots()), []);
        let kdamonds = "sys/kernel/mm/damon/admin/kdamonds";
        for (path, text) in [
            ("proc/sys/kernel/numa_balancing", "2\n"),
            ("proc/17/comm", "numad\n"),
            ("proc/18/comm", "numadx\n"),
            (&format!("{kdamonds}/nr_kdamonds"), "3\n"),
            // One that watches, one that is off, one that migrates.
            (&format!("{kdamonds}/0/state"), "on\n"),
            (&format!("{kdamonds}/0/contexts/0/schemes/0/action"), "stat\n"),
            (&format!("{kdamonds}/1/state"), "off\n"),
            (&format!("{kdamonds}/1/contexts/0/schemes/0/action"), "migrate_hot\n"),
            (&format!("{kdamonds}/2/state"), "on\n"),
            (&format!("{kdamonds}/2/contexts/0/schemes/1/action"), "migrate_cold\n"),
        ] {
            fake.write(path, text);
        }
        let found = [PageMover::NumaBalancing(2), PageMover::Numad(17), PageMover::Damon(2)];
        assert_eq!(movers(&fake.roots()), found);
        fake.write("proc/sys/kernel/numa_balancing", "0\n");
        assert_eq!(movers(&fake.roots()), found[1..]);
    }
}
