//! Registered workloads.

use super::{
    command::{Registering, Replaced},
    dispatcher::Dispatcher,
    measured::Measured,
    owned::{check_etag, check_owner, etag},
    used::{Amount, CountedKind},
};
use crate::{
    access::{Caller, audit},
    refusal::Refusal,
    store::{Weight, Write},
};
use numaloc_api::value::{
    RegisterWorkload, RenewWorkloads, UnregisterWorkload, Workload, WorkloadId, WorkloadSet,
    WorkloadSpec, first_few,
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};
use tokio::time::Instant;

/// At most this many workloads are forgotten in one commit when their leases end.
const AT_ONCE: usize = 1000;

impl Dispatcher {
    pub(super) fn get_workload(&self, id: &WorkloadId) -> Result<Arc<Workload>, Refusal> {
        Ok(self.with_lease(self.records.workloads().known(id)?))
    }

    pub(super) fn register_workload(
        &mut self,
        caller: &Caller,
        request: RegisterWorkload,
    ) -> Result<Arc<Workload>, Refusal> {
        let known = self.registrable(caller, &request)?;
        let RegisterWorkload { spec, validate_only, request_id, .. } = request;
        spec.qos_class.map_or(Ok(()), |class| caller.ceilings.check_class(class))?;
        let is_known = |known: &&Arc<Workload>| {
            is_as_before(caller, &spec, known)
                && (request_id.is_none() || request_id == known.request_id)
        };
        if let Some(known) = known.as_ref().filter(is_known) {
            if !validate_only {
                self.renew(&spec);
            }
            return Ok(self.with_lease(known));
        }
        let workload = self.record(caller, spec, known.as_deref(), request_id);
        self.records.check_workload(&workload, &self.config().quota)?;
        if validate_only {
            return Ok(workload);
        }
        self.commit(vec![Write::Workload(workload.clone())])?;
        let written = workload.clone();
        self.then(move |dispatcher| dispatcher.renew(&written.spec));
        let expires = workload.spec.ttl.map(|ttl| self.wall() + ttl);
        Ok(Arc::new(Workload { expires, ..(*workload).clone() }))
    }

    /// Evaluates a request: its mask is applied to what is registered, and a repeated request is recognized.
    pub(super) fn begin_register(
        &self,
        caller: &Caller,
        request: &RegisterWorkload,
    ) -> Result<Registering, Refusal> {
        let (id, known) = (&request.spec.id, self.records.workloads().get(&request.spec.id));
        let repeated = known.filter(|known| {
            known.creator == caller.name
                && request.request_id.is_some()
                && request.request_id == known.request_id
        });
        if let Some(known) = repeated {
            let mut spec = request.over(&known.spec)?;
            if spec.cgroup.is_empty() {
                // The daemon has found it for the first request. The container may have gone meanwhile.
                spec.cgroup.clone_from(&known.spec.cgroup);
            }
            return if spec == known.spec {
                Ok(Registering::Done(self.with_lease(known)))
            } else {
                Err(Refusal::AlreadyExists {
                    request_id: request.request_id.clone().unwrap_or_default(),
                    name: id.to_string(),
                })
            };
        }
        let known = self.registrable(caller, request)?;
        let (spec, etag) = match &known {
            Some(known) => (request.over(&known.spec)?, known.etag.clone()),
            None if request.mask.is_none() || request.allow_missing => {
                (request.spec.clone(), String::new())
            }
            None => return Err(Refusal::NotFound { name: id.to_string() }),
        };
        Ok(Registering::Whole(Box::new(spec), etag))
    }

    /// The workload under the name of a request, if the request may replace or change it.
    fn registrable(
        &self,
        caller: &Caller,
        request: &RegisterWorkload,
    ) -> Result<Option<Arc<Workload>>, Refusal> {
        let id = &request.spec.id;
        let known = self.records.workloads().get(id).cloned();
        match &known {
            Some(known) => {
                check_owner(caller, id, &known.creator)?;
                if request.create_only {
                    return Err(Refusal::NameTaken { name: id.to_string() });
                }
            }
            None => self.config().check_name(caller, id.id())?,
        }
        let present = known.as_ref().map_or("", |known| &known.etag);
        check_etag(id, request.etag.as_deref(), present)?;
        Ok(known)
    }

    /// The record to store for a workload that `caller` registers. `known` is the record that it replaces, if any.
    fn record(
        &self,
        caller: &Caller,
        spec: WorkloadSpec,
        known: Option<&Workload>,
        request_id: Option<String>,
    ) -> Arc<Workload> {
        let (created, creator) = match known {
            Some(known) => (known.created, known.creator.clone()),
            None => (self.wall(), caller.name.clone()),
        };
        let before = known.and_then(|known| known.creator_gid);
        let is_own = creator == caller.name;
        let creator_gid = if is_own { caller.gid } else { before };
        // Request ids are those of one client.
        let request_id = request_id.filter(|_| is_own);
        let same = known.filter(|known| is_as_before(caller, &spec, known));
        let etag = same.map_or_else(etag, |known| known.etag.clone());
        let workload = Workload::new(spec, creator, created);
        Arc::new(Workload { creator_gid, etag, request_id, ..workload })
    }

    /// Each workload is looked up and written at most once, so the time taken is linear in the size of the set.
    pub(super) fn replace_workloads(
        &mut self,
        caller: &Caller,
        set: WorkloadSet,
    ) -> Result<Replaced, Refusal> {
        let WorkloadSet { source, specs, validate_only } = set;
        let mut declared = HashSet::with_capacity(specs.len());
        let (mut writes, mut unchanged) = (Vec::new(), Vec::new());
        let (mut before, mut after) = (Amount::default(), Amount::default());
        let config = self.config();
        for spec in specs {
            spec.qos_class.map_or(Ok(()), |class| caller.ceilings.check_class(class))?;
            declared.insert(spec.id.clone());
            let known = self.records.workloads().get(&spec.id).map(|known| &**known);
            match known {
                Some(known) if known.creator != caller.name => return Err(not_own(known)),
                Some(known) if is_as_before(caller, &spec, known) => unchanged.push(spec),
                known => {
                    if known.is_none() {
                        config.check_name(caller, spec.id.id())?;
                    }
                    known.into_iter().for_each(|known| before.add(known.weight()));
                    let workload = self.record(caller, spec, known, None);
                    after.add(workload.weight());
                    writes.push(workload);
                }
            }
        }
        let of_set = self.records.names().in_set(&caller.name, source.as_deref());
        let removed: Vec<_> = of_set.filter(|id| !declared.contains(*id)).cloned().collect();
        let dropped = removed.iter().filter_map(|id| self.records.workloads().get(id));
        dropped.for_each(|dropped| before.add(dropped.weight()));
        let quota = &config.quota;
        self.records.used().check(&caller.client(), CountedKind::Workload, after, before, quota)?;
        let done =
            Replaced { written: writes.len(), unchanged: unchanged.len(), removed: removed.len() };
        if validate_only {
            return Ok(done);
        }
        let written = writes.iter().cloned().map(Write::Workload);
        // Removals come first, so that no quota is exceeded on the way.
        let commit = removed.iter().cloned().map(Write::DropWorkload).chain(written).collect();
        self.commit(commit)?;
        unchanged.iter().for_each(|spec| self.renew(spec));
        self.then(move |dispatcher| {
            writes.iter().for_each(|workload| dispatcher.renew(&workload.spec));
            removed.iter().for_each(|id| dispatcher.forget_workload(id));
        });
        Ok(done)
    }

    /// Renews the leases of a set. Gives back how many workloads it has.
    pub(super) fn renew_workloads(&mut self, caller: &Caller, request: &RenewWorkloads) -> usize {
        let of_set = self.records.names().in_set(&caller.name, request.source.as_deref());
        let of_set: Vec<_> =
            of_set.filter_map(|id| self.records.workloads().get(id)).cloned().collect();
        of_set.iter().for_each(|workload| self.renew(&workload.spec));
        of_set.len()
    }

    pub(super) fn unregister_workload(
        &mut self,
        caller: &Caller,
        request: &UnregisterWorkload,
    ) -> Result<(), Refusal> {
        let UnregisterWorkload { id, etag, allow_missing, validate_only } = request;
        let known = match self.records.workloads().known(id) {
            Err(_) if *allow_missing => return Ok(()),
            known => known?.clone(),
        };
        check_owner(caller, id, &known.creator)?;
        check_etag(id, etag.as_deref(), &known.etag)?;
        if *validate_only {
            return Ok(());
        }
        self.commit(vec![Write::DropWorkload(id.clone())])?;
        let id = id.clone();
        self.then(move |dispatcher| dispatcher.forget_workload(&id));
        Ok(())
    }

    /// Effects of the removal of a workload.
    fn forget_workload(&mut self, id: &WorkloadId) {
        self.leases.set(id, None);
        (self.edges.measured)(Measured::WorkloadGone(id));
    }

    /// Renews the lease of a workload, if it has one.
    fn renew(&mut self, spec: &WorkloadSpec) {
        self.leases.set(&spec.id, spec.ttl.map(|ttl| Instant::now() + ttl));
    }

    /// Begins all leases again at the start of the daemon: no client could renew them before.
    pub(super) fn begin_all_leases(&mut self) {
        let leased =
            self.records.workloads().values().filter(|workload| workload.spec.ttl.is_some());
        for workload in leased.cloned().collect::<Vec<_>>() {
            self.renew(&workload.spec);
        }
    }

    /// When the next lease ends.
    pub(super) fn next_lease(&self) -> Option<Instant> {
        self.leases.next().filter(|_| self.stopping.is_none())
    }

    /// Forgets workloads whose leases have ended, [`AT_ONCE`] at most.
    pub(super) fn end_leases(&mut self, now: Instant) -> Result<(), Refusal> {
        if self.stopping.is_some() {
            return Ok(());
        }
        let ended: Vec<_> = self.leases.ended(now).take(AT_ONCE).cloned().collect();
        if ended.is_empty() {
            return Ok(());
        }
        let mut of_creators: BTreeMap<String, Vec<&WorkloadId>> = BTreeMap::new();
        for id in &ended {
            if let Some(known) = self.records.workloads().get(id) {
                of_creators.entry(known.creator.clone()).or_default().push(id);
            }
        }
        self.commit(ended.iter().cloned().map(Write::DropWorkload).collect())?;
        for (creator, ids) in of_creators {
            audit::lease_ended(&creator, &first_few(ids.into_iter()).unwrap_or_default());
        }
        ended.iter().for_each(|id| self.forget_workload(id));
        Ok(())
    }

    /// A workload with the end of its lease.
    pub(super) fn with_lease(&self, workload: &Arc<Workload>) -> Arc<Workload> {
        let Some(end) = self.leases.end(&workload.spec.id) else { return workload.clone() };
        let left = end.saturating_duration_since(Instant::now());
        Arc::new(Workload { expires: Some(self.wall() + left), ..(**workload).clone() })
    }
}

/// Whether nothing would change if `caller` registered this workload with `spec`.
fn is_as_before(caller: &Caller, spec: &WorkloadSpec, known: &Workload) -> bool {
    known.spec == *spec && (known.creator != caller.name || known.creator_gid == caller.gid)
}

/// A set has only workloads of its own client, even if that client may change those of others.
fn not_own(known: &Workload) -> Refusal {
    let (id, owner) = (&known.spec.id, &known.creator);
    let message = format!("{id} belongs to {owner}: leave it out of the set, or take another name");
    Refusal::NotPermitted { message }
}
