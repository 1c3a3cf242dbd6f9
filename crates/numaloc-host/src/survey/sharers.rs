//! Processes outside a target that map memory of it, which stays for that reason.

use crate::{
    Error,
    files::maps::{Object, Vma},
    processes::{cgroup, process::OpenProcess},
    survey::{
        Survey,
        mappers::{Asked, MapperSearch, OtherMapping},
        mounts::internal_device,
        vmas,
    },
};
use numaloc_core::{Identity, Plan, Sharer, Sharers, StaysShared};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashSet, btree_map::Entry},
    ops::Range,
    time::{Duration, Instant},
};

/// Most ranges that are looked up, the largest first.
const RANGES: usize = 64;
/// Most processes that are named.
const NAMED: usize = 16;
/// Longest time for which the maps of other processes are read.
const LONGEST: Duration = Duration::from_secs(2);

/// A range of memory that stays, and the pages of its object.
struct Stay {
    stays: StaysShared,
    object: Object,
    /// Bytes of the object.
    shown: Range<u64>,
    /// Whether private copies may be among its pages, which forked processes have in common.
    is_private: bool,
}

/// The most of one process: all bytes, and the range with most of them.
#[derive(Default)]
struct Share<'a> {
    bytes: u64,
    most: Option<&'a StaysShared>,
}

impl<'a> Share<'a> {
    fn add(&mut self, stays: &'a StaysShared) {
        self.bytes += stays.bytes;
        if self.most.is_none_or(|most| most.bytes < stays.bytes) {
            self.most = Some(stays);
        }
    }
}

impl Survey {
    /// The processes that map memory which stays in a plan of this survey because processes outside the target map it, too. Reads the
    /// maps of all processes, for two seconds at most. Names the processes that `may_see` admits, and counts all.
    /// `None`: no such memory exists, or not all processes could be looked at.
    ///
    /// # Errors
    /// [`Error::Stopped`], if `stop` returns true; the errors of reading the maps of the target.
    pub fn sharers(
        &self,
        plan: &Plan,
        stop: &(dyn Fn() -> bool + Sync),
        may_see: impl Fn(Identity) -> bool,
    ) -> Result<Option<Sharers>, Error> {
        let stays = self.stays(plan)?;
        let Some(Stay { stays: first, .. }) = stays.first() else { return Ok(None) };
        let roots = self.spaces[first.mapping.process].roots();
        let until = Instant::now() + LONGEST;
        let arrivals = self.newcomers.arrivals();
        let is_late = || stop() || Instant::now() > until;
        let search = MapperSearch {
            roots,
            spaces: &self.spaces,
            arrivals: arrivals.as_deref(),
            tells_shared_tables: self.page_access.tells_shared_tables,
            stop: &is_late,
        };
        let of = |stay: &Stay| self.spaces[stay.stays.mapping.process].layout();
        let asked = Asked {
            objects: stays.iter().map(|stay| stay.object).collect(),
            layouts: stays.iter().filter(|stay| stay.is_private).map(of).collect::<HashSet<_>>(),
            internal: internal_device(),
        };
        let others = match search.others(&asked) {
            Ok(Some(others)) => others,
            Err(Error::Stopped) if stop() => return Err(Error::Stopped),
            Ok(None) | Err(Error::Stopped) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut shares: BTreeMap<i32, Share<'_>> = BTreeMap::new();
        for stay in &stays {
            let maps_it = |other: &&OtherMapping| {
                other.object == stay.object
                    && other.bytes.start < stay.shown.end
                    && stay.shown.start < other.bytes.end
            };
            let mapping = others.mappings.iter().filter(maps_it).map(|other| other.pid);
            let kin = others.kin.iter().copied().filter(|_| stay.is_private);
            for pid in mapping.chain(kin).collect::<BTreeSet<_>>() {
                shares.entry(pid).or_default().add(&stay.stays);
            }
        }
        let mut largest: Vec<(i32, Share<'_>)> = shares.into_iter().collect();
        largest.sort_by_key(|(pid, share)| (Reverse(share.bytes), *pid));
        let count = largest.len();
        let sharer = |(pid, Share { bytes, most }): (i32, Share<'_>)| {
            let stat = OpenProcess::new(roots, pid).ok()?.stat().ok()?;
            Some(Sharer {
                identity: Identity { pid, start_time: stat.starttime },
                comm: stat.comm,
                cgroup: cgroup::of(roots, pid),
                bytes,
                name: most?.name.clone(),
            })
        };
        let processes = largest.into_iter().filter_map(sharer);
        let processes = processes.filter(|sharer| may_see(sharer.identity)).take(NAMED).collect();
        Ok(Some(Sharers { processes, count }))
    }

    /// The largest ranges that stay, and their objects.
    fn stays(&self, plan: &Plan) -> Result<Vec<Stay>, Error> {
        let mut largest: Vec<StaysShared> = plan.stays_shared().collect();
        largest.sort_by_key(|stays| Reverse(stays.bytes));
        largest.truncate(RANGES);
        let mut common = vmas::Common::default();
        let mut read: BTreeMap<usize, Vec<Vma>> = BTreeMap::new();
        let mut all = Vec::new();
        for stays in largest {
            let process = stays.mapping.process;
            let Some(space) = self.spaces.get(process) else { continue };
            let vmas = match read.entry(process) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(vmas::read_all(space, &mut common)?),
            };
            all.extend(stay(vmas, stays));
        }
        Ok(all)
    }
}

/// The range with its object; `None` if it is unmapped by now.
fn stay(vmas: &[Vma], stays: StaysShared) -> Option<Stay> {
    let start = stays.mapping.start;
    let vma = vmas.iter().find(|vma| (vma.start..vma.end).contains(&start))?;
    let shown = vma.offset + (start - vma.start)..vma.offset + (vma.end - vma.start);
    Some(Stay { stays, object: vma.object, shown, is_private: !vma.shared })
}
