//! Targets that name registered workloads, by their containers, pods or labels.

use super::{
    dispatcher::Dispatcher,
    names::DeclaredClass,
    selected::{Selected, files},
};
use crate::{
    access::{Caller, Creators, Grants},
    refusal::Refusal,
};
use numaloc_api::value::{
    Missing, Pins, QosClass, Target, Workload, WorkloadId, WorkloadSpec, first_few,
};
use numaloc_engine::{Aim, Member};
use numaloc_host::{NamedKind, Target as HostTarget};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The meaning of a target besides processes and units.
struct Selection<'a> {
    /// Cgroups that it names itself and those of workloads, each with its name as a member.
    cgroups: BTreeMap<&'a str, Target>,
    /// Containers and pods that are not registered: they are looked up on the host.
    named: Vec<Member>,
    /// Names of workloads under which nothing is registered.
    missing: Vec<Missing>,
}

impl Dispatcher {
    /// Resolves a target. With `of`, names of workloads mean workloads that `of` may select; with `None` (a caller that
    /// only looks), workloads of all owners. If the target names creators, only their workloads are meant. With `pins`,
    /// pids mean the processes that had them when the record was made; without, the processes that have them now.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: no member is known. The message is that of the first one.
    /// [`Refusal::NotPermitted`]: the target names a creator of whose workloads `of` may select none.
    pub(super) fn select(
        &self,
        target: &Target,
        of: Option<&Caller>,
        pins: Option<&Pins>,
    ) -> Result<Selected, Refusal> {
        if let Some(selected) = files(target) {
            return Ok(selected);
        }
        of.map_or(Ok(()), |of| check_creators(target, of))?;
        let Selection { cgroups, named, missing } = self.meant(target, of);
        let said = cgroups.keys().flat_map(|&path| {
            let said = self.records.names().classes_of(path);
            said.filter(move |says| {
                target.means_workloads_of(&says.creator)
                    && of.is_none_or(|of| of.may_select_in(path, &says.creator))
            })
        });
        let qos_class = self.best_class(said);
        // The job's class is not better than its creator may ask for, whatever class others have given the workload.
        let qos_class =
            qos_class.map(|class| of.map_or(class, |of| of.ceilings.bound_class(class)));
        let mut members: Vec<Member> = Member::processes(target).collect();
        members.extend(
            cgroups
                .into_iter()
                .map(|(path, name)| Member { target: HostTarget::Cgroup(path.to_owned()), name }),
        );
        members.extend(named);
        members.extend(Member::units(target));
        let container_labels = target.container_labels.clone();
        let aim = Aim { container_labels, missing, ..Aim::of(members) };
        let aim = match pins {
            Some(pins) => {
                let why = |pid| format!("no process had pid {pid} when this was created");
                aim.pinned(pins, why)
            }
            None => aim,
        };
        let is_looked_at = !aim.members.is_empty() || !aim.container_labels.is_empty();
        match aim.missing.first().filter(|_| !is_looked_at) {
            Some(first) => Err(Refusal::TargetNotFound { message: first.reason.clone() }),
            None => Ok(Selected { aim, qos_class }),
        }
    }

    /// Resolves a target, except for processes and units.
    fn meant<'a>(&'a self, target: &'a Target, of: Option<&Caller>) -> Selection<'a> {
        let names = self.records.names();
        let (mut missing, mut looked_up) = (Vec::new(), Vec::new());
        let mut cgroups: BTreeMap<&str, Target> =
            target.cgroups.iter().map(|path| (path.as_str(), Target::cgroup(path))).collect();
        let mut add = |named: Target,
                       kind: Option<(NamedKind, &str)>,
                       ids: &mut dyn Iterator<Item = &'a WorkloadId>| {
            let mut any = false;
            for Workload { spec, .. } in ids.filter_map(|id| self.selectable(id, target, of)) {
                any = true;
                cgroups.entry(&spec.cgroup).or_insert_with(|| name_of(spec));
            }
            match kind.filter(|_| target.workload_creators.is_empty()) {
                _ if any => {}
                Some((kind, name)) => looked_up.push(Member::on_host(kind, name, named)),
                None => {
                    let reason = not_registered(&named, &target.workload_creators, of);
                    missing.push(Missing { reason, member: named, processes: 0 });
                }
            }
        };
        for id in &target.containers {
            let kind = Some((NamedKind::Container, id.as_str()));
            add(Target::container(id), kind, &mut names.in_container(id));
        }
        for uid in &target.pods {
            let named = Target { pods: [uid.clone()].into(), ..Target::default() };
            add(named, Some((NamedKind::Pod, uid)), &mut names.in_pod(uid));
        }
        if !target.labels.is_empty() {
            let named = Target { labels: target.labels.clone(), ..Target::default() };
            add(named, None, &mut self.labelled(target, of).into_iter());
        }
        Selection { cgroups, named: looked_up, missing }
    }

    /// Workloads that the labels of a target select, if they may be meant by a target of `of`: in each cgroup one of
    /// each client, the first by name, because thousands may share a cgroup.
    fn labelled<'a>(&'a self, target: &Target, of: Option<&Caller>) -> BTreeSet<&'a WorkloadId> {
        let mut places: HashMap<(&str, &str), Option<&WorkloadId>> = HashMap::new();
        for workload in self.records.labels().select(&target.labels).iter() {
            let (spec, creator) = (&workload.spec, &workload.creator);
            let first = places.entry((&spec.cgroup, creator)).or_insert_with(|| {
                let is_meant = target.means_workloads_of(creator)
                    && of.is_none_or(|of| of.may_select(workload));
                is_meant.then_some(&spec.id)
            });
            if let Some(first) = first {
                *first = (*first).min(&spec.id);
            }
        }
        places.into_values().flatten().collect()
    }

    /// The best of these classes. Each counts as no better than the client that says it may ask for now.
    fn best_class<'a>(&self, said: impl Iterator<Item = &'a DeclaredClass>) -> Option<QosClass> {
        let config = self.config();
        let mut creators = Creators::new(Grants::from(&*config));
        let classes = said.filter_map(|says| {
            // A client that may not have memory moved any more has no say.
            let creator = creators.get(&says.creator, says.creator_gid)?;
            Some(creator.ceilings.bound_class(says.qos_class))
        });
        classes.min()
    }

    /// A workload, if it may be meant by a target of `of`.
    fn selectable(
        &self,
        id: &WorkloadId,
        target: &Target,
        of: Option<&Caller>,
    ) -> Option<&Workload> {
        let known = self.records.workloads().get(id).map(|known| &**known);
        let known = known.filter(|known| target.means_workloads_of(&known.creator));
        known.filter(|known| of.is_none_or(|caller| caller.may_select(known)))
    }

    /// The workload that a member of `target`, a target of `of`, stands for, if its cgroup is that of exactly one.
    pub(super) fn only_workload(
        &self,
        member: &Target,
        target: &Target,
        of: &Caller,
    ) -> Option<&WorkloadId> {
        let workload_creators = target.workload_creators.clone();
        let member = Target { workload_creators, ..member.clone() };
        let selected = self.select(&member, Some(of), Some(&Pins::new())).ok()?;
        let [Member { target: HostTarget::Cgroup(path), .. }] = &selected.aim.members[..] else {
            return None;
        };
        let mut fitting = self.records.names().in_cgroup(path);
        fitting.next().filter(|_| fitting.next().is_none())
    }
}

/// The name of a workload as a member of a target: its container id, or else its cgroup.
pub(super) fn name_of(spec: &WorkloadSpec) -> Target {
    match &spec.container_id {
        Some(id) => Target::container(id),
        None => Target::cgroup(&spec.cgroup),
    }
}

/// Whether a target names a workload.
pub(super) fn is_named(target: &Target, workload: &Workload) -> bool {
    let is_selected = || !target.labels.is_empty() && workload.spec.is_selected(&target.labels);
    is_named_if(target, workload, is_selected)
}

/// The same, if `is_selected` says whether the target's labels select it.
pub(super) fn is_named_if(
    target: &Target,
    workload: &Workload,
    is_selected: impl FnOnce() -> bool,
) -> bool {
    let spec = &workload.spec;
    let is_among = |id: &Option<String>, ids: &BTreeSet<String>| {
        id.as_ref().is_some_and(|id| ids.contains(id))
    };
    let is_registered_so = is_among(&spec.container_id, &target.containers)
        || is_among(&spec.pod_uid, &target.pods)
        || is_selected();
    target.cgroups.contains(&spec.cgroup)
        || (is_registered_so && target.means_workloads_of(&workload.creator))
}

/// Refuses what could never mean anything.
fn check_creators(target: &Target, of: &Caller) -> Result<(), Refusal> {
    let Some(foreign) = target.workload_creators.iter().find(|creator| !of.may_mean(creator))
    else {
        return Ok(());
    };
    let own = &of.name;
    let message = format!(
        "the target means workloads of {foreign}, of which {own} may have none moved: take it out of workload_creators, or \
         have a cgroup added to the grant in the daemon's configuration"
    );
    Err(Refusal::NotPermitted { message })
}

/// The reason why a name stands for no workload. Does not reveal whether other clients have registered one with that
/// name.
fn not_registered(named: &Target, creators: &BTreeSet<String>, of: Option<&Caller>) -> String {
    let from = first_few(creators.iter()).map(|creators| format!(" of {creators}"));
    let whose = of.map(|caller| format!(" that {} may move", caller.name));
    let (from, whose) = (from.unwrap_or_default(), whose.unwrap_or_default());
    format!("no registered workload{from}{whose} has {named}: register it, or name its cgroup")
}
