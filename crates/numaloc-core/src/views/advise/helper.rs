//! A few threads that hardly work make nodes home that the others never run on.

use super::{
    capacity::{HostState, Way, shares, way},
    finding::{Finding, FindingKind},
    look::{Subject, Who},
    step::{AdviceStep, How},
};
use crate::{
    ask::{home_rule::HomeRule, options::Options},
    home::home,
    machine::{
        ids::{CpuSet, NodeSet},
        process::Process,
    },
};

/// More threads than this are not pinned one by one.
const THREADS: usize = 16;

/// The home of those threads that work, and their CPUs, if that is less than the home of all.
pub fn core(host: &HostState, subject: &Subject) -> Option<(NodeSet, CpuSet)> {
    let Who::Process(identity) = subject.who else { return None };
    if subject.threads.is_empty() {
        return None;
    }
    let process = Process {
        identity,
        comm: String::new(),
        cpus: subject.cpus.clone(),
        threads: subject.threads.clone(),
        mems_allowed: subject.mems.clone(),
        device_nodes: NodeSet::new(),
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    };
    let options = Options { home: HomeRule::Busy, ..Options::default() };
    let busy = home(&host.look.topology, &process, &options);
    let inside = subject.threads.iter();
    let inside =
        inside.filter(|group| host.look.topology.local_nodes(&group.cpus).is_subset(&busy));
    let cpus = inside.fold(CpuSet::new(), |cpus, group| cpus.or(&group.cpus));
    let is_less = busy != subject.home(&host.look.topology) && !busy.is_empty() && !cpus.is_empty();
    is_less.then_some((busy, cpus))
}

/// Memory that is not where the working threads are.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let (busy, cpus) = core(host, subject)?;
    let Way { from, bytes, flows } = way(host, subject, &busy, min_bytes)?;
    let helpers = helpers(host, subject, &busy);
    let pinned = helpers.iter().map(|&tid| AdviceStep::ThreadCpus { tid, cpus: cpus.clone() });
    let migrate = AdviceStep::Migrate { who: subject.who.clone(), how: How::Busy };
    let steps: Vec<AdviceStep> = pinned.chain([migrate]).collect();
    let shares = shares(&host.look.topology, subject);
    Some(Finding {
        from_nodes: subject.home(&host.look.topology),
        cpus: (!helpers.is_empty()).then_some(cpus),
        home: busy,
        weight: host.exposed(&from, &shares) * subject.used_cpus(),
        flows,
        helpers,
        steps,
        ..Finding::of(subject, FindingKind::Helper, bytes)
    })
}

/// The threads to be pinned: threads that may run elsewhere, if all of them are known.
fn helpers(host: &HostState, subject: &Subject, busy: &NodeSet) -> Vec<i32> {
    let wide = subject.threads.iter();
    let wide: Vec<_> =
        wide.filter(|group| !host.look.topology.local_nodes(&group.cpus).is_subset(busy)).collect();
    let count: usize = wide.iter().map(|group| group.count).sum();
    let known: Vec<i32> =
        wide.iter().flat_map(|group| group.busiest.iter().map(|thread| thread.tid)).collect();
    let all_known = known.len() == count && count <= THREADS && subject.can_be_pinned();
    if all_known { known } else { Vec::new() }
}
