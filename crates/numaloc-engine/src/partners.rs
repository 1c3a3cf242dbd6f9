//! Registered workloads that may make room for a job.

use crate::{
    Aim, Local, Offer, Offers,
    authority::{self, Authority},
    members::Members,
};
use numaloc_api::value::Partner;
use numaloc_core::{Topology, exchange};
use numaloc_executor::{Outcome, Partners, Party, PlannedMigration, identities};

/// Has the offered processes make room for a plan that lacks room. Other plans do without: while a job has partners, no
/// other job gets them.
pub fn take_in(
    local: &Local,
    planned: &mut PlannedMigration<Members>,
    offers: &Offers,
    authority: &Authority,
    stop: &(dyn Fn() -> bool + Sync),
) {
    if exchange::lacks_room(&planned.plan) {
        let partners = find(local, &planned.topology, offers, authority, stop);
        planned.exchange(partners, stop);
    }
}

/// Finds the offered processes. Leaves out an offer if the right of the job's owner (`authority`) or of the offer's
/// registrar does not extend to each of its processes.
fn find(
    local: &Local,
    topology: &Topology,
    Offers { workloads, limits }: &Offers,
    authority: &Authority,
    stop: &dyn Fn() -> bool,
) -> Partners<Members> {
    let refused = local.makes_no_room;
    let mut partners = Partners { parties: Vec::new(), limits: limits.clone(), refused };
    for Offer { member, by } in workloads {
        let aim = Aim::of(vec![member.clone()]);
        let found = Members::look(local, &aim, topology, authority, stop);
        let found = found.and_then(|members| {
            authority::check(&local.roots, members.processes(), by).map(|()| members)
        });
        match found {
            Ok(members) => partners.parties.push(members),
            Err(error) => refused(&member.name.to_string(), &(local.words)(&error)),
        }
    }
    partners
}

/// Memory of the partners that these runs have moved.
pub fn moved(planned: &PlannedMigration<Members>, runs: &[Outcome]) -> Vec<Partner> {
    let known = |party| Some((Members::member(party)?.clone(), identities(party)));
    Partner::of_runs(planned.partners().iter().filter_map(known), runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Member, fixture::Asleep};
    use numaloc_api::value::Target;
    use numaloc_core::Options;
    use numaloc_executor::{Migration, RunLimits};
    use numaloc_host::{Policies, Roots, Target as HostTarget};

    fn offer(of: &Asleep, name: &str, by: Authority) -> Offer {
        let member = Member { target: HostTarget::Pid(of.pid()), name: Target::cgroup(name) };
        Offer { member, by }
    }

    fn nobody() -> Authority {
        Authority::NONE
    }

    fn found(offers: Vec<Offer>, authority: &Authority, target: &Asleep) -> Vec<String> {
        let local = Local::for_tests(Roots::default());
        let name = Target::default();
        let members = vec![Member { target: HostTarget::Pid(target.pid()), name }];
        let aim = Aim::of(members);
        let find =
            |topology: &Topology| Members::look(&local, &aim, topology, &Authority::All, &|| false);
        let migration = Migration::on(&local.roots).expect("hwloc");
        let planned = migration.plan(&Options::default(), Policies::Leave, &|| false, find);
        let mut planned = planned.expect("it sleeps");
        let offers = Offers { workloads: offers, limits: RunLimits::default() };
        let partners = super::find(&local, &planned.topology, &offers, authority, &|| false);
        planned.exchange(partners, &|| false);
        let partners = planned.partners();
        assert!(partners.iter().all(|partner| identities(partner).len() == 1));
        partners.iter().filter_map(Members::member).map(ToString::to_string).collect()
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
