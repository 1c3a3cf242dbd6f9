//! Finds entries that are the same address space. Processes may share one without being threads of each other (vfork,
//! CLONE_VM).

use super::{AddressSpace, SpaceOwner};
use crate::files::read::is_gone;
use numaloc_sys::kcmp_vm;
use std::{
    cmp::Ordering,
    collections::{HashMap, VecDeque},
    io,
};

/// Joins entries that are the same memory; the result is in ascending order of pid. Only entries with equal layouts can
/// be the same. A family of forks has equal layouts, too, and kcmp(2) distinguishes them, with one call for each
/// comparison that sorting takes.
pub(crate) fn distinct(spaces: Vec<AddressSpace>) -> Vec<AddressSpace> {
    let mut alike: HashMap<_, Vec<AddressSpace>> = HashMap::new();
    spaces.into_iter().for_each(|space| alike.entry(space.layout).or_default().push(space));
    let order = |a: &AddressSpace, b: &AddressSpace| kcmp_vm(a.tid(), b.tid());
    let mut spaces: Vec<_> = alike.into_values().flat_map(|alike| joined(alike, &order)).collect();
    spaces.sort_by_key(AddressSpace::pid);
    spaces
}

/// Sorts by merging, and joins entries that are equal. `sort_by` is not used, because it may panic if the order is
/// inconsistent, as when a process ends meanwhile.
fn joined(
    spaces: Vec<AddressSpace>,
    order: &dyn Fn(&AddressSpace, &AddressSpace) -> io::Result<Ordering>,
) -> Vec<AddressSpace> {
    let mut runs: VecDeque<Vec<AddressSpace>> = spaces.into_iter().map(|one| vec![one]).collect();
    while runs.len() > 1 {
        let (first, second) = (runs.pop_front(), runs.pop_front());
        runs.push_back(merged(first.unwrap_or_default(), second.unwrap_or_default(), order));
    }
    runs.pop_front().unwrap_or_default()
}

fn merged(
    first: Vec<AddressSpace>,
    second: Vec<AddressSpace>,
    order: &dyn Fn(&AddressSpace, &AddressSpace) -> io::Result<Ordering>,
) -> Vec<AddressSpace> {
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        match order(a, b) {
            Ok(Ordering::Less) => merged.extend(first.next()),
            Ok(Ordering::Greater) => merged.extend(second.next()),
            Ok(Ordering::Equal) => {
                merged.extend(first.next().zip(second.next()).map(|(a, b)| together(a, b)));
            }
            Err(error) if is_gone(&error) && !a.is_alive() => drop(first.next()),
            Err(error) if is_gone(&error) && !b.is_alive() => drop(second.next()),
            // If they cannot be compared, they count as different.
            Err(_) if a.pid() < b.pid() => merged.extend(first.next()),
            Err(_) => merged.extend(second.next()),
        }
    }
    merged.extend(first);
    merged.extend(second);
    merged
}

/// One entry for both: that of the process that was there first, with the CPUs and threads of the other added, and the nodes that
/// both may use.
fn together(a: AddressSpace, b: AddressSpace) -> AddressSpace {
    let (mut elder, other) = if is_elder(&a.holders[0], &b.holders[0]) { (a, b) } else { (b, a) };
    elder.process.cpus = elder.process.cpus.or(&other.process.cpus);
    elder.process.mems_allowed = elder.process.mems_allowed.and(&other.process.mems_allowed);
    elder.process.device_nodes = elder.process.device_nodes.or(&other.process.device_nodes);
    // Without any, all CPUs count alike.
    if !elder.process.threads.is_empty() {
        elder.process.threads.extend(other.process.threads);
    }
    elder.holders.extend(other.holders);
    elder
}

/// Whether `a` was there before `b`. Start times are in ticks of 10 ms, and a child may start within the same tick as
/// its parent; then the parent was first.
fn is_elder(a: &SpaceOwner, b: &SpaceOwner) -> bool {
    let key = |one: &SpaceOwner, other: &SpaceOwner| {
        let SpaceOwner { identity, parent } = *one;
        (identity.start_time, parent == other.identity.pid, identity.pid)
    };
    key(a, b) < key(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, survey::space::tests::open};
    use numaloc_core::{Identity, Threads};

    /// The address space of a pid in these tests.
    fn of(pid: i32) -> i32 {
        match pid {
            100..200 => 1,
            pid => pid % 7,
        }
    }

    #[test]
    fn sharing_processes_are_one_with_all_their_cpus() {
        let fake = Fake::new();
        let pids = [300, 150, 201, 100, 208, 120, 202];
        for (cpu, pid) in (0..).zip(pids) {
            fake.process(pid, "x", &[&format!("{cpu}")]);
        }
        let spaces = pids.map(|pid| open(&fake, pid).unwrap()).into();
        let mut spaces = joined(spaces, &|a, b| Ok(of(a.pid()).cmp(&of(b.pid()))));
        spaces.sort_by_key(AddressSpace::pid);
        let cpus = |space: &AddressSpace| (space.pid(), space.process.cpus.to_string());
        let expected = [(100, "1,3,5"), (201, "2,4"), (202, "0,6")].map(|(a, b)| (a, b.to_owned()));
        // 300 and 202 leave the same remainder when divided by 7.
        assert_eq!(spaces.iter().map(cpus).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_for_both_has_the_threads_of_both_and_the_nodes_that_both_may_use() {
        let fake = Fake::new();
        let space = |pid, cpus: [&str; 2], nodes: &str| {
            fake.process(pid, "x", &cpus);
            let mut space = open(&fake, pid).unwrap();
            let threads = |cpus: &str| Threads {
                mems_allowed: None,
                cpus: cpus.parse().expect("CPUs"),
                count: 1,
                ..Threads::default()
            };
            space.process.threads = cpus.map(threads).into();
            space.process.mems_allowed = nodes.parse().expect("nodes");
            space
        };
        let both = together(space(100, ["0", "4"], "0-1"), space(110, ["1", "5"], "1-2")).process;
        let cpus: Vec<String> = both.threads.iter().map(|some| some.cpus.to_string()).collect();
        assert_eq!((cpus.join(" "), both.mems_allowed.to_string()), ("0 4 1 5".into(), "1".into()));
    }

    #[test]
    fn what_cannot_be_compared_is_different_and_what_has_ended_is_left_out() {
        let fake = Fake::new();
        for pid in [1, 2, 3] {
            fake.process(pid, "x", &["0"]);
        }
        let spaces = [3, 1, 2].map(|pid| open(&fake, pid).unwrap()).into();
        fake.end(2, 2);
        let spaces = joined(spaces, &|_, _| Err(io::Error::from_raw_os_error(nix::libc::ESRCH)));
        assert_eq!(spaces.iter().map(AddressSpace::pid).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn the_parent_is_the_elder_whatever_its_pid() {
        let holder =
            |pid, start_time, parent| SpaceOwner { identity: Identity { pid, start_time }, parent };
        let (parent, child) = (holder(20, 5, 1), holder(10, 5, 20));
        assert!(is_elder(&parent, &child) && !is_elder(&child, &parent));
        let late = holder(10, 6, 1);
        assert!(is_elder(&parent, &late) && !is_elder(&late, &parent));
    }
}
