//! One migration, from a target to its outcome: the same steps for the command line, for the daemon and for the suites.
//!
//! [`Migration::on`] reads the host, [`Migration::plan`] finds and surveys the target. Of a [`PlannedMigration`], `exchange` takes in
//! the partners that make room, `run` moves, and `look_again` surveys the target after the run. The caller decides
//! only who may take part: that is its [`Party`].

use crate::{
    limits::{
        RunLimits,
        assignment::Assignment,
        control::Control,
        party::{Partners, Party, identities},
    },
    run::{exchange::execute_with, partners::InOrder, tier_ways::TierWays},
};
use numaloc_core::{
    Identity, OpenDevices, Options, Order, Outcome, Placement, Plan, Temperatures, Tiers, Topology,
    exchange, home,
};
use numaloc_host::{
    Error, NodeMemoryReader, Policies, Roots, Survey, Surveyor, heat, numa_balancing, open_devices,
    tiering, topology, traffic,
};
use std::{
    borrow::Cow,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A migration that is about to be planned.
#[derive(Debug)]
pub struct Migration<'a> {
    roots: &'a Roots,
    topology: Topology,
    memory: Option<NodeMemoryReader>,
    ways: Option<&'a TierWays>,
}

impl<'a> Migration<'a> {
    /// Reads the nodes of the host.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn on(roots: &'a Roots) -> Result<Self, Error> {
        let memory = NodeMemoryReader::new(roots)?;
        Ok(Self {
            roots,
            topology: topology::read_by(roots, &memory)?,
            memory: Some(memory),
            ways: None,
        })
    }

    /// As [`Self::on`], without the memory of the nodes: for a check before a plan.
    ///
    /// # Errors
    /// As [`Self::on`].
    pub fn without_memory(roots: &'a Roots) -> Result<Self, Error> {
        Ok(Self { roots, topology: topology::places(roots)?, memory: None, ways: None })
    }

    /// The same, where memory that has gone up and down by its use a short time ago rests.
    #[must_use]
    pub fn with_ways(self, ways: &'a TierWays) -> Self {
        Self { ways: Some(ways), ..self }
    }

    /// The nodes of the host.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Checks that memory can be moved on this host as `options` ask for.
    ///
    /// # Errors
    /// [`Error::BadNode`], [`Error::OneNode`], [`Error::NotCounted`], [`Error::NoDamon`].
    pub fn check(&self, options: &Options) -> Result<(), Error> {
        self.check_options(options)?;
        topology::check_several(&self.topology)
    }

    fn check_options(&self, options: &Options) -> Result<(), Error> {
        topology::check_options(self.roots, &self.topology, options)?;
        let by_traffic = options.relief.as_ref().filter(|relief| relief.measures_traffic());
        if let Some(relief) = by_traffic
            && !traffic::is_counted(self.roots, &self.topology, relief.node)
        {
            return Err(Error::NotCounted { node: relief.node.0 });
        }
        if let Some(tiers) = options.placement.by_use() {
            tiering::beside_kernel(self.roots, tiers)?;
            heat::check_watch(self.roots, tiers.watch)?;
        }
        // Measurements that were not asked for may be missing.
        match options.order {
            Order::Probed => Ok(()),
            order => heat::choose(self.roots, order).map(drop),
        }
    }

    /// Plans what `options` ask for of the party that `find` finds. `stop` ends its survey.
    ///
    /// # Errors
    /// The options name nodes or a way of measuring that this host does not have; [`Error::NoBandwidth`]; the party is not found, may
    /// not be surveyed, or has no process left.
    pub fn plan<P: Party>(
        self,
        options: &Options,
        policies: Policies<'_>,
        stop: &(dyn Fn() -> bool + Sync),
        find: impl FnOnce(&Topology) -> Result<P, P::Error>,
    ) -> Result<PlannedMigration<P>, P::Error> {
        self.check_options(options)?;
        let Self { roots, topology, memory, ways } = self;
        let options = options.on(&topology);
        let options =
            &options.map_err(|unknown| Error::NoBandwidth { nodes: unknown.0.to_string() })?;
        let mut party = find(&topology)?;
        let options = &*with_saturated(roots, &topology, options, stop);
        let surveyor = Surveyor { roots, topology: &topology, options, policies, stop };
        let (survey, plan) = match &options.placement {
            Placement::Tiers(tiers) => {
                // Policies decide what moves, not what is watched.
                let policies = Policies::Leave;
                let (survey, seen) = party.survey(Surveyor { policies, ..surveyor })?;
                let nodes = home::of_all(&topology, &seen.processes, options);
                let used = heat::watch(roots, &survey, &seen.extents, &nodes, tiers, stop)?;
                if stop() {
                    return Err(Error::Stopped.into());
                }
                let options = &tiers_seen(options, tiers, used, ways);
                // Much may have changed while the memory was watched.
                let (survey, seen) = party.survey(Surveyor { options, ..surveyor })?;
                (survey, seen.plan(&topology, options))
            }
            _ => {
                let (survey, seen) = party.survey(surveyor)?;
                let plan = seen.plan(&topology, options);
                (survey, plan.hottest_first(|| heat::choose(roots, options.order))?)
            }
        };
        let plan = with_surroundings(roots, plan);
        if plan.processes.is_empty() {
            return Err(Error::Empty { target: party.name() }.into());
        }
        let memory = memory.map_or_else(|| NodeMemoryReader::new(roots), Ok)?;
        let (roots, partners) = (roots.clone(), Partners::default());
        Ok(PlannedMigration { roots, topology, plan, survey, party, memory, partners })
    }
}

/// The options with the nodes that are used too much, where a request bounds that: it is measured for a second.
fn with_saturated<'o>(
    roots: &Roots,
    topology: &Topology,
    options: &'o Options,
    stop: &dyn Fn() -> bool,
) -> Cow<'o, Options> {
    match options.measures_traffic() {
        true => Cow::Owned(options.measured(&traffic::measure_nodes(roots, topology, stop))),
        false => Cow::Borrowed(options),
    }
}

/// The options with what was seen of the use of memory, and what rests.
fn tiers_seen(
    options: &Options,
    tiers: &Tiers,
    used: Temperatures,
    ways: Option<&TierWays>,
) -> Options {
    let resting = ways.map(|ways| ways.resting(tiers.cold_after)).unwrap_or_default();
    let seen = Some(Arc::new(used.with_resting(resting)));
    Options { placement: Placement::Tiers(Tiers { seen, ..tiers.clone() }), ..options.clone() }
}

/// A plan with what works against a placement on several nodes: the kernel's own balancing, and devices.
fn with_surroundings(roots: &Roots, plan: Plan) -> Plan {
    if !plan.options.is_wide() {
        return plan;
    }
    // Bit 0 moves pages to where they are touched (Documentation/admin-guide/sysctl/kernel.rst).
    let is_balancing =
        numa_balancing::read(roots).ok().flatten().is_some_and(|value| value & 1 != 0);
    let devices = (0..).zip(&plan.processes).filter(|(_, planned)| planned.skip.is_none());
    let devices = devices.map(|(process, planned)| {
        let paths = open_devices(roots, planned.process.identity.pid);
        OpenDevices { process, paths }
    });
    Plan {
        devices: devices.filter(|open| !open.paths.is_empty()).collect(),
        exposed_bytes: if is_balancing { plan.exposed_bytes } else { 0 },
        ..plan
    }
}

/// A planned migration, with the processes of its target held open.
#[derive(Debug)]
pub struct PlannedMigration<P> {
    /// Where the host's files are read.
    pub roots: Roots,
    /// The nodes and CPUs of the host.
    pub topology: Topology,
    /// The plan to carry out.
    pub plan: Plan,
    /// The survey that the plan was made from.
    pub survey: Survey,
    /// The processes whose memory is moved.
    pub party: P,
    memory: NodeMemoryReader,
    partners: Partners<P>,
}

impl<P: Party> PlannedMigration<P> {
    /// Has `partners` make room, except those with processes that the target has or a partner before them. Counts in the plan
    /// what will move by exchange. `stop` ends their surveys.
    pub fn exchange(&mut self, mut partners: Partners<P>, stop: &(dyn Fn() -> bool + Sync)) {
        let mut taken = identities(&self.party);
        let refused = partners.refused;
        partners.parties.retain(|party| {
            let is_apart = exchange::enlist(&mut taken, identities(party));
            if !is_apart {
                let why = "the target or another partner has processes of it, too";
                refused(&party.name(), why);
            }
            is_apart
        });
        self.partners = partners;
        if exchange::lacks_room(&self.plan) {
            let options = self.plan.options.clone();
            let (roots, topology, policies) = (&self.roots, &self.topology, Policies::AskBriefly);
            let surveyor = Surveyor { roots, topology, options: &options, policies, stop };
            InOrder::new(surveyor, &mut self.partners).expect(&mut self.plan);
        }
    }

    /// Looks up which processes outside the target map what stays for that reason ([`Survey::sharers`]).
    ///
    /// # Errors
    /// The errors of [`Survey::sharers`].
    pub fn find_sharers(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        may_see: impl Fn(Identity) -> bool,
    ) -> Result<(), Error> {
        self.plan.sharers = self.survey.sharers(&self.plan, stop, may_see)?;
        Ok(())
    }

    /// Looks up which files in memory processes of the target have open and have not mapped ([`Survey::held`]). `stop` ends it.
    ///
    /// # Errors
    /// The errors of [`Survey::held`].
    pub fn find_held(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        self.plan.held = self.survey.held(stop)?;
        Ok(())
    }

    /// Leaves the names of files out of the plan that processes have open or mapped which `may_see` refuses.
    pub fn leave_out_names(&mut self, may_see: impl Fn(Identity) -> bool) {
        let Plan { processes, held, devices, one_sided, sharers, .. } = &mut self.plan;
        // The name of a process takes reading its files, and most plans have no names.
        if held.is_empty() && devices.is_empty() && one_sided.is_empty() && sharers.is_none() {
            return;
        }
        let is_seen: Vec<bool> =
            processes.iter().map(|planned| may_see(planned.process.identity)).collect();
        held.retain(|file| is_seen[file.process]);
        devices.retain(|open| is_seen[open.process]);
        if is_seen.contains(&false) {
            one_sided.clear();
            let sharers = sharers.iter_mut().flat_map(|sharers| &mut sharers.processes);
            sharers.for_each(|sharer| sharer.name = "".into());
        }
    }

    /// The best-effort processes that exchange memory with the target.
    pub fn partners(&self) -> &[P] {
        &self.partners.parties
    }

    /// Carries the plan out. Blocks until the run is done, cancelled or out of time. Gives back the outcome, and those of the
    /// partners whose memory was moved.
    ///
    /// # Errors
    /// The run could not begin. Later failures are in the outcomes.
    pub fn run(
        &mut self,
        limits: &RunLimits,
        control: &Control,
    ) -> Result<(Outcome, Vec<Outcome>), Error> {
        let Self { roots, topology, plan, survey, memory, partners, .. } = self;
        let stop = || control.cancel.load(Relaxed);
        let (options, policies) = (&plan.options, Policies::Ask);
        let surveyor = Surveyor { roots, topology, options, policies, stop: &stop };
        let run = Assignment { roots, topology, memory, plan, survey, limits, control };
        execute_with(run, &mut InOrder::new(surveyor, partners))
    }

    /// Surveys the target again, with the processes that it has got since. `None`: no process is left. `stop` ends the survey.
    ///
    /// # Errors
    /// The processes cannot be surveyed; [`Error::Stopped`].
    pub fn look_again(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<Plan>, Error> {
        let Self { roots, topology, plan, survey, .. } = self;
        let (options, policies) = (&plan.options, survey.known());
        let surveyor = Surveyor { roots, topology, options, policies, stop };
        let (_survey, seen) =
            surveyor.survey(survey.processes_now(), survey.newcomers.arrivals())?;
        let again = seen.plan(topology, options);
        Ok((!again.processes.is_empty()).then_some(again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::NodeSet;
    use numaloc_host::{Resolved, Target, resolve};
    use parking_lot::Mutex;
    use std::process::{Child, Command, Stdio};

    /// A process that sleeps, until this is dropped.
    struct Asleep(Child);

    impl Asleep {
        fn new() -> Self {
            let mut command = Command::new("sleep");
            Self(command.arg("600").stdin(Stdio::null()).spawn().expect("coreutils"))
        }

        fn target(&self) -> Target {
            Target::Pid(self.0.id().try_into().expect("a pid"))
        }
    }

    impl Drop for Asleep {
        fn drop(&mut self) {
            self.0.kill().and_then(|()| self.0.wait()).expect("a child");
        }
    }

    fn plan(targets: &[Target], options: &Options) -> Result<PlannedMigration<Resolved>, Error> {
        let roots = Roots::default();
        let find = |topology: &Topology| resolve(&roots, targets, topology);
        Migration::on(&roots)?.plan(options, Policies::Leave, &|| false, find)
    }

    #[test]
    fn a_partner_that_has_a_process_of_the_target_makes_no_room_at_all() {
        static REFUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let (target, other) = (Asleep::new(), Asleep::new());
        let mut planned = plan(&[target.target()], &Options::default()).expect("it sleeps");
        let find = |targets: &[Target]| {
            resolve(&planned.roots, targets, &planned.topology).expect("they sleep")
        };
        let both = [other.target(), target.target()];
        let parties = vec![find(&both), find(&both[..1]), find(&both[..1])];
        let names: Vec<String> = parties.iter().map(Party::name).collect();
        let refused = |name: &str, _: &str| REFUSED.lock().push(name.to_owned());
        planned.exchange(Partners { parties, refused, ..Partners::default() }, &|| false);
        assert_eq!(planned.partners().len(), 1);
        assert_eq!(identities(&planned.partners()[0]).len(), 1);
        assert_eq!(*REFUSED.lock(), [&*names[0], &*names[2]]);
    }

    #[test]
    fn nodes_that_do_not_exist_are_refused_before_anything_is_looked_at() {
        let nowhere: Option<NodeSet> = "1023".parse().ok();
        let to = Options { to: nowhere.clone(), ..Options::default() };
        let from = Options { from: nowhere, ..Options::default() };
        for options in [to, from] {
            let refused = plan(&[Target::Pid(i32::MAX)], &options).expect_err("no such node");
            assert!(matches!(refused, Error::BadNode { node: 1023, .. }), "{refused}");
            let roots = Roots::default();
            let refused = Migration::without_memory(&roots).and_then(|it| it.check(&options));
            assert!(matches!(refused, Err(Error::BadNode { node: 1023, .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_target_that_ends_has_no_second_look() {
        let target = Asleep::new();
        let planned = plan(&[target.target()], &Options::default()).expect("it sleeps");
        drop(target);
        assert_eq!(planned.look_again(&|| false).expect("readable"), None);
    }
}
