//! A part of a target that is shown where the whole may be too large.

use super::{Requirement, Target};
use std::collections::BTreeSet;

/// Bytes that are counted for a pid or a name besides its letters.
const EACH: usize = 8;

/// Number of bytes of names that may be kept, and number of names that were left out.
struct Budget {
    left: usize,
    is_first: bool,
    left_out: usize,
}

impl Budget {
    /// Keeps the first names that fit.
    fn keep<T: Clone + Ord>(
        &mut self,
        names: &BTreeSet<T>,
        bytes: impl Fn(&T) -> usize,
    ) -> BTreeSet<T> {
        names.iter().filter(|name| self.fits(bytes(name))).cloned().collect()
    }

    fn fits(&mut self, bytes: usize) -> bool {
        let needed = bytes + EACH;
        let fits = self.is_first || needed <= self.left;
        if fits {
            self.left = self.left.saturating_sub(needed);
            self.is_first = false;
        } else {
            // Later names are left out, too: the first names are kept.
            self.left = 0;
            self.left_out += 1;
        }
        fits
    }
}

impl Target {
    /// The first of its names and requirements of labels, about `bytes` of them and one at least, and how many more it has.
    #[must_use]
    pub fn abridged(&self, bytes: usize) -> (Self, usize) {
        let mut budget = Budget { left: bytes, is_first: true, left_out: 0 };
        let requirement = |required: &Requirement| {
            required.key.len()
                + required.condition.values().map(|it| it.len() + EACH).sum::<usize>()
        };
        let mut labels = self.labels.clone();
        let pids = budget.keep(&self.pids, |_| 0);
        let processes = budget.keep(&self.processes, |process| process.boot_id.len());
        labels.requirements = budget.keep(&self.labels.requirements, requirement);
        let mut names = |names: &BTreeSet<String>| budget.keep(names, String::len);
        let target = Self {
            pids,
            cgroups: names(&self.cgroups),
            units: names(&self.units),
            containers: names(&self.containers),
            pods: names(&self.pods),
            virtual_machines: names(&self.virtual_machines),
            container_labels: names(&self.container_labels),
            labels,
            workload_creators: names(&self.workload_creators),
            processes,
            files: names(&self.files),
        };
        (target, budget.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Condition, Selector};

    #[test]
    fn a_small_target_is_whole_and_of_a_large_one_the_first_names_are_kept() {
        let small = Target { pids: [1, 2].into(), ..Target::container("web") };
        assert_eq!(small.abridged(4096), (small.clone(), 0));
        let names = (0..1000).map(|number| format!("/system.slice/{number:04}.service"));
        let large = Target { cgroups: names.collect(), ..small };
        let (part, left_out) = large.abridged(4096);
        assert_eq!(part.cgroups.len() + left_out + part.containers.len(), 1001);
        assert!(part.cgroups.len() > 50 && part.cgroups.len() < 200, "{}", part.cgroups.len());
        assert!(part.cgroups.iter().zip(&large.cgroups).all(|(kept, first)| kept == first));
        assert_eq!(part.pids, large.pids);
    }

    /// A record needs a target, so one requirement is kept however long it is.
    #[test]
    fn one_name_is_kept_whatever_its_size() {
        let values = (0..64).map(|number| format!("{number:0>256}")).collect();
        let condition = Condition::In(values);
        let one = |key: &str| Requirement { key: key.to_owned(), condition: condition.clone() };
        let requirements = ["a", "b", "c"].map(one).into();
        let labels = Selector { namespace: Some("shop".to_owned()), requirements };
        let (part, left_out) = Target { labels, ..Target::default() }.abridged(4096);
        assert_eq!((part.labels.requirements.len(), left_out), (1, 2));
        assert_eq!(part.labels.namespace.as_deref(), Some("shop"));
        assert_eq!(Target::default().abridged(0), (Target::default(), 0));
    }
}
