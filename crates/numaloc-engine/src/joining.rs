//! Processes that members of a target get while a job looks at them and moves their memory.

use crate::authority::{self, Authority};
use numaloc_core::{Identity, Process, Topology};
use numaloc_host::{Arrivals, Groups, Roots, Target};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// Processes of the members that are cgroups or units, as far as the authority of a job extends to them.
#[derive(Debug)]
pub struct Joining {
    roots: Roots,
    groups: Groups,
    authority: Authority,
    /// The processes found, by the index of the member among those of the aim.
    found: Mutex<BTreeMap<Identity, (usize, Process)>>,
}

impl Joining {
    /// The joining processes of an aim's members, by their targets in its order; `None`: no member gets processes.
    pub fn of(
        roots: &Roots,
        topology: &Topology,
        targets: &[Target],
        authority: &Authority,
    ) -> Option<Arc<Self>> {
        let groups = Groups::of(roots, topology, targets)?;
        let (roots, authority) = (roots.clone(), authority.clone());
        Some(Arc::new(Self { roots, groups, authority, found: Mutex::default() }))
    }

    /// The processes of `identities` that were found, with the index of their member.
    pub fn among(&self, identities: impl IntoIterator<Item = Identity>) -> Vec<(usize, Process)> {
        let found = self.found.lock();
        identities.into_iter().filter_map(|identity| found.get(&identity).cloned()).collect()
    }

    fn includes(&self, process: &Process) -> bool {
        authority::includes(&self.roots, process.identity, &self.authority)
    }
}

impl Arrivals for Joining {
    fn arrived(&self, is_known: &dyn Fn(i32) -> bool) -> Vec<Process> {
        let mut found = self.found.lock();
        // Processes found before that are still known are alive.
        found.retain(|identity, _| is_known(identity.pid));
        let mut arrived = BTreeMap::new();
        for (member, process) in self.groups.arrived_by_target(is_known) {
            if self.includes(&process) {
                found.entry(process.identity).or_insert_with(|| (member, process.clone()));
                arrived.insert(process.identity, process);
            }
        }
        arrived.into_values().collect()
    }

    /// Asked once its memory is held open: a process that becomes another user's by a later exec has other memory.
    fn admits(&self, process: &Process) -> bool {
        self.includes(process)
    }
}
