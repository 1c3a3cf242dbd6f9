//! The figures that are compared before and after advice was carried out: a subject's memory by node, and for how long
//! its tasks waited.

use crate::{
    Error, ErrorKind, LookRequest, Pressure, Resource, Roots, Target,
    files::wait::wait,
    look,
    processes::{cgroup, pressure::Scope, thread::start_time},
};
use numaloc_core::{
    NodeId,
    advise::{Sight, Who},
    page_size,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const RESOURCES: [(Resource, &str); 2] = [(Resource::Cpu, "CPU"), (Resource::Memory, "memory")];

/// Looks at a subject for this time, or at the pressure of the whole host if there is none. `None`: it has ended.
///
/// # Errors
/// As [`look`].
pub fn sight(
    stop: &(dyn Fn() -> bool + Sync),
    roots: &Roots,
    who: Option<&Who>,
    interval: Duration,
) -> Result<Option<Sight>, Error> {
    if who.is_some_and(|who| !exists(roots, who)) {
        return Ok(None);
    }
    let (mut files, begin) = (files(roots, who), Instant::now());
    let before: Vec<Option<Duration>> = files.iter_mut().map(|(_, file)| file.read()).collect();
    let resident = match who {
        None => {
            wait(interval, stop);
            BTreeMap::new()
        }
        Some(who) => match resident(stop, roots, who, interval) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read?,
        },
    };
    let span = begin.elapsed().as_secs_f64().max(0.001);
    let waited = files.iter_mut().zip(before).filter_map(|((name, file), before)| {
        let waited = file.read()?.saturating_sub(before?);
        Some((*name, (waited.as_secs_f64() * 100.0 / span).min(100.0)))
    });
    let sight = Sight { resident, pressure: waited.collect() };
    Ok(who.is_none_or(|who| exists(roots, who)).then_some(sight))
}

fn exists(roots: &Roots, who: &Who) -> bool {
    match who {
        Who::Cgroup(path) => cgroup::processes(roots, path).is_ok_and(|pids| !pids.is_empty()),
        Who::Process(identity) => start_time(roots, identity.pid) == Some(identity.start_time),
    }
}

/// The pressure of the subject's own cgroup. That of the whole host says little of a subject.
fn files(roots: &Roots, who: Option<&Who>) -> Vec<(&'static str, Pressure)> {
    let open = |resource| match who {
        None => Pressure::of_cgroup(roots, None, resource),
        Some(Who::Cgroup(path)) => Pressure::of_cgroup(roots, Some(path), resource),
        Some(Who::Process(identity)) => Pressure::of(roots, &[identity.pid], resource, 1).pop(),
    };
    let own = |file: &Pressure| who.is_none() || matches!(file.scope, Scope::Cgroup(_));
    let files = RESOURCES.iter().map(|&(resource, name)| Some((name, open(resource).filter(own)?)));
    files.flatten().collect()
}

fn resident(
    stop: &(dyn Fn() -> bool + Sync),
    roots: &Roots,
    who: &Who,
    interval: Duration,
) -> Result<BTreeMap<NodeId, u64>, Error> {
    let target = match who {
        Who::Cgroup(path) => Target::Cgroup(path.clone()),
        Who::Process(identity) => Target::Pid(identity.pid),
    };
    let looked = look(
        stop,
        roots,
        &LookRequest { targets: vec![target], min_bytes: page_size(), interval },
    )?;
    let mut nodes = BTreeMap::new();
    for subject in &looked.look.subjects {
        let all = subject.resident.iter().chain(subject.hugetlb.values().flatten());
        for (&node, &bytes) in all {
            *nodes.entry(node).or_default() += bytes;
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use numaloc_core::Identity;

    fn seen(fake: &Fake, who: Option<&Who>) -> Option<Sight> {
        sight(&|| false, &fake.roots(), who, Duration::ZERO).expect("it can be read")
    }

    #[test]
    fn of_the_host_only_its_pressure_is_seen() {
        let fake = Fake::new();
        assert_eq!(seen(&fake, None), Some(Sight::default()));
        fake.write("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
        let pressure = [("memory", 0.0)].into();
        assert_eq!(seen(&fake, None), Some(Sight { pressure, ..Sight::default() }));
    }

    #[test]
    fn who_has_ended_is_not_seen() {
        let fake = Fake::new();
        fake.process(100, "x", &["0"]);
        let process = |start_time| Who::Process(Identity { pid: 100, start_time });
        assert_eq!(seen(&fake, Some(&process(7))), None, "a later one has its pid");
        assert_eq!(seen(&fake, Some(&Who::Cgroup("/gone".into()))), None);
        assert!(exists(&fake.roots(), &process(1100)));
    }
}
