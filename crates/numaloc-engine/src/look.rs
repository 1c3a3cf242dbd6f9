//! Looks at the memory of a target, and plans for it, without moving anything.

use crate::{Aim, Authority, Error, Local, Members, Offers, authority, files, partners};
use numaloc_api::value::{CachedFiles, FoundMember, Missing};
use numaloc_core::{
    CacheGoal, Identity, Options, Plan, Topology,
    live::CountedMemory,
    planner::{self, Scene},
};
use numaloc_executor::{Migration, Party, PlannedMigration};
use numaloc_host::{Error as HostError, Policies, Target, cache_goal, numa_stat, topology};

/// A look at the memory of a target on behalf of a caller.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The host.
    pub local: &'a Local,
    /// The target.
    pub aim: &'a Aim,
    /// Memory that may be moved, and where to.
    pub options: &'a Options,
    /// Owners whose memory the caller may have moved. Processes of any owner are scanned; names of files are shown for
    /// these alone.
    pub authority: &'a Authority,
    /// The extent to which memory policies are read.
    pub policies: Policies<'a>,
}

/// A target that was looked at.
#[derive(Debug)]
pub struct LookedAt {
    /// The machine around it.
    pub topology: Topology,
    /// The memory that would be moved.
    pub plan: Plan,
    /// Members that take no part, or not with all of their processes.
    pub missing: Vec<Missing>,
    /// Places where members were found that had to be looked up.
    pub found: Vec<FoundMember>,
    /// The kernel's counts for the cgroups that the target names, by path.
    pub cgroups: Vec<(String, CountedMemory)>,
    /// The page cache of the files that the target names. The plan is for no process then.
    pub files: Option<CachedFiles>,
}

impl Look<'_> {
    /// Finds where the memory of the target is. It is not an error if there is no target node, unless a node was named
    /// that does not exist.
    ///
    /// # Errors
    /// As [`Members::look`]; the host cannot be read, or `stop` is true.
    pub fn locality(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<LookedAt, Error> {
        if !self.aim.files.is_empty() {
            return self.files(self.local.topology()?, None, stop);
        }
        let cgroup = |target: &Target| match target {
            Target::Cgroup(path) => Some((path.clone(), numa_stat(&self.local.roots, path)?)),
            _ => None,
        };
        let mut seen = self.survey(stop, |_| Ok(()))?;
        seen.leave_out_names(|process| self.may_see(process));
        let named = self.aim.members.iter().map(|member| &member.target);
        Ok(LookedAt { cgroups: named.filter_map(cgroup).collect(), ..LookedAt::from(seen) })
    }

    /// Plans a migration. Processes that are offered may make room for it.
    ///
    /// # Errors
    /// As [`Self::locality`], and on a machine with only one node.
    pub fn plan(
        &self,
        offers: &Offers,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<LookedAt, Error> {
        if !self.aim.files.is_empty() {
            let topology = self.local.topology()?;
            let (_, goal) = cache_goal(&self.local.roots, &topology, self.options)?;
            return self.files(topology, Some(&goal), stop);
        }
        let mut planned = self.survey(stop, topology::check_several)?;
        partners::take_in(self.local, &mut planned, offers, self.authority, stop);
        planned.find_sharers(stop, |process| self.may_see(process))?;
        planned.leave_out_names(|process| self.may_see(process));
        Ok(planned.into())
    }

    /// Looks at files, whose cache belongs where `goal` says. Files of others are as if they did not exist.
    fn files(
        &self,
        topology: Topology,
        goal: Option<&CacheGoal>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<LookedAt, Error> {
        let Self { local, aim, options, authority, .. } = *self;
        let (seen, missing) = files::seen(local, &aim.files, goal, authority, stop)?;
        let (processes, nodes) = (&[], topology.with_memory());
        let scene = Scene { topology: &topology, processes, caller_mems: &nodes };
        let plan = planner::plan(scene, Vec::new(), options);
        let files = Some(seen);
        Ok(LookedAt { topology, plan, missing, found: Vec::new(), cgroups: Vec::new(), files })
    }

    /// Plans for members of any owner: a plan moves nothing. Once they are found, `check` tests whether the host is fit
    /// for it. A request that names mapped files may cover only processes that the caller may have moved: it may not
    /// read the maps of others.
    fn survey(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
        check: impl FnOnce(&Topology) -> Result<(), HostError>,
    ) -> Result<PlannedMigration<Members>, Error> {
        let Self { local, aim, options, authority, policies } = *self;
        let find = |topology: &Topology| {
            let members = Members::look(local, aim, topology, &Authority::All, stop)?;
            check(topology)?;
            // To watch how memory is used changes settings of the kernel.
            if !options.maps.is_empty() || options.placement.by_use().is_some() {
                authority::check(&local.roots, members.processes(), authority)?;
            }
            Ok::<_, Error>(members)
        };
        let mut planned = Migration::on(&local.roots)?.plan(options, policies, stop, find)?;
        planned.find_held(stop)?;
        Ok(planned)
    }

    fn may_see(&self, process: Identity) -> bool {
        authority::includes(&self.local.roots, process, self.authority)
    }
}

impl From<PlannedMigration<Members>> for LookedAt {
    fn from(PlannedMigration { topology, plan, party, .. }: PlannedMigration<Members>) -> Self {
        let (missing, found) = (party.missing(), party.found_at());
        Self { topology, plan, missing, found, cgroups: Vec::new(), files: None }
    }
}
