//! Copying by a DMA engine, where the kernel can give the copies of a migration to one: what a request asks for, and what was
//! used. Pure.

/// Whether a DMA engine copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offload {
    /// Where the kernel offers it and it is allowed.
    #[default]
    Auto,
    /// No engine is switched on for this migration.
    Off,
    /// Always; without it nothing is moved.
    Require,
}

impl Offload {
    /// All of them, the default first.
    pub const ALL: [Offload; 3] = [Self::Auto, Self::Off, Self::Require];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Require => "require",
        }
    }
}

/// The use of offload in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffloadUse {
    /// The request's choice, whatever was possible.
    pub requested: Offload,
    /// Whether it was on while the run moved, for a part of that time at least.
    pub used: bool,
    /// The kernel's interface that was used; empty if none was.
    pub interface: String,
    /// Why it was not used, or was given up; empty if it was used to the end, or not asked for.
    pub reason: String,
    /// Whether something failed: it could not be switched on, or, if it was used, it was given up.
    pub failed: bool,
    /// Folios that an engine has copied meanwhile, on the whole host, by the kernel's counter; `None` if it does not count, or
    /// the counter was reset.
    pub offloaded_folios: Option<u64>,
    /// Folios that an engine could not copy and a CPU has copied, in the same way.
    pub failed_folios: Option<u64>,
    /// Folios of this run that CPUs have copied; `None` if that is not known: the kernel does not count, or another job's
    /// folios are among those that it has counted.
    pub cpu_folios: Option<u64>,
    /// Whether other jobs used it at the same time, so that the counts are of theirs, too.
    pub shared: bool,
}

impl OffloadUse {
    /// The use in two legs of one job.
    pub fn continued_by(&self, next: &Self) -> Self {
        // A count that one leg does not have is not known for both. A leg that did not use it has nothing to count.
        let sum = |one: Option<u64>, other: Option<u64>| match (self.used, next.used) {
            (true, false) => one,
            (false, true) => other,
            _ => one.zip(other).map(|(one, other)| one.saturating_add(other)),
        };
        let first = |one: &str, other: &str| if one.is_empty() { other } else { one }.to_owned();
        Self {
            requested: next.requested,
            used: self.used || next.used,
            interface: first(&next.interface, &self.interface),
            reason: first(&next.reason, &self.reason),
            failed: self.failed || next.failed,
            offloaded_folios: sum(self.offloaded_folios, next.offloaded_folios),
            failed_folios: sum(self.failed_folios, next.failed_folios),
            cpu_folios: self.cpu_folios.zip(next.cpu_folios).map(|(a, b)| a.saturating_add(b)),
            shared: self.shared || next.shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_are_joined() {
        let used = |offloaded, cpu| OffloadUse {
            used: true,
            interface: "dcbm".into(),
            offloaded_folios: offloaded,
            failed_folios: Some(0),
            cpu_folios: cpu,
            ..OffloadUse::default()
        };
        let refused = OffloadUse {
            reason: "unavailable: gone".into(),
            failed: true,
            cpu_folios: Some(9),
            ..OffloadUse::default()
        };
        let joined = used(Some(7), Some(1)).continued_by(&refused);
        assert!(joined.used && joined.failed && joined.reason.contains("gone"), "{joined:?}");
        assert_eq!((joined.offloaded_folios, joined.cpu_folios), (Some(7), Some(10)));
        let joined = used(Some(7), Some(1)).continued_by(&used(None, None));
        assert_eq!((joined.offloaded_folios, joined.failed_folios), (None, Some(0)));
        assert_eq!(joined.cpu_folios, None);
        let joined = refused.continued_by(&used(Some(3), Some(0)));
        assert_eq!((joined.offloaded_folios, joined.interface.as_str()), (Some(3), "dcbm"));
    }
}
