//! Registered workloads that may make room for a job.

use super::{authority, members::Members};
use crate::{
    access::Authority,
    order::{Aim, Offer, Offers},
};
use numaloc_api::value::{Partner, Target};
use numaloc_core::{Identity, Options, Plan, Process, Topology, exchange};
use numaloc_executor::{InOrder, Outcome, RunLimits, homes};
use numaloc_host::{Policies, Roots};
use std::collections::BTreeSet;

/// Those of the offered workloads that may make room, as found on the host.
#[derive(Debug, Default)]
pub struct Partners {
    each: Vec<(Target, Members)>,
    limits: RunLimits,
}

impl Partners {
    /// Finds them. Leaves out those of which `authority`, the right of the job's owner, or the right of their registrar does not
    /// extend to each process, and those with processes that the target has, or a partner before them.
    pub fn find(
        roots: &Roots,
        topology: &Topology,
        offers: Offers,
        authority: &Authority,
        target: &Members,
    ) -> Self {
        let mut taken = identities(&target.processes());
        let mut each = Vec::new();
        for Offer { member, by } in offers.workloads {
            let name = member.name.clone();
            let aim = Aim { members: vec![member], missing: Vec::new() };
            let found = Members::look(roots, &aim, topology, authority).and_then(|members| {
                authority::check(roots, &members.processes(), &by).map(|()| members)
            });
            match found {
                Ok(members) => {
                    let own = identities(&members.processes());
                    if exchange::enlist(&mut taken, own) {
                        each.push((name, members));
                    }
                }
                Err(refusal) => tracing::debug!(partner = %name, %refusal, "makes no room"),
            }
        }
        Self { each, limits: offers.limits }
    }

    /// Whether nobody makes room.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Their processes.
    pub fn processes(&self) -> impl Iterator<Item = Identity> {
        self.each.iter().flat_map(|(_, members)| identities(&members.processes()))
    }

    /// Asks them one after the other, for a run with these options.
    pub fn in_order<'a>(
        &'a mut self,
        (roots, topology): (&'a Roots, &'a Topology),
        options: &Options,
        authority: &'a Authority,
        stop: &'a (dyn Fn() -> bool + Sync),
        policies: Policies<'a>,
    ) -> InOrder<'a> {
        let homes = self.each.iter().map(|(_, members)| homes(topology, &members.processes()));
        let homes = homes.collect();
        let each = &mut self.each;
        let look = move |index: usize, options: &Options| {
            let (name, members) = each.get_mut(index)?;
            let host = (roots, topology);
            let survey = members.survey(stop, policies, host, options, authority);
            survey
                .inspect_err(|refusal| tracing::info!(partner = %name, %refusal, "makes no room"))
                .ok()
        };
        InOrder::new(topology, options, homes, self.limits.clone(), look)
    }

    /// Those who may make room for a plan, which is told how much they will make. Nobody, if it lacks none.
    pub fn expected(
        (roots, topology): (&Roots, &Topology),
        plan: &mut Plan,
        (offers, authority): (Offers, &Authority),
        target: &Members,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Self {
        if !wants_room(plan) {
            return Self::default();
        }
        let mut partners = Self::find(roots, topology, offers, authority, target);
        let (options, host) = (plan.options.clone(), (roots, topology));
        partners.in_order(host, &options, authority, stop, Policies::Leave).expect(plan);
        partners
    }

    /// What was moved of them in these runs.
    pub fn moved(&self, runs: &[Outcome]) -> Vec<Partner> {
        let processes = self.each.iter().map(|(_, members)| identities(&members.processes()));
        let processes: Vec<_> = processes.collect();
        let names = self.each.iter().map(|(name, _)| name);
        Partner::of_runs(names.zip(&processes), runs)
    }
}

/// Whether a plan lacks room that others could make.
fn wants_room(plan: &Plan) -> bool {
    plan.options.make_room == numaloc_core::MakeRoom::Exchange
        && !plan.no_room.is_empty()
        && !exchange::sides(plan).is_empty()
}

fn identities(processes: &[Process]) -> BTreeSet<Identity> {
    processes.iter().map(|process| process.identity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::fixture::{Asleep, topology},
        order::Member,
    };
    use numaloc_host::Target as HostTarget;

    fn offer(of: &Asleep, name: &str, by: Authority) -> Offer {
        let member = Member { target: HostTarget::Pid(of.pid()), name: Target::cgroup(name) };
        Offer { member, by }
    }

    fn nobody() -> Authority {
        Authority::Of { uid: None, cgroups: Vec::new() }
    }

    fn found(offers: Vec<Offer>, authority: &Authority, target: &Asleep) -> Vec<String> {
        let (roots, topology) = (Roots::default(), topology());
        let name = Target::default();
        let members = vec![Member { target: HostTarget::Pid(target.pid()), name }];
        let aim = Aim { members, missing: Vec::new() };
        let target = Members::look(&roots, &aim, &topology, &Authority::All).expect("it sleeps");
        let offers = Offers { workloads: offers, limits: RunLimits::default() };
        let partners = Partners::find(&roots, &topology, offers, authority, &target);
        assert_eq!(partners.processes().count(), partners.each.len());
        partners.each.iter().map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn owner_and_registrar_both_need_the_right_to_it() {
        let (target, other) = (Asleep::new(), Asleep::new());
        let by = |by| vec![offer(&other, "/be", by)];
        assert_eq!(found(by(Authority::All), &Authority::All, &target), ["cgroup /be"]);
        assert!(found(by(nobody()), &Authority::All, &target).is_empty());
        assert!(found(by(Authority::All), &nobody(), &target).is_empty());
    }

    #[test]
    fn nobody_makes_room_for_itself_nor_twice() {
        let (target, other) = (Asleep::new(), Asleep::new());
        let all = |of: &Asleep, name: &str| offer(of, name, Authority::All);
        let offers = vec![all(&target, "/own"), all(&other, "/a"), all(&other, "/b")];
        assert_eq!(found(offers, &Authority::All, &target), ["cgroup /a"]);
        let mut gone = Asleep::new();
        let offers = vec![all(&gone, "/gone"), all(&other, "/a")];
        gone.kill();
        let names = found(offers, &Authority::All, &target);
        assert_eq!(names.last().map(String::as_str), Some("cgroup /a"), "{names:?}");
    }
}
