//! A live view of the host: nodes, workloads and processes with the nodes that their memory is on.
//!
//! Nodes and the traffic of the host are read at each [`Live::refresh`]. All else is read in rotation ([`numaloc_core::rotation`]), as far as a budget of CPU
//! time goes: stat files, the page maps of processes, window by window, and memory.numa_stat of cgroups. None of these stops the
//! process that is looked at for longer than a read of 32 KiB of its page map; numa_maps would, because the kernel walks a whole
//! mapping for it (fs/proc/task_mmu.c, `show_numa_map`). So what is shown has an age.

mod groups;
mod look;
mod nodes;
mod processes;
mod stat;
#[cfg(test)]
mod tests;
mod threads;
mod traffic;

use crate::{Error, PageAccess, Precision, Roots, Scanner, processes::group_names::GroupNames};
use groups::GroupReadings;
use look::{NoLook, PageLook};
use nodes::NodeReader;
use numaloc_core::{
    Identity, NEAR, Topology,
    live::{Detail, Seen, Snapshot},
    rotation::{Budget, order},
};
use processes::{LastLook, Processes};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    sync::Arc,
    time::Duration,
};
use threads::{ThreadUses, migrated_pages};
use traffic::TrafficReader;

/// The kinds of work that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RotationWork {
    Stats,
    Looks,
    Groups,
    Threads,
}

impl RotationWork {
    const ALL: [Self; 4] = [Self::Stats, Self::Looks, Self::Groups, Self::Threads];
}

/// CPU time for processes that must not wait for their turn, beyond the budget, in percent of one CPU. A look at 64 GiB of
/// base pages takes some ten seconds then.
const URGENT_PERCENT: f64 = 25.0;

/// The host under a live view. Times are counted from any one moment, by the caller's clock.
#[derive(Debug)]
pub struct Live {
    roots: Arc<Roots>,
    topology: Topology,
    scanner: Scanner,
    can_scan: bool,
    budget: Budget,
    /// Shortest time between two looks.
    pause: Duration,
    nodes: NodeReader,
    traffic: TrafficReader,
    processes: Processes,
    groups: GroupReadings,
    names: GroupNames,
    /// The processes that are watched closely.
    watched: BTreeMap<Identity, ThreadUses>,
    /// The next stats to read, in order, since the last refresh.
    stats: VecDeque<i32>,
    looks: VecDeque<Identity>,
    paths: VecDeque<String>,
    threads: VecDeque<Identity>,
    look: Option<PageLook>,
    /// A look that is continued when no urgent one is left.
    set_aside: Option<PageLook>,
    /// Processes that somebody has opened, or whose memory has moved, since they were last looked at.
    urgent: BTreeSet<Identity>,
    /// Pays for these once [`Live::budget`] is used up.
    urgent_budget: Budget,
    /// As [`Live::moved`] was called last.
    moved: BTreeMap<Identity, u64>,
    /// Time used for each kind of work since the last refresh.
    shares: [Duration; 4],
    used: Duration,
}

impl Live {
    /// A view of the host that uses this share of one CPU, in percent, and looks at nothing more often than each `pause`.
    ///
    /// # Errors
    /// As [`crate::nodes::topology::topology`] and [`PageAccess::new`].
    pub fn new(
        roots: &Roots,
        topology: Topology,
        budget_percent: f64,
        pause: Duration,
        now: Duration,
    ) -> Result<Self, Error> {
        // The view's facts on one process are older or younger than those on another, so each counts its merged pages.
        let page_access = PageAccess { merged: None, ..PageAccess::new(roots)? };
        Ok(Self {
            scanner: Scanner::new(roots, &page_access, Precision::Sampled),
            can_scan: page_access.can_scan,
            roots: Arc::new(roots.clone()),
            traffic: TrafficReader::new(roots, &topology),
            topology,
            budget: Budget::new(budget_percent, now),
            pause,
            nodes: NodeReader::new(roots)?,
            processes: Processes::default(),
            groups: GroupReadings::default(),
            names: GroupNames::default(),
            watched: BTreeMap::new(),
            stats: VecDeque::new(),
            looks: VecDeque::new(),
            paths: VecDeque::new(),
            threads: VecDeque::new(),
            look: None,
            set_aside: None,
            urgent: BTreeSet::new(),
            urgent_budget: Budget::new(URGENT_PERCENT, now),
            moved: BTreeMap::new(),
            shares: [Duration::ZERO; 4],
            used: Duration::ZERO,
        })
    }

    /// Watches these processes closely, and no others: their threads are read after each refresh, their pages are looked at before
    /// all others', and their mappings are kept.
    pub fn watch(&mut self, processes: &BTreeSet<Identity>) {
        let left = self.watched.keys().filter(|process| !processes.contains(*process));
        for process in left.copied().collect::<Vec<_>>() {
            self.watched.remove(&process);
            let known = self.processes.get_mut(process);
            let pages = known.and_then(|known| known.pages.as_mut());
            pages.into_iter().for_each(|pages| pages.mappings.clear());
        }
        for &process in processes {
            if let Entry::Vacant(slot) = self.watched.entry(process) {
                slot.insert(ThreadUses::default());
                self.threads.push_front(process);
                self.look_first(process);
            }
        }
    }

    /// Bytes that migrations which have ended have moved of each process, since the view began. A process of which that has
    /// changed is looked at before all others.
    pub fn moved(&mut self, moved: BTreeMap<Identity, u64>) {
        let changed =
            moved.iter().filter(|(process, bytes)| self.moved.get(process) != Some(bytes));
        for process in changed.map(|(process, _)| *process).collect::<Vec<_>>() {
            self.look_first(process);
        }
        self.moved = moved;
    }

    /// Looks at a process from its beginning, as the next one.
    fn look_first(&mut self, process: Identity) {
        self.urgent.insert(process);
        // What such a look has read is of before.
        self.look.take_if(|look| look.identity == process);
        self.set_aside.take_if(|look| look.identity == process);
        self.looks.retain(|other| *other != process);
        self.looks.push_front(process);
    }

    /// Reads nodes, and which processes there are; after that, what was read before this may be read again.
    pub fn refresh(&mut self, clock: &dyn Fn() -> Duration) {
        let now = clock();
        self.traffic.read(&self.roots, now);
        self.nodes.read(&self.roots, &self.topology, now);
        for (node, traffic) in self.traffic.by_node(&self.topology) {
            let node = self.nodes.now.iter_mut().find(|each| each.id == node);
            node.into_iter().for_each(|node| node.traffic = Some(traffic));
        }
        self.processes.list(&self.roots);
        self.threads = self.watched.keys().copied().collect();
        self.shares = [Duration::ZERO; 4];
        // A round that the budget has cut short continues where it was: those at its end would never have their turn.
        if self.stats.is_empty() {
            self.stats = order(self.processes.to_read(now), self.pause).into();
        }
        self.arrange(now);
        let used = clock().saturating_sub(now);
        self.budget.spend(used);
        self.used += used;
    }

    /// Puts what is to be looked at in order.
    fn arrange(&mut self, now: Duration) {
        self.looks = order(self.processes.to_look_at(now), self.pause).into();
        for &first in self.watched.keys().chain(&self.urgent) {
            self.looks.retain(|other| *other != first);
            self.looks.push_front(first);
        }
        let cgroups = self.processes.cgroups();
        self.groups.keep(&cgroups);
        self.names.keep(&self.roots, &cgroups, now);
        let due = order(self.groups.candidates(now), self.pause);
        self.paths = due.into_iter().map(str::to_owned).collect();
    }

    /// Reads on as far as the budgets go.
    pub fn work(&mut self, clock: &dyn Fn() -> Duration) {
        let mut at = clock();
        self.budget.earn(at);
        self.urgent_budget.earn(at);
        loop {
            let is_within = self.budget.is_left();
            let work = match is_within {
                true => self.least_served(),
                false if self.urgent_budget.is_left() => self.urgent_work(),
                false => None,
            };
            let Some(work) = work else { break };
            self.step(work, at);
            let now = clock();
            let used = now.saturating_sub(at);
            self.shares[work as usize] += used;
            self.used += used;
            let budget = if is_within { &mut self.budget } else { &mut self.urgent_budget };
            budget.spend(used);
            at = now;
        }
    }

    /// The kind of work that has had least of the time.
    fn least_served(&self) -> Option<RotationWork> {
        let waiting = RotationWork::ALL.into_iter().filter(|&work| self.has(work));
        waiting.min_by_key(|&work| self.shares[work as usize])
    }

    /// The kind of work that an urgent process waits for.
    fn urgent_work(&self) -> Option<RotationWork> {
        let is_urgent =
            |process: Option<&Identity>| process.is_some_and(|it| self.urgent.contains(it));
        let under_way = self.look.as_ref().map(|look| &look.identity);
        if is_urgent(self.threads.front()) {
            return Some(RotationWork::Threads);
        }
        let has_look = is_urgent(under_way) || is_urgent(self.looks.front());
        has_look.then_some(RotationWork::Looks)
    }

    /// Whether all has been read that was due at the last refresh.
    pub fn is_idle(&self) -> bool {
        !RotationWork::ALL.into_iter().any(|work| self.has(work))
    }

    fn has(&self, work: RotationWork) -> bool {
        match work {
            RotationWork::Stats => !self.stats.is_empty(),
            RotationWork::Looks => {
                self.look.is_some() || self.set_aside.is_some() || !self.looks.is_empty()
            }
            RotationWork::Groups => !self.paths.is_empty(),
            RotationWork::Threads => !self.threads.is_empty(),
        }
    }

    fn step(&mut self, work: RotationWork, now: Duration) {
        match work {
            RotationWork::Stats => {
                let Some(pid) = self.stats.pop_front() else { return };
                self.processes.read(&self.roots, &self.topology, pid, now);
                if self.stats.is_empty() && self.looks.is_empty() && self.paths.is_empty() {
                    self.arrange(now);
                }
            }
            RotationWork::Looks => self.look_on(now),
            RotationWork::Groups => {
                let Some(path) = self.paths.pop_front() else { return };
                // If it has been removed or renamed, its processes say where they are now.
                let own = self.traffic.own_group(&path, |pid| self.processes.cgroup_of(pid));
                if self.groups.read(&self.roots, &path, own, now) {
                    for pid in self.processes.within(&path) {
                        self.processes.find_cgroup(&self.roots, pid);
                    }
                }
            }
            RotationWork::Threads => {
                let Some(process) = self.threads.pop_front() else { return };
                if let Some(threads) = self.watched.get_mut(&process) {
                    threads.read(&self.roots, &self.topology, process, now);
                }
            }
        }
    }

    /// Continues the look that is under way, or begins the next one.
    fn look_on(&mut self, now: Duration) {
        let is_urgent = |process: &Identity| self.urgent.contains(process);
        let has_urgent = self.looks.front().is_some_and(is_urgent);
        match has_urgent {
            true if self.set_aside.is_none() => {
                self.set_aside = self.look.take_if(|look| !is_urgent(&look.identity));
            }
            false if self.look.is_none() => self.look = self.set_aside.take(),
            _ => {}
        }
        let Some(mut look) = self.look.take() else {
            let Some(identity) = self.looks.pop_front() else { return };
            match PageLook::begin(&self.roots, &self.topology, identity, self.can_scan) {
                Ok(look) => self.look = Some(look),
                Err(why) => self.not_seen(identity, &why, now),
            }
            return;
        };
        match look.advance(&mut self.scanner) {
            Ok(false) => self.look = Some(look),
            Ok(true) => self.seen(look, now),
            Err(why) => self.not_seen(look.identity, &why, now),
        }
    }

    /// An urgent look is done. A refresh meanwhile has put the process first once more.
    fn looked_at(&mut self, process: Identity) {
        if self.urgent.remove(&process) {
            self.looks.retain(|other| *other != process);
        }
    }

    fn seen(&mut self, look: PageLook, now: Duration) {
        let identity = look.identity;
        self.looked_at(identity);
        self.processes.find_cgroup(&self.roots, identity.pid);
        let is_watched = self.watched.contains_key(&identity);
        let near = self.topology().near(&look.home, NEAR);
        let Some(known) = self.processes.get_mut(identity) else { return };
        let pid = identity.pid;
        known.pages = Some(LastLook {
            at: now,
            nodes: Some(look.nodes()),
            unplaced_bytes: look.unplaced_bytes,
            kernel_migrated_pages: migrated_pages(&self.roots, pid, known.threads),
            attached: look.attached,
            mappings: if is_watched { look.mappings } else { Vec::new() },
        });
        (known.home, known.near) = (look.home, near);
    }

    /// A process that cannot be looked at counts as looked at, or no pass would ever be full. If it has ended, the next
    /// stat shows that.
    fn not_seen(&mut self, identity: Identity, why: &NoLook, now: Duration) {
        self.looked_at(identity);
        if let Some(known) = self.processes.get_mut(identity) {
            known.pages = Some(LastLook {
                at: now,
                nodes: match why {
                    NoLook::Hidden => None,
                    NoLook::Gone => Some(BTreeMap::new()),
                },
                unplaced_bytes: 0,
                kernel_migrated_pages: None,
                attached: Default::default(),
                mappings: Vec::new(),
            });
        }
    }

    /// The facts that are known by now.
    pub fn snapshot(&self, now: Duration) -> Snapshot {
        let processes = self.processes.now(now);
        let count = |seen: fn(&Seen) -> bool| {
            processes.iter().filter(|process| seen(&process.seen)).count()
        };
        Snapshot {
            nodes: self.nodes.now.clone(),
            traffic: self.traffic.of_host(),
            groups: self.groups.now(&self.processes.attached(), &self.names, now),
            details: self.details(),
            unseen: count(|seen| *seen == Seen::Never) + self.processes.unread(),
            hidden: count(|seen| *seen == Seen::Hidden),
            used: self.used,
            processes,
        }
    }

    /// The processes that are watched closely, without ended ones.
    fn details(&self) -> Vec<Detail> {
        let detail = |(&identity, threads): (&Identity, &ThreadUses)| {
            let known = self.processes.get(identity)?;
            let mappings = known.pages.as_ref().map(|pages| pages.mappings.clone());
            let threads = threads.now.clone();
            Some(Detail { identity, threads, mappings: mappings.unwrap_or_default() })
        };
        self.watched.iter().filter_map(detail).collect()
    }

    /// The nodes with their CPUs and distances.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
}
