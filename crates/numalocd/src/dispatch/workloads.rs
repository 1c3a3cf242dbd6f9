//! Registered workloads, and targets that name them.

use super::{Refusal, Selected, dispatcher::Dispatcher};
use crate::{access::Caller, store::Write};
use numaloc_api::value::{QosClass, Target, Workload, WorkloadId, WorkloadSpec};
use numaloc_host::Target as HostTarget;
use std::{collections::BTreeSet, sync::Arc};

impl Dispatcher {
    /// A target in the host's words.
    pub(super) fn select(&self, target: &Target) -> Result<Selected, Refusal> {
        let mut cgroups: BTreeSet<&String> = target.cgroups.iter().collect();
        let mut named = |what: &str, fits: &dyn Fn(&WorkloadSpec) -> bool| {
            let fitting = self.book.workloads().values().filter(|workload| fits(&workload.spec));
            let mut any = false;
            cgroups.extend(fitting.map(|workload| &workload.spec.cgroup).inspect(|_| any = true));
            let message =
                || format!("no registered workload has {what}: register it, or name its cgroup");
            any.then_some(()).ok_or_else(|| Refusal::TargetNotFound { message: message() })
        };
        for id in &target.container_ids {
            named(&format!("container id {id}"), &|spec| spec.container_id.as_ref() == Some(id))?;
        }
        for uid in &target.pod_uids {
            named(&format!("pod uid {uid}"), &|spec| spec.pod_uid.as_ref() == Some(uid))?;
        }
        if !target.labels.is_empty() {
            named("all of these labels", &|spec| spec.matches(&target.labels))?;
        }
        let class = |workload: &Arc<Workload>| -> Option<QosClass> {
            workload.spec.qos_class.filter(|_| cgroups.contains(&workload.spec.cgroup))
        };
        let qos_class = self.book.workloads().values().filter_map(class).min();
        let pids = target.pids.iter().copied().map(HostTarget::Pid);
        let units = target.units.iter().cloned().map(HostTarget::Unit);
        let cgroups = cgroups.into_iter().cloned().map(HostTarget::Cgroup);
        Ok(Selected { targets: pids.chain(cgroups).chain(units).collect(), qos_class })
    }

    /// The workload that a target is, if it is one and nothing else.
    pub(super) fn only_workload(&self, target: &Target) -> Option<&WorkloadId> {
        let Ok(Selected { targets, .. }) = self.select(target) else { return None };
        let [HostTarget::Cgroup(path)] = &targets[..] else { return None };
        let mut fitting = self.book.workloads().values().filter(|known| known.spec.cgroup == *path);
        let only = fitting.next().filter(|_| fitting.next().is_none());
        only.map(|known| &known.spec.id)
    }

    pub(super) fn register_workload(
        &mut self,
        caller: &Caller,
        spec: WorkloadSpec,
    ) -> Result<Arc<Workload>, Refusal> {
        let known = self.book.workloads().get(&spec.id).cloned();
        if let Some(known) = &known {
            self.check_owner(caller, known)?;
            if known.spec == spec {
                return Ok(known.clone());
            }
        }
        let limit = self.config().quota.workloads;
        let own = self.book.workloads().values().filter(|known| known.creator == caller.name);
        if known.is_none() && own.count() >= limit {
            let caller = caller.name.clone();
            return Err(Refusal::Quota { what: "workloads", limit, caller });
        }
        let (created, creator) = match known {
            Some(known) => (known.created, known.creator.clone()),
            None => (self.wall(), caller.name.clone()),
        };
        let workload = Arc::new(Workload { spec, created, creator });
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
        self.edges.metrics.workload_gone(id);
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
