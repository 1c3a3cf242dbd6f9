//! Registered workloads, and targets that name them.

use super::{Refusal, Selected, dispatcher::Dispatcher, used::Sort};
use crate::{
    access::{Caller, Creators, Grants},
    engine::{Aim, Member, exactly},
    store::{Weight, Write},
};
use numaloc_api::value::{Missing, Pins, QosClass, Target, Workload, WorkloadId, WorkloadSpec};
use numaloc_host::Target as HostTarget;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Dispatcher {
    /// What a target means: for a job of `of`, of the workloads those that it may select; `None`, for who only looks:
    /// everybody's. With `pins`, pids mean the processes that they meant when the job was made, else those that have them now.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: nothing of it is known; why, of the first.
    pub(super) fn select(
        &self,
        target: &Target,
        of: Option<&Caller>,
        pins: Option<&Pins>,
    ) -> Result<Selected, Refusal> {
        let (cgroups, missing) = self.cgroups(target, of);
        let known = cgroups.keys().flat_map(|path| self.book.names().in_cgroup(path));
        let known = known.filter_map(|id| self.selectable(id, of));
        let qos_class = self.best_class(known);
        // Nor is a job's class better than its own creator may ask for, whatever others have said of the workload.
        let qos_class =
            qos_class.map(|class| of.map_or(class, |of| of.ceilings.bound_class(class)));
        let mut members = Vec::new();
        members.extend(target.pids.iter().map(|&pid| {
            let name = Target { pids: [pid].into(), ..Target::default() };
            Member { target: HostTarget::Pid(pid), name }
        }));
        members.extend(target.processes.iter().map(|named| {
            let name = Target { processes: [named.clone()].into(), ..Target::default() };
            Member { target: exactly(named), name }
        }));
        members.extend(
            cgroups
                .into_iter()
                .map(|(path, name)| Member { target: HostTarget::Cgroup(path.to_owned()), name }),
        );
        members.extend(target.units.iter().map(|unit| {
            let name = Target { units: [unit.clone()].into(), ..Target::default() };
            Member { target: HostTarget::Unit(unit.clone()), name }
        }));
        let aim = Aim { members, missing };
        let aim = match pins {
            Some(pins) => {
                let why = |pid| format!("no process had pid {pid} when this was created");
                aim.pinned(pins, why)
            }
            None => aim,
        };
        match aim.missing.first().filter(|_| aim.members.is_empty()) {
            Some(first) => Err(Refusal::TargetNotFound { message: first.reason.clone() }),
            None => Ok(Selected { aim, qos_class }),
        }
    }

    /// The cgroups that a target names, with what they are called, and the names that nothing is registered under.
    fn cgroups<'a>(
        &'a self,
        target: &'a Target,
        of: Option<&Caller>,
    ) -> (BTreeMap<&'a str, Target>, Vec<Missing>) {
        let names = self.book.names();
        let mut missing = Vec::new();
        let mut cgroups: BTreeMap<&str, Target> =
            target.cgroups.iter().map(|path| (path.as_str(), Target::cgroup(path))).collect();
        let mut add = |named: Target, ids: &mut dyn Iterator<Item = &'a WorkloadId>| {
            let mut any = false;
            for Workload { spec, .. } in ids.filter_map(|id| self.selectable(id, of)) {
                any = true;
                cgroups.entry(&spec.cgroup).or_insert_with(|| name_of(spec));
            }
            if !any {
                missing.push(Missing { reason: not_registered(&named, of), member: named });
            }
        };
        for id in &target.container_ids {
            add(Target::container(id), &mut names.in_container(id));
        }
        for uid in &target.pod_uids {
            let named = Target { pod_uids: [uid.clone()].into(), ..Target::default() };
            add(named, &mut names.in_pod(uid));
        }
        if !target.labels.is_empty() {
            let named = Target { labels: target.labels.clone(), ..Target::default() };
            let all = self.book.workloads().iter();
            let mut fitting = all.filter(|(_, known)| known.spec.matches(&target.labels));
            add(named, &mut fitting.by_ref().map(|(id, _)| id));
        }
        (cgroups, missing)
    }

    /// The best class of these workloads, each no better than whoever has registered it may ask for now.
    fn best_class<'a>(&self, known: impl Iterator<Item = &'a Workload>) -> Option<QosClass> {
        let config = self.config();
        let mut creators = Creators::new(Grants::from(&*config));
        let classes = known.filter_map(|workload| {
            let class = workload.spec.qos_class?;
            // Who may have nothing moved any more has no say.
            let creator = creators.get(&workload.creator, workload.creator_gid)?;
            Some(creator.ceilings.bound_class(class))
        });
        classes.min()
    }

    fn selectable(&self, id: &WorkloadId, of: Option<&Caller>) -> Option<&Workload> {
        let known = self.book.workloads().get(id).map(|known| &**known);
        known.filter(|known| of.is_none_or(|caller| caller.may_select(known)))
    }

    /// The workload that a member of a job's target is, if it is one and nothing else.
    pub(super) fn only_workload(&self, member: &Target, of: &Caller) -> Option<&WorkloadId> {
        let selected = self.select(member, Some(of), Some(&Pins::new())).ok()?;
        let [Member { target: HostTarget::Cgroup(path), .. }] = &selected.aim.members[..] else {
            return None;
        };
        let mut fitting = self.book.names().in_cgroup(path);
        fitting.next().filter(|_| fitting.next().is_none())
    }

    pub(super) fn register_workload(
        &mut self,
        caller: &Caller,
        spec: WorkloadSpec,
    ) -> Result<Arc<Workload>, Refusal> {
        spec.qos_class.map_or(Ok(()), |class| caller.ceilings.check_class(class))?;
        let known = self.book.workloads().get(&spec.id).cloned();
        if let Some(known) = &known {
            self.check_owner(caller, known)?;
            let is_as_before = known.creator != caller.name || known.creator_gid == caller.gid;
            if known.spec == spec && is_as_before {
                return Ok(known.clone());
            }
        }
        let (created, creator) = match &known {
            Some(known) => (known.created, known.creator.clone()),
            None => (self.wall(), caller.name.clone()),
        };
        let before = known.as_ref().and_then(|known| known.creator_gid);
        let creator_gid = if creator == caller.name { caller.gid } else { before };
        let workload = Arc::new(Workload { spec, created, creator, creator_gid });
        let (before, quota) = (known.map(|known| known.weight()), &self.config().quota);
        let weight = workload.weight();
        self.book.used().check(&workload.creator, Sort::Workload, weight, before, quota)?;
        self.commit(vec![Write::Workload(workload.clone())])?;
        Ok(workload)
    }

    pub(super) fn unregister_workload(
        &mut self,
        caller: &Caller,
        id: &WorkloadId,
    ) -> Result<(), Refusal> {
        let known = self.book.workloads().get(id).cloned();
        let known = known.ok_or_else(|| Refusal::NotFound { name: id.to_string() })?;
        self.check_owner(caller, &known)?;
        self.commit(vec![Write::DropWorkload(id.clone())])?;
        let id = id.clone();
        self.then(move |dispatcher| dispatcher.edges.metrics.workload_gone(&id));
        Ok(())
    }

    fn check_owner(&self, caller: &Caller, known: &Workload) -> Result<(), Refusal> {
        if caller.may_change(&known.creator) {
            return Ok(());
        }
        let (id, owner) = (&known.spec.id, &known.creator);
        let message = format!("{id} belongs to {owner}: only it and admins may change it");
        Err(Refusal::NotPermitted { message })
    }
}

/// What a workload is called where it is missing.
fn name_of(spec: &WorkloadSpec) -> Target {
    match &spec.container_id {
        Some(id) => Target::container(id),
        None => Target::cgroup(&spec.cgroup),
    }
}

/// Whether a target names a workload.
pub(super) fn is_named(target: &Target, spec: &WorkloadSpec) -> bool {
    let is_among = |id: &Option<String>, ids: &BTreeSet<String>| {
        id.as_ref().is_some_and(|id| ids.contains(id))
    };
    target.cgroups.contains(&spec.cgroup)
        || is_among(&spec.container_id, &target.container_ids)
        || is_among(&spec.pod_uid, &target.pod_uids)
        || (!target.labels.is_empty() && spec.matches(&target.labels))
}

/// Whether others have registered one is nobody's business.
fn not_registered(named: &Target, of: Option<&Caller>) -> String {
    let whose = of.map(|caller| format!(" that {} may have moved", caller.name));
    let whose = whose.unwrap_or_default();
    format!("no registered workload{whose} has {named}: register it, or name its cgroup")
}
