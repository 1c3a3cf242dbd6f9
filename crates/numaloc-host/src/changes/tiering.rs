//! The kernel's own moves between memory tiers, which a placement by use would work against. They are never changed.

use super::numa_balancing;
use crate::{Error, Roots, nodes::tiers::has_demotion};
use numaloc_core::{BesideKernel, Tiers};

/// The bit of kernel.numa_balancing with which hot pages of slower memory are promoted (Documentation/admin-guide/sysctl/kernel.rst).
const PROMOTES: u32 = 2;

/// Checks whether the kernel moves memory between tiers, and what the request says to that: returns a warning, if it asks for one.
///
/// # Errors
/// [`Error::KernelTiers`]; the setting cannot be read.
pub fn beside_kernel(roots: &Roots, tiers: &Tiers) -> Result<Option<String>, Error> {
    let promotes = numa_balancing::read(roots)?.is_some_and(|value| value & PROMOTES != 0);
    let demotes = has_demotion(roots).then_some("/sys/kernel/mm/numa/demotion_enabled is true");
    let promotes = promotes.then_some("kernel.numa_balancing has bit 1 set");
    let settings: Vec<&str> = demotes.into_iter().chain(promotes).collect();
    let settings = settings.join(" and ");
    match tiers.beside_kernel {
        _ if settings.is_empty() => Ok(None),
        BesideKernel::Ignore => Ok(None),
        BesideKernel::Warn => Ok(Some(format!(
            "the kernel moves memory between tiers as well ({settings}), by a measure of its own"
        ))),
        BesideKernel::Refuse => Err(Error::KernelTiers { settings }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn what_the_kernel_moves_itself_is_refused_or_reported() {
        let fake = Fake::new();
        let of = |beside: &str| {
            let tiers: Tiers = format!("beside_kernel={beside}").parse().expect(beside);
            beside_kernel(&fake.roots(), &tiers)
        };
        assert!(matches!(of("refuse"), Ok(None)), "it has neither setting");
        fake.write("sys/kernel/mm/numa/demotion_enabled", "false\n");
        fake.write("proc/sys/kernel/numa_balancing", "1\n");
        assert!(matches!(of("refuse"), Ok(None)));
        fake.write("proc/sys/kernel/numa_balancing", "2\n");
        let refused = of("refuse").expect_err("promotion");
        assert!(refused.to_string().contains("kernel.numa_balancing has bit 1 set"), "{refused}");
        fake.write("sys/kernel/mm/numa/demotion_enabled", "true\n");
        let warned = of("warn").expect("a warning").expect("both are on");
        assert!(warned.contains("demotion_enabled is true and kernel.numa_balancing"), "{warned}");
        assert!(matches!(of("ignore"), Ok(None)));
    }
}
