//! Copying by a DMA engine, where the kernel can give the copies of a migration to one: what a request asks for, whether it pays,
//! and what was used. Pure.
//!
//! The setting is the whole host's, so it is decided for a run and not for a page: by the time that its bytes would take with
//! and without, at the rates that were measured on this host.

use crate::{HUGE, PAGE, plan::Plan};

/// Whether a DMA engine copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offload {
    /// Where that is possible, allowed and pays.
    #[default]
    Auto,
    /// Never.
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

/// How fast folios of one size were moved in page lists of one length, by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Size of a folio.
    pub folio_bytes: u64,
    /// Folios that the kernel took together.
    pub run_folios: u64,
    /// Bytes per second with offload off, not 0.
    pub cpu_bytes_per_second: u64,
    /// Bytes per second with offload on, not 0.
    pub engine_bytes_per_second: u64,
}

impl Rates {
    /// Whether the engine is worth its use: a gain within the error of the measurement is none.
    fn pays(&self) -> bool {
        u128::from(self.engine_bytes_per_second) * 100
            >= u128::from(self.cpu_bytes_per_second) * 105
    }
}

/// What was measured on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibration(pub Vec<Rates>);

impl Calibration {
    /// The fewest folios of this size in one page list with which the engine pays, if it does so with all longer ones, too.
    pub fn run_min(&self, folio_bytes: u64) -> Option<u64> {
        let mut of_size = self.of_size(folio_bytes);
        of_size.sort_by_key(|rates| rates.run_folios);
        let paying = of_size.iter().rev().take_while(|rates| rates.pays());
        paying.last().map(|rates| rates.run_folios)
    }

    /// The shortest copy to give to an engine, in base pages, for kernels that can be told; `None` if none pays.
    pub fn pages_min(&self) -> Option<u32> {
        let of = |folio_bytes: u64| Some(self.run_min(folio_bytes)? * (folio_bytes / PAGE));
        let least = [PAGE, HUGE].into_iter().filter_map(of).min()?;
        u32::try_from(least).ok()
    }

    /// The rates that hold for page lists of this length: those of the longest measured one that is not longer, or else of the
    /// shortest.
    fn at(&self, folio_bytes: u64, run_folios: u64) -> Option<Rates> {
        let of_size = self.of_size(folio_bytes);
        let shorter = of_size.iter().filter(|rates| rates.run_folios <= run_folios);
        let nearest = shorter.max_by_key(|rates| rates.run_folios);
        nearest.or(of_size.iter().min_by_key(|rates| rates.run_folios)).copied()
    }

    fn of_size(&self, folio_bytes: u64) -> Vec<Rates> {
        self.0.iter().filter(|rates| rates.folio_bytes == folio_bytes).copied().collect()
    }

    /// What offload would do for a run that moves these amounts; `None` if nothing of their sizes was measured.
    pub fn expect(&self, amounts: &Amounts) -> Option<Expected> {
        let parts = [
            (amounts.base_bytes, self.at(PAGE, amounts.list_pages)),
            (amounts.huge_bytes, self.at(HUGE, 1)),
        ];
        let parts = parts.into_iter().filter(|(bytes, _)| *bytes > 0);
        let (mut bytes, mut by_cpu, mut by_engine) = (0, 0.0, 0.0);
        for (part, rates) in parts {
            // A size that could not be measured may lose as much as another one gains.
            let rates = rates?;
            bytes += part;
            by_cpu += part as f64 / rates.cpu_bytes_per_second as f64;
            by_engine += part as f64 / rates.engine_bytes_per_second as f64;
        }
        let rate = |seconds: f64| (bytes as f64 / seconds) as u64;
        (bytes > 0).then(|| Expected {
            cpu_bytes_per_second: rate(by_cpu),
            engine_bytes_per_second: rate(by_engine),
        })
    }
}

/// What a run is to move, by the sizes that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Bytes in base pages, or in folios of a size that is not known.
    pub base_bytes: u64,
    /// Bytes in huge pages.
    pub huge_bytes: u64,
    /// Base pages that the kernel takes together, at most.
    pub list_pages: u64,
}

impl Amounts {
    /// Those of a plan. The pace bounds how many base pages the kernel takes together; it takes 512 by itself (mm/migrate.c,
    /// NR_MAX_BATCHED_MIGRATION).
    pub fn of(plan: &Plan) -> Self {
        let huge = |of: &&crate::Move| of.hugetlb_bytes.is_some_and(|bytes| bytes >= HUGE);
        let hugetlb = plan.moves.iter().filter(huge).flat_map(|of| of.remote.values());
        let bytes = plan.moves.iter().flat_map(|of| of.remote.values()).sum::<u64>();
        let huge_bytes = hugetlb.sum::<u64>().saturating_add(plan.huge_bytes).min(bytes);
        let most = HUGE / PAGE;
        let list = plan.options.pacing.pace().pagelist_bytes;
        let list_pages = list.map_or(most, |bytes| (bytes / PAGE).clamp(1, most));
        Self { base_bytes: bytes - huge_bytes, huge_bytes, list_pages }
    }

    /// Whether there is nothing to move.
    pub fn is_nothing(&self) -> bool {
        self.base_bytes + self.huge_bytes == 0
    }
}

/// What a run may come to with offload off and on, by what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Bytes per second with offload off.
    pub cpu_bytes_per_second: u64,
    /// Bytes per second with offload on.
    pub engine_bytes_per_second: u64,
}

impl Expected {
    /// Whether the run is to use it.
    pub fn pays(&self) -> bool {
        let Self { cpu_bytes_per_second, engine_bytes_per_second } = *self;
        Rates { folio_bytes: PAGE, run_folios: 1, cpu_bytes_per_second, engine_bytes_per_second }
            .pays()
    }
}

/// What became of offload in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffloadUse {
    /// What was asked for.
    pub requested: Offload,
    /// Whether it was on while the run moved, for a part of that at least.
    pub used: bool,
    /// The kernel's interface that was used; empty if none was.
    pub interface: String,
    /// Why it was not used, or was given up; empty if it was used to the end, or not asked for.
    pub reason: String,
    /// Whether something failed: it could not be switched on, or, if it was used, it was given up.
    pub failed: bool,
    /// Folios that an engine has copied meanwhile, on the whole host, by the kernel's counter; `None` if it does not count, or
    /// somebody has reset the counter.
    pub offloaded_folios: Option<u64>,
    /// Folios that an engine could not copy and a CPU has copied, in the same way.
    pub failed_folios: Option<u64>,
    /// Folios of this run that CPUs have copied; `None` if that is not known: the kernel does not count, or another job's
    /// folios are among those that it has counted.
    pub cpu_folios: Option<u64>,
    /// Whether other jobs used it at the same time, so that the counts are of theirs, too.
    pub shared: bool,
    /// Bytes per second that were expected with offload off and on; `None` if they were not measured.
    pub expected: Option<Expected>,
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
            expected: next.expected.or(self.expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn rates(folio_bytes: u64, run_folios: u64, cpu: u64, engine: u64) -> Rates {
        let (cpu_bytes_per_second, engine_bytes_per_second) = (cpu * GB / 10, engine * GB / 10);
        Rates { folio_bytes, run_folios, cpu_bytes_per_second, engine_bytes_per_second }
    }

    /// As published for another vendor's engine with one channel: slower on base pages, faster on huge ones.
    fn one_channel() -> Calibration {
        let base =
            [(16, 22), (64, 24), (512, 26)].map(|(run, engine)| rates(PAGE, run, 35, engine));
        Calibration([&base[..], &[rates(HUGE, 1, 110, 127)]].concat())
    }

    fn amounts(base_mib: u64, huge_mib: u64) -> Amounts {
        Amounts { base_bytes: base_mib << 20, huge_bytes: huge_mib << 20, list_pages: 64 }
    }

    #[test]
    fn thresholds_are_the_lengths_from_which_it_pays() {
        let calibration = one_channel();
        assert_eq!((calibration.run_min(PAGE), calibration.run_min(HUGE)), (None, Some(1)));
        assert_eq!(calibration.pages_min(), Some(512));
        let long = Calibration(vec![
            rates(PAGE, 512, 35, 60),
            rates(PAGE, 16, 35, 40), // a lucky one
            rates(PAGE, 64, 35, 36),
            rates(PAGE, 128, 35, 50),
        ]);
        assert_eq!((long.run_min(PAGE), long.pages_min()), (Some(128), Some(128)));
        assert_eq!(Calibration::default().pages_min(), None);
    }

    #[test]
    fn a_run_uses_it_if_all_of_it_together_gains() {
        let pays = |amounts| one_channel().expect(&amounts).expect("measured").pays();
        assert!(pays(amounts(0, 512)));
        assert!(!pays(amounts(512, 0)));
        assert!(!pays(amounts(256, 256)), "base pages lose more than huge ones gain");
        assert!(pays(amounts(1, 1024)));
    }

    #[test]
    fn the_rates_are_those_of_shorter_lists() {
        let calibration = one_channel();
        let at = |list_pages| {
            let amounts = Amounts { list_pages, ..amounts(64, 0) };
            calibration.expect(&amounts).expect("measured").engine_bytes_per_second / (GB / 10)
        };
        assert_eq!([1, 16, 100, 512].map(at), [22, 22, 24, 26]);
    }

    #[test]
    fn what_was_not_measured_is_not_expected() {
        assert_eq!(one_channel().expect(&Amounts::default()), None, "there is nothing to move");
        let base_only = Calibration(vec![rates(PAGE, 512, 35, 60)]);
        assert_eq!(base_only.expect(&amounts(64, 2)), None);
        assert!(base_only.expect(&amounts(64, 0)).is_some_and(|expected| expected.pays()));
    }

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
