//! What the kernel itself has done with the memory of units and containers.

use super::{bound, is_below};
use numaloc_core::live::{GroupNow, KernelEvents};
use std::collections::BTreeMap;

/// Sums up the events of cgroups that have one name. Names without any event are left out, and of the others the `most` with most events are
/// named.
pub(super) fn by_name(
    groups: &BTreeMap<String, GroupNow>,
    name: impl Fn(&str) -> Option<&str>,
    most: usize,
) -> BTreeMap<String, KernelEvents> {
    let mut named: BTreeMap<&str, (Vec<&str>, KernelEvents)> = BTreeMap::new();
    for (path, group) in groups {
        let Some(name) = name(path) else { continue };
        let (counted, events) = named.entry(name).or_default();
        // A cgroup comes before those below it, and its counts have theirs.
        if !is_below(path, counted) {
            counted.push(path);
            *events = events.and(group.kernel);
        }
    }
    let named = named.into_iter().filter(|(_, (_, events))| sum(events) > 0);
    let mut named = named.map(|(name, (_, events))| (name.to_owned(), events)).collect();
    bound(&mut named, most, sum, |all, events| *all = all.and(events));
    named
}

fn sum(events: &KernelEvents) -> u64 {
    let KernelEvents { hint_faults, migrated_pages, demoted_pages, promoted_pages } = *events;
    let all = [hint_faults, migrated_pages, demoted_pages, promoted_pages];
    all.into_iter().flatten().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::{super::OTHERS, *};
    use crate::processes::unit::unit_of;

    #[test]
    fn nested_cgroups_count_once_and_quiet_ones_not_at_all() {
        let group = |path: &str, faults| {
            let kernel = KernelEvents { hint_faults: faults, ..KernelEvents::default() };
            (path.to_owned(), GroupNow { kernel, ..GroupNow::default() })
        };
        let groups = [
            group("/system.slice/a.service", Some(10)),
            group("/system.slice/a.service/worker", Some(4)),
            group("/system.slice/a.service-2", Some(100)),
            group("/system.slice/b.service/one", Some(2)),
            group("/system.slice/b.service/two", Some(3)),
            group("/system.slice/c.service", Some(0)),
            group("/system.slice/d.service", None),
            group("/system.slice/e.service", Some(1)),
        ];
        let groups = groups.into();
        let faults = |most| {
            let named = by_name(&groups, unit_of, most).into_iter();
            named.map(|(name, events)| (name, events.hint_faults)).collect::<Vec<_>>()
        };
        let found = |name: &str, faults| (name.to_owned(), Some(faults));
        let (a, b) = (found("a.service", 10), found("b.service", 5));
        assert_eq!(faults(9), [a.clone(), b.clone(), found("e.service", 1)]);
        assert_eq!(faults(1), [a, found(OTHERS, 6)]);
    }
}
