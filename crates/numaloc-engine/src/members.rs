//! The members of a target, each judged on its own: which processes it has, why it takes no part, and its result.

use crate::{
    Aim, Error, Local,
    authority::{self, Authority},
    joining::Joining,
    labelled::with_labelled,
};
use numaloc_api::value::{
    FailedProcess, FoundAt, FoundMember, MemberResult, MemberState, Missing, Target,
};
use numaloc_core::{
    Identity, Locality, NodeSet, Options, Outcome, Plan, PlannedProcess, Process, Skip, Topology,
    planner::{self, Surveyed},
};
use numaloc_executor::Party;
use numaloc_host::{Arrivals, Error as HostError, Found, Roots, Survey, Surveyor, resolve_each};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The members of a target as they were found.
#[derive(Clone, Debug)]
pub struct Members {
    /// The requested target, for people.
    target: String,
    /// Extends to all processes that take part.
    authority: Authority,
    /// See [`Local::words`].
    words: fn(&Error) -> String,
    judged: Vec<Judged>,
    /// Members known to be missing before the host was looked at.
    missing: Vec<Missing>,
    processes: BTreeMap<i32, Process>,
    /// The processes that they get from now on; `None`: they get none.
    joining: Option<Arc<Joining>>,
}

/// A member: its processes, or why it takes no part.
#[derive(Clone, Debug)]
struct Judged {
    name: Target,
    found: Result<BTreeSet<Identity>, Error>,
    /// Number of its further processes, which may not be read, and why the first of them may not.
    unreadable: Option<(usize, String)>,
    /// The place where it was found, if it had to be looked up.
    at: Option<FoundAt>,
}

impl Members {
    /// These processes, each a member by its pid.
    #[cfg(test)]
    pub fn of(processes: Vec<Process>) -> Self {
        let judged = processes.iter().map(|process| Judged {
            name: Target { pids: [process.identity.pid].into(), ..Target::default() },
            found: Ok([process.identity].into()),
            unreadable: None,
            at: None,
        });
        let judged = judged.collect();
        let processes = processes.into_iter().map(|process| (process.identity.pid, process));
        let (target, missing, processes) = (String::new(), Vec::new(), processes.collect());
        Self {
            target,
            authority: Authority::All,
            words: Error::to_string,
            judged,
            missing,
            processes,
            joining: None,
        }
    }

    /// Finds the processes of the members, and checks that `authority` extends to them.
    ///
    /// # Errors
    /// No member takes part: the error is that of the first member that is there, else that of the first member. Or the
    /// host cannot be read, or `stop` is true.
    pub fn look(
        local: &Local,
        aim: &Aim,
        topology: &Topology,
        authority: &Authority,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let Local { roots, words, .. } = local;
        let aim = with_labelled(roots, aim, stop)?;
        if let (true, Some(Missing { reason, .. })) = (aim.members.is_empty(), aim.missing.first())
        {
            return Err(Error::NotFound { message: reason.clone() });
        }
        let targets: Vec<_> = aim.members.iter().map(|member| member.target.clone()).collect();
        let (mut judged, mut processes) = (Vec::new(), BTreeMap::new());
        // Names that are looked up mean what was found from then on.
        let mut found_targets = Vec::new();
        let each = resolve_each(roots, &targets, topology, stop);
        for (member, found) in aim.members.iter().zip(each) {
            let (mut unreadable, mut at) = (None, None);
            let place = found.as_ref().ok().and_then(|found| found.found.as_ref());
            found_targets.push(place.map_or_else(|| member.target.clone(), Into::into));
            let found = match found {
                Ok(found) => {
                    at = found.found.map(found_at);
                    unreadable = found.unreadable.map(|(count, why)| (count, why.to_string()));
                    let found = found.processes;
                    own(authority::check(roots, &found, authority))?.map(|()| found)
                }
                Err(error) if error.is_of_target() => Err(error.into()),
                Err(error) => return Err(error.into()),
            };
            let found = found.map(|found| {
                let identities = found.iter().map(|process| process.identity).collect();
                processes.extend(found.into_iter().map(|process| (process.identity.pid, process)));
                identities
            });
            judged.push(Judged { name: member.name.clone(), found, unreadable, at });
        }
        let joining = Joining::of(roots, topology, &found_targets, authority);
        let (target, authority) = (numaloc_host::Target::several(&targets), authority.clone());
        let missing = aim.missing.clone();
        let words = *words;
        let members = Self { target, authority, words, judged, missing, processes, joining };
        members.check()?;
        Ok(members)
    }

    /// With the processes of `after`, a later look, that the members have got since they were found.
    fn joined(&self, after: Option<&Plan>) -> Self {
        let mut members = self.clone();
        let (Some(joining), Some(after)) = (&self.joining, after) else { return members };
        let identities = after.processes.iter().map(|planned| planned.process.identity);
        for (index, process) in joining.among(identities) {
            if let Some(Judged { found: Ok(found), .. }) = members.judged.get_mut(index) {
                found.insert(process.identity);
                members.processes.entry(process.identity.pid).or_insert(process);
            }
        }
        members
    }

    /// Leaves out members that the authority does not extend to by now. Returns whether there are any.
    fn leave_to_others(&mut self, roots: &Roots, survey: &Survey) -> Result<bool, Error> {
        let mut any = false;
        for process in survey.processes() {
            if let Err(refusal) = own(authority::check(roots, [&process], &self.authority))? {
                if !self.leave_out(process.identity.pid, &refusal) {
                    return Err(refusal);
                }
                any = true;
            }
        }
        Ok(any)
    }

    /// Leaves out the members that have this process. Returns whether there are any.
    fn leave_out(&mut self, pid: i32, why: &Error) -> bool {
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

    /// Fails if no member takes part.
    fn check(&self) -> Result<(), Error> {
        let refusals = || self.judged.iter().filter_map(|judged| judged.found.as_ref().err());
        if refusals().count() < self.judged.len() {
            return Ok(());
        }
        let first = refusals().find(|error| state(error) == MemberState::Refused);
        first.or(refusals().next()).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Places where the members were found that had to be looked up.
    pub fn found_at(&self) -> Vec<FoundMember> {
        let at = |judged: &Judged| {
            let (member, at) = (judged.name.clone(), judged.at.clone()?);
            Some(FoundMember { member, at })
        };
        self.judged.iter().filter_map(at).collect()
    }

    /// The members that take no part, or not with all of their processes.
    pub fn missing(&self) -> Vec<Missing> {
        let left_out = self.judged.iter().filter_map(|judged| {
            let (processes, reason) = match &judged.found {
                Ok(_) => judged.unreadable.clone()?,
                Err(error) => (0, (self.words)(error)),
            };
            Some(Missing { member: judged.name.clone(), reason, processes })
        });
        self.missing.iter().cloned().chain(left_out).collect()
    }

    /// State of the members before their memory is scanned.
    pub fn found(&self, topology: &Topology, options: &Options) -> Vec<MemberResult> {
        self.results(|identities| {
            let all = identities.iter().filter_map(|identity| self.processes.get(&identity.pid));
            let skips = all.clone().map(|process| planner::skip(topology, process, options));
            let homes = all.map(|process| planner::home(topology, process, options));
            MemberResult {
                reason: all_skipped(skips).map(reason).unwrap_or_default(),
                home: homes.fold(NodeSet::new(), |all, home| all.or(&home)),
                ..MemberResult::default()
            }
        })
    }

    /// State of the members before anything is moved. If nothing will be moved, these are their final results.
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

    /// Results of the members in a run. `after` is a scan of them after the run.
    pub fn ended(&self, plan: &Plan, outcome: &Outcome, after: Option<&Plan>) -> Vec<MemberResult> {
        let (places, places_after) = (places(plan), after.map(places).unwrap_or_default());
        let results = self.joined(after).results(|identities| {
            let at_first = at(&places, identities);
            let mut result = before(plan, &at_first);
            for &index in &at_first {
                let Some(process) = outcome.processes.get(index) else { continue };
                result.account.add(&process.account);
                result.failed.extend(FailedProcess::of(process));
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

    /// The API's name of the first member: that of all if there is only one.
    pub fn member(&self) -> Option<&Target> {
        self.judged.first().map(|judged| &judged.name)
    }

    /// One result for each member. For the members that take part, `of` gives the result of their processes.
    fn results(&self, of: impl Fn(&BTreeSet<Identity>) -> MemberResult) -> Vec<MemberResult> {
        let missing = self.missing.iter().map(|Missing { member, reason, .. }| {
            MemberResult::left_out(member.clone(), MemberState::Missing, reason.clone())
        });
        let judged = self.judged.iter().map(|Judged { name, found, unreadable, at }| match found {
            Ok(identities) => {
                let (member, processes) = (name.clone(), identities.len());
                let unreadable = unreadable.as_ref().map_or(0, |(count, _)| *count);
                let found = at.clone().map(Box::new);
                MemberResult { member, processes, unreadable, found, ..of(identities) }
            }
            Err(error) => MemberResult::left_out(name.clone(), state(error), (self.words)(error)),
        });
        missing.chain(judged).collect()
    }
}

impl Party for Members {
    type Error = Error;

    fn name(&self) -> String {
        self.target.clone()
    }

    /// Processes of the members that take part, in ascending order of pid.
    fn processes(&self) -> impl Iterator<Item = &Process> {
        let taking: BTreeSet<&Identity> =
            self.judged.iter().flat_map(|judged| &judged.found).flatten().collect();
        let processes = self.processes.values();
        processes.filter(move |process| taking.contains(&process.identity))
    }

    /// Surveys the members that take part, with the processes that they get meanwhile. A member is left out if it turns
    /// out not to be readable, to be another user's by now, or to have mappings that cannot be compared.
    ///
    /// # Errors
    /// As [`Self::look`], if no member is left. As [`Surveyor::survey`], if the error is not that of one member.
    fn survey(&mut self, surveyor: Surveyor<'_>) -> Result<(Survey, Surveyed), Error> {
        let joining = self.joining.clone();
        let arrivals = joining.map(|joining| -> Arc<dyn Arrivals> { joining });
        loop {
            let processes = self.processes().cloned().collect();
            match surveyor.survey(processes, arrivals.clone()) {
                // Checked again now that the processes are held open. If one becomes another user's by a later exec, it
                // has other memory than what is held open, and that is not touched.
                Ok((survey, _)) if self.leave_to_others(surveyor.roots, &survey)? => {}
                Ok(surveyed) => return Ok(surveyed),
                Err(
                    error @ (HostError::NoRights { pid, .. }
                    | HostError::Silent { pid, .. }
                    | HostError::Overlaps { pid, .. }),
                ) => {
                    let error = Error::from(error);
                    if !self.leave_out(pid, &error) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error.into()),
            }
            self.check()?;
        }
    }
}

/// The index in a plan of each of its processes.
fn places(plan: &Plan) -> BTreeMap<Identity, usize> {
    let processes = plan.processes.iter().enumerate();
    processes.map(|(index, planned)| (planned.process.identity, index)).collect()
}

fn at(places: &BTreeMap<Identity, usize>, identities: &BTreeSet<Identity>) -> Vec<usize> {
    identities.iter().filter_map(|identity| places.get(identity).copied()).collect()
}

fn found_at(found: Found) -> FoundAt {
    FoundAt { cgroup: found.cgroup().map(str::to_owned), by: found.how }
}

/// The plan's account of the processes at these indexes.
fn before(plan: &Plan, at: &[usize]) -> MemberResult {
    if at.is_empty() {
        let why = "its processes have ended, or share the memory of other processes";
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
    let target_ratio = plan.options.judged_ratio();
    results.into_iter().map(|result| result.settled(target_ratio)).collect()
}

/// The reason why none of these processes is moved, if that is so for each of them: the reason of the first.
fn all_skipped(skips: impl Iterator<Item = Option<Skip>>) -> Option<Skip> {
    let skips: Option<Vec<Skip>> = skips.collect();
    skips?.first().copied()
}

fn reason(skip: Skip) -> String {
    let what = match skip {
        Skip::NoTargetNode => {
            "its memory is at home on every node: pin it to the CPUs of some, or name nodes"
        }
        Skip::NoLocalMemory => "none of its CPUs is online",
        Skip::OneNode => "its CPUs are on one node: name the nodes of the placement",
    };
    format!("{}: {what}", skip.message())
}

/// The state of a member that takes no part for this reason.
pub fn state(error: &Error) -> MemberState {
    if error.is_missing() { MemberState::Missing } else { MemberState::Refused }
}

/// Distinguishes two kinds of errors. `NotPermitted` concerns only the member that was scanned (inner result). Any
/// other one concerns all members (outer result).
fn own(checked: Result<(), Error>) -> Result<Result<(), Error>, Error> {
    match checked {
        Err(error) if !matches!(error, Error::NotPermitted { .. }) => Err(error),
        checked => Ok(checked),
    }
}

#[cfg(test)]
mod tests;
