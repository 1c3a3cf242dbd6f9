//! The members of a target, each judged by itself: who they are, why one takes no part, and what became of each.

use super::{Aim, authority};
use crate::{access::Authority, dispatch::Refusal};
use numaloc_api::value::{FailedProcess, MemberResult, MemberState, Missing, Target};
use numaloc_core::{
    Identity, Locality, NodeSet, Options, Outcome, Plan, PlannedProcess, Process, ProcessOutcome,
    Skip, Topology, planner,
};
use numaloc_host::{Error, Policies, Roots, Survey, resolve_each, survey_unless};
use std::collections::{BTreeMap, BTreeSet};

/// The members of a target as they were found.
#[derive(Debug)]
pub struct Members {
    judged: Vec<Judged>,
    /// What was known to be missing before anybody has looked.
    missing: Vec<Missing>,
    /// By pid.
    processes: BTreeMap<i32, Process>,
}

/// A member, and its processes or why it takes no part.
#[derive(Debug)]
struct Judged {
    name: Target,
    found: Result<BTreeSet<Identity>, Refusal>,
}

impl Members {
    /// These processes, each a member by its pid.
    #[cfg(test)]
    pub fn of(processes: Vec<Process>) -> Self {
        let judged = processes.iter().map(|process| Judged {
            name: Target { pids: [process.identity.pid].into(), ..Target::default() },
            found: Ok([process.identity].into()),
        });
        let judged = judged.collect();
        let processes = processes.into_iter().map(|process| (process.identity.pid, process));
        Self { judged, missing: Vec::new(), processes: processes.collect() }
    }

    /// Looks who is there and may be moved by `authority`.
    ///
    /// # Errors
    /// None takes part: why the first that is there does not, else why the first is not there. The host cannot be read.
    pub fn look(
        roots: &Roots,
        aim: &Aim,
        topology: &Topology,
        authority: &Authority,
    ) -> Result<Self, Refusal> {
        if let (true, Some(Missing { reason, .. })) = (aim.members.is_empty(), aim.missing.first())
        {
            return Err(Refusal::TargetNotFound { message: reason.clone() });
        }
        let targets: Vec<_> = aim.members.iter().map(|member| member.target.clone()).collect();
        let (mut judged, mut processes) = (Vec::new(), BTreeMap::new());
        for (member, found) in aim.members.iter().zip(resolve_each(roots, &targets, topology)) {
            let found = match found {
                Ok(found) => own(authority::check(roots, &found, authority))?.map(|()| found),
                Err(error) if error.is_of_target() => Err(error.into()),
                Err(error) => return Err(error.into()),
            };
            let found = found.map(|found| {
                let identities = found.iter().map(|process| process.identity).collect();
                processes.extend(found.into_iter().map(|process| (process.identity.pid, process)));
                identities
            });
            judged.push(Judged { name: member.name.clone(), found });
        }
        let members = Self { judged, missing: aim.missing.clone(), processes };
        members.check()?;
        Ok(members)
    }

    /// Surveys those that take part. One that turns out not to be readable, or to be somebody else's by now, does not.
    ///
    /// # Errors
    /// As of [`Self::look`]; what [`survey_unless`] says of all of them.
    pub fn survey(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        policies: Policies<'_>,
        (roots, topology): (&Roots, &Topology),
        options: &Options,
        authority: &Authority,
    ) -> Result<Survey, Refusal> {
        loop {
            match survey_unless(stop, policies, roots, topology, self.processes(), options) {
                // Again, now that the processes are held open: one that has become somebody else's by an exec since then
                // has other memory than what is held, and is not touched.
                Ok(survey) if self.leave_to_others(roots, &survey, authority)? => {}
                Ok(survey) => return Ok(survey),
                Err(error @ Error::NoRights { pid, .. }) => {
                    let refusal = Refusal::from(error);
                    if !self.leave_out(pid, &refusal) {
                        return Err(refusal);
                    }
                }
                Err(error) => return Err(error.into()),
            }
            self.check()?;
        }
    }

    /// Leaves out what `authority` does not extend to by now; says whether there is any.
    fn leave_to_others(
        &mut self,
        roots: &Roots,
        survey: &Survey,
        authority: &Authority,
    ) -> Result<bool, Refusal> {
        let mut any = false;
        for process in survey.processes() {
            if let Err(refusal) = own(authority::check(roots, [&process], authority))? {
                if !self.leave_out(process.identity.pid, &refusal) {
                    return Err(refusal);
                }
                any = true;
            }
        }
        Ok(any)
    }

    /// Leaves out the members with a process; says whether there is any.
    fn leave_out(&mut self, pid: i32, why: &Refusal) -> bool {
        let mut any = false;
        for judged in &mut self.judged {
            let found = judged.found.as_ref();
            if found.is_ok_and(|found| found.iter().any(|identity| identity.pid == pid)) {
                judged.found = Err(why.clone());
                any = true;
            }
        }
        any
    }

    /// Whether any takes part.
    fn check(&self) -> Result<(), Refusal> {
        let refusals = || self.judged.iter().filter_map(|judged| judged.found.as_ref().err());
        if refusals().count() < self.judged.len() {
            return Ok(());
        }
        let first = refusals().find(|refusal| state(refusal) == MemberState::Refused);
        first.or(refusals().next()).map_or(Ok(()), |refusal| Err(refusal.clone()))
    }

    /// The processes of those that take part, each once, in ascending order of pid.
    pub fn processes(&self) -> Vec<Process> {
        let taking: BTreeSet<&Identity> =
            self.judged.iter().flat_map(|judged| &judged.found).flatten().collect();
        let processes = self.processes.values();
        processes.filter(|process| taking.contains(&process.identity)).cloned().collect()
    }

    /// Those that take no part.
    pub fn missing(&self) -> Vec<Missing> {
        let left_out = self.judged.iter().filter_map(|judged| {
            let reason = judged.found.as_ref().err()?.to_string();
            Some(Missing { member: judged.name.clone(), reason })
        });
        self.missing.iter().cloned().chain(left_out).collect()
    }

    /// What is known of them before anybody has looked at their memory.
    pub fn found(&self, topology: &Topology, options: &Options) -> Vec<MemberResult> {
        self.results(|identities| {
            let all = identities.iter().filter_map(|identity| self.processes.get(&identity.pid));
            let homes: Vec<_> =
                all.map(|process| planner::home(topology, process, options)).collect();
            let skips = homes.iter().map(|home| planner::skip(topology, home));
            MemberResult {
                reason: all_skipped(skips).map(reason).unwrap_or_default(),
                home: homes.iter().fold(NodeSet::new(), |all, home| all.or(home)),
                ..MemberResult::default()
            }
        })
    }

    /// What is known of them before anything is moved. Where nothing will be, that is what became of them.
    pub fn planned(&self, plan: &Plan, moves_nothing: bool) -> Vec<MemberResult> {
        let places = places(plan);
        let results = self.results(|identities| before(plan, &at(&places, identities)));
        if !moves_nothing {
            return results;
        }
        let mut stays: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for skipped in &plan.skipped {
            let left = (skipped.reason, skipped.remote_bytes);
            stays.entry(skipped.mapping.process).or_default().push(left);
        }
        let settled = self.results(|identities| {
            let at = at(&places, identities);
            let mut result = before(plan, &at);
            for &(reason, bytes) in at.iter().filter_map(|index| stays.get(index)).flatten() {
                result.account.found(bytes);
                result.account.left(reason, bytes);
            }
            result.after = result.before;
            result
        });
        ended(settled, plan)
    }

    /// What became of them by a run, and where a look at them afterwards found them.
    pub fn ended(&self, plan: &Plan, outcome: &Outcome, after: Option<&Plan>) -> Vec<MemberResult> {
        let (places, places_after) = (places(plan), after.map(places).unwrap_or_default());
        let results = self.results(|identities| {
            let at_first = at(&places, identities);
            let mut result = before(plan, &at_first);
            for &index in &at_first {
                let Some(process) = outcome.processes.get(index) else { continue };
                result.account.add(&process.account);
                result.failed.extend(failed(process));
                for (&flow, bytes) in outcome.process_flows.get(index).into_iter().flatten() {
                    *result.flows.entry(flow).or_default() += bytes;
                }
            }
            result.failed.truncate(MemberResult::FAILED);
            let at_last = at(&places_after, identities);
            result.after =
                after.filter(|_| !at_last.is_empty()).map(|plan| locality(plan, &at_last));
            result
        });
        ended(results, plan)
    }

    /// One for each member: for those that take part, what `of` says of their processes.
    fn results(&self, of: impl Fn(&BTreeSet<Identity>) -> MemberResult) -> Vec<MemberResult> {
        let missing = self.missing.iter().map(|Missing { member, reason }| {
            MemberResult::left_out(member.clone(), MemberState::Missing, reason.clone())
        });
        let judged = self.judged.iter().map(|Judged { name, found }| match found {
            Ok(identities) => {
                let (member, processes) = (name.clone(), identities.len());
                MemberResult { member, processes, ..of(identities) }
            }
            Err(refusal) => {
                MemberResult::left_out(name.clone(), state(refusal), refusal.to_string())
            }
        });
        missing.chain(judged).collect()
    }
}

/// Where the processes of a plan are in it.
fn places(plan: &Plan) -> BTreeMap<Identity, usize> {
    let processes = plan.processes.iter().enumerate();
    processes.map(|(index, planned)| (planned.process.identity, index)).collect()
}

fn at(places: &BTreeMap<Identity, usize>, identities: &BTreeSet<Identity>) -> Vec<usize> {
    identities.iter().filter_map(|identity| places.get(identity).copied()).collect()
}

/// What a plan says of some processes.
fn before(plan: &Plan, at: &[usize]) -> MemberResult {
    if at.is_empty() {
        let why = "its processes have ended, or have no memory that is not that of others";
        return MemberResult::left_out(Target::default(), MemberState::Missing, why.to_owned());
    }
    let planned = || at.iter().filter_map(|&index| plan.processes.get(index));
    let mut remote = BTreeMap::new();
    for (&node, bytes) in planned().flat_map(|planned| &planned.remote) {
        *remote.entry(node).or_default() += bytes;
    }
    MemberResult {
        reason: all_skipped(planned().map(|planned| planned.skip)).map(reason).unwrap_or_default(),
        home: planned().fold(NodeSet::new(), |all, planned| all.or(&planned.home)),
        remote,
        before: Some(locality(plan, at)),
        ..MemberResult::default()
    }
}

fn locality(plan: &Plan, at: &[usize]) -> Locality {
    let planned = at.iter().filter_map(|&index| plan.processes.get(index));
    planned.fold(Locality::default(), |mut sum, PlannedProcess { counted, .. }| {
        sum.add(*counted);
        sum
    })
}

fn ended(results: Vec<MemberResult>, plan: &Plan) -> Vec<MemberResult> {
    let target_ratio = plan.options.target_ratio;
    results.into_iter().map(|result| result.settled(target_ratio)).collect()
}

fn failed(process: &ProcessOutcome) -> Option<FailedProcess> {
    let (identity, comm) = (process.identity, process.comm.clone());
    Some(FailedProcess { identity, comm, error: process.error.clone()? })
}

/// Why nothing of some processes is moved, if nothing of any is.
fn all_skipped(skips: impl Iterator<Item = Option<Skip>>) -> Option<Skip> {
    let skips: Option<Vec<Skip>> = skips.collect();
    skips?.first().copied()
}

fn reason(skip: Skip) -> String {
    let what = match skip {
        Skip::NoTargetNode => {
            "its memory is at home on every node: pin it to the CPUs of some, or name nodes"
        }
        Skip::NoLocalMemory => "none of its CPUs is online on a node with memory",
    };
    format!("{}: {what}", skip.message())
}

/// How a member fares that takes no part for this reason.
fn state(refusal: &Refusal) -> MemberState {
    match refusal {
        Refusal::TargetNotFound { .. } | Refusal::TargetEmpty { .. } => MemberState::Missing,
        _ => MemberState::Refused,
    }
}

/// A refusal of the member that was looked at is its own; all else is everybody's.
fn own(checked: Result<(), Refusal>) -> Result<Result<(), Refusal>, Refusal> {
    match checked {
        Err(refusal) if !matches!(refusal, Refusal::NotPermitted { .. }) => Err(refusal),
        checked => Ok(checked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{
        Account, Extent, Kind, Mapping, Mempolicy, Node, NodeId, NodeMemory, NodeResidency, Pages,
        Reason, Residency, planner::Scene,
    };

    const MIB: u64 = 1 << 20;

    fn topology() -> Topology {
        let memory =
            NodeMemory { total_bytes: 1 << 30, free_bytes: 1 << 30, ..NodeMemory::default() };
        let node = |id, cpus: &str| Node {
            id: NodeId(id),
            cpus: cpus.parse().expect("a list"),
            memory: memory.clone(),
        };
        Topology::new([node(0, "0-3"), node(1, "4-7")], [])
    }

    fn process(pid: i32, cpus: &str) -> Process {
        Process {
            identity: Identity { pid, start_time: 1 },
            comm: "a".to_owned(),
            cpus: cpus.parse().expect("a list"),
            threads: Vec::new(),
            mems_allowed: topology().ids(),
        }
    }

    /// So many MiB on node 0 and node 1, of a process by its index.
    fn extent(process: usize, mib: [u64; 2]) -> Extent {
        let on = |(node, mib): (u32, u64)| {
            (NodeId(node), NodeResidency { owned_bytes: mib * MIB, ..NodeResidency::default() })
        };
        let nodes = (0..).zip(mib).filter(|(_, mib)| *mib > 0).map(on).collect();
        Extent {
            mappings: vec![Mapping { process, start: 1 << 30 }],
            pages: Pages::All,
            bytes: 64 * MIB,
            kind: Kind::Anonymous,
            policy: Mempolicy::Default,
            hugetlb_bytes: None,
            name: "".into(),
            residency: Residency { nodes, ..Residency::default() },
        }
    }

    fn plan(members: &Members, extents: Vec<Extent>) -> Plan {
        let (topology, processes) = (topology(), members.processes());
        let caller_mems = &topology.ids();
        let scene = Scene { topology: &topology, processes: &processes, caller_mems };
        planner::plan(scene, extents, &Options::default())
    }

    fn refused() -> Refusal {
        Refusal::NotPermitted { message: "not yours".to_owned() }
    }

    /// 7 on node 0, 8 on all CPUs, and 9 which is somebody else's.
    fn members() -> Members {
        let pinned = [process(7, "0-3"), process(8, "0-7"), process(9, "0-3")];
        let mut members = Members::of(pinned.into());
        members.missing.push(Missing { member: Target::cgroup("/x"), reason: "gone".to_owned() });
        assert!(members.leave_out(9, &refused()) && !members.leave_out(10, &refused()));
        members
    }

    fn names(results: &[MemberResult]) -> Vec<(String, MemberState)> {
        results.iter().map(|result| (result.member.to_string(), result.state)).collect()
    }

    fn named(states: [MemberState; 4]) -> Vec<(String, MemberState)> {
        let members = ["cgroup /x", "process 7", "process 8", "process 9"].map(str::to_owned);
        members.into_iter().zip(states).collect()
    }

    #[test]
    fn one_that_takes_no_part_holds_up_no_other() {
        use MemberState::{Missing, Refused, Waiting};
        let mut members = members();
        let pids: Vec<i32> =
            members.processes().iter().map(|process| process.identity.pid).collect();
        assert_eq!(pids, [7, 8]);
        members.check().expect("two take part");
        let found = members.found(&topology(), &Options::default());
        assert_eq!(names(&found), named([Missing, Waiting, Waiting, Refused]));
        assert_eq!(found[1].home, "0".parse().expect("a list"));
        assert!(found[2].reason.starts_with("no target node: "), "{found:?}");
        assert_eq!(found[3].reason, "not yours");
        let told: Vec<_> =
            members.missing().iter().map(|missing| missing.member.to_string()).collect();
        assert_eq!(told, ["cgroup /x", "process 9"]);
        // Without any the one that is there says why.
        let gone = Refusal::TargetEmpty { message: "gone".to_owned() };
        assert!(members.leave_out(7, &gone) && members.leave_out(8, &gone));
        assert_eq!(members.check(), Err(refused()));
    }

    #[test]
    fn each_member_has_its_own_result() {
        use MemberState::{Missing, Refused, Skipped, Succeeded, Waiting};
        let members = members();
        let before = plan(&members, vec![extent(0, [1, 3]), extent(1, [1, 1])]);
        let planned = members.planned(&before, false);
        assert_eq!(names(&planned), named([Missing, Waiting, Waiting, Refused]));
        assert_eq!(planned[1].remote, [(NodeId(1), 3 * MIB)].into());
        assert_eq!(planned[1].before.expect("a look").movable.percent(), 25.0);
        assert_eq!((&planned[1].home, planned[1].processes), (&"0".parse().unwrap(), 1));

        let mut account = Account::default();
        account.found(3 * MIB);
        account.moved(2 * MIB);
        account.left(Reason::Shared, MIB);
        let flow = (NodeId(1), NodeId(0));
        let outcome = |pid, account, error: Option<&str>| ProcessOutcome {
            identity: Identity { pid, start_time: 1 },
            comm: "a".to_owned(),
            account,
            error: error.map(str::to_owned),
        };
        let processes =
            vec![outcome(7, account, Some("refused")), outcome(8, Account::default(), None)];
        let process_flows = vec![[(flow, 2 * MIB)].into(), [].into()];
        let outcome = Outcome { processes, process_flows, ..Outcome::default() };
        let after = plan(&members, vec![extent(0, [4, 0]), extent(1, [1, 1])]);
        let ended = members.ended(&before, &outcome, Some(&after));
        assert_eq!(names(&ended), named([Missing, Succeeded, Skipped, Refused]));
        assert_eq!((&ended[1].flows, ended[1].reason.as_str()), (&outcome.process_flows[0], ""));
        assert_eq!(ended[1].after.expect("a look").movable.remote_bytes, 0);
        assert_eq!(ended[1].failed[0].error, "refused");
        assert!(ended[2].reason.starts_with("no target node: "), "{ended:?}");
        assert_eq!(ended[2].home, "0-1".parse().unwrap());
        // Who has ended meanwhile was looked at before alone.
        let gone = members.ended(&before, &outcome, None);
        assert!(gone[1].after.is_none() && gone[1].before.is_some());
    }

    #[test]
    fn where_nothing_is_moved_that_is_the_result() {
        use MemberState::{Missing, Refused, Skipped};
        let members = members();
        let plan = plan(&members, vec![extent(0, [4, 0]), extent(1, [1, 1])]);
        let results = members.planned(&plan, true);
        assert_eq!(names(&results), named([Missing, Skipped, Skipped, Refused]));
        assert_eq!(results[1].reason, "all memory is local");
        assert_eq!(results[1].after, results[1].before);
    }
}
