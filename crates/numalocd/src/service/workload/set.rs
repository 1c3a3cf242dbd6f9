//! A set of workloads that comes in parts.

use crate::{
    access::{Caller, REQUEST_MAX},
    config::Quota,
    refusal::Refusal,
    service::{
        Parts,
        watch::{stopped, stopping},
    },
    store::Weight,
};
use numaloc_api::{
    Problem, Violations, v1,
    value::{WorkloadId, WorkloadSet, WorkloadsPart},
};
use std::{collections::HashSet, time::Duration};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

/// Time that a client may be silent before the call is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads a set up to the part that says that it is the last one. A stream that the client has cancelled looks like one
/// that has ended, so nothing is done unless the last part has come.
///
/// # Errors
/// The messages cannot be read. The inner result is a refusal: the messages are not valid, are too many, or come too
/// slowly.
pub async fn read(
    parts: &Parts,
    caller: &Caller,
    mut messages: Streaming<v1::ReplaceWorkloadsRequest>,
) -> Result<Result<WorkloadSet, Refusal>, Status> {
    let mut stop = parts.stop.clone();
    let mut gathered = Gathered::new(parts.accounts.quota(), &caller.name);
    loop {
        let message = tokio::select! {
            biased;
            () = stopped(&mut stop) => return Ok(Err(stopping())),
            message = timeout(PATIENCE, messages.message()) => message,
        };
        let added = match message {
            Err(_) => Err(silent()),
            Ok(message) => match message.map_err(too_large)? {
                Some(message) => gathered.add(message),
                None => Err(ended_early()),
            },
        };
        match added {
            Ok(false) => {}
            Ok(true) => return Ok(Ok(gathered.set)),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
}

/// tonic's only use of OUT_OF_RANGE is a message of too many bytes. In this API the code means something else.
fn too_large(status: Status) -> Status {
    match status.code() {
        Code::OutOfRange => Refusal::TooLarge { most: REQUEST_MAX }.into(),
        _ => status,
    }
}

fn silent() -> Refusal {
    let message = format!("no part of the set came for {} s: send it again", PATIENCE.as_secs());
    Refusal::Unavailable { message }
}

fn ended_early() -> Refusal {
    let mut bad = Violations::default();
    bad.push("last", Problem::Missing);
    bad.into()
}

/// The parts of a set that have come. A set larger than the caller's quota is refused.
struct Gathered {
    set: WorkloadSet,
    ttl: Option<Duration>,
    names: HashSet<WorkloadId>,
    bytes: usize,
    is_begun: bool,
    quota: Quota,
    caller: String,
}

impl Gathered {
    fn new(quota: Quota, caller: &str) -> Self {
        Self {
            set: WorkloadSet::default(),
            ttl: None,
            names: HashSet::new(),
            bytes: 0,
            is_begun: false,
            quota,
            caller: caller.to_owned(),
        }
    }

    /// Adds a message. Gives back whether it is the last one.
    fn add(&mut self, message: v1::ReplaceWorkloadsRequest) -> Result<bool, Refusal> {
        let WorkloadsPart { source, ttl, specs, is_last, validate_only } = message.try_into()?;
        let mut bad = Violations::default();
        if self.is_begun {
            let is_other = validate_only && !self.set.validate_only;
            differs("validate_only", is_other, &mut bad);
            differs("source", source.is_some() && source != self.set.source, &mut bad);
            differs("ttl", ttl.is_some() && ttl != self.ttl, &mut bad);
        } else {
            (self.set.source, self.ttl, self.is_begun) = (source, ttl, true);
            self.set.validate_only = validate_only;
        }
        for (index, mut spec) in specs.into_iter().enumerate() {
            let at = |name: &str| format!("workloads[{index}].{name}");
            let is_other = spec.source.is_some() && spec.source != self.set.source;
            differs(&at("source"), is_other, &mut bad);
            if !self.names.insert(spec.id.clone()) {
                bad.push(at("name"), Problem::Twice);
            }
            spec.source.clone_from(&self.set.source);
            spec.ttl = spec.ttl.or(self.ttl);
            self.bytes += spec.weight();
            self.set.specs.push(spec);
        }
        if bad.iter().next().is_some() {
            return Err(bad.into());
        }
        self.check_quota()?;
        Ok(is_last)
    }

    fn check_quota(&self) -> Result<(), Refusal> {
        let quota = &self.quota;
        let refused =
            |what, limit| Err(Refusal::Quota { what, limit, caller: self.caller.clone() });
        match () {
            () if self.set.specs.len() > quota.workloads => refused("workloads", quota.workloads),
            () if self.bytes > quota.bytes => refused("bytes of records", quota.bytes),
            () => Ok(()),
        }
    }
}

fn differs(field: &str, differs: bool, bad: &mut Violations) {
    if differs {
        bad.push(field, Problem::Differs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(source: &str, names: &[&str], last: bool) -> v1::ReplaceWorkloadsRequest {
        let workload = |name: &&str| v1::Workload {
            name: format!("workloads/{name}"),
            cgroup: format!("/pods/{name}"),
            ..Default::default()
        };
        let workloads = names.iter().map(workload).collect();
        let source = source.to_owned();
        v1::ReplaceWorkloadsRequest { source, workloads, last, ..Default::default() }
    }

    fn seconds(seconds: i64) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos: 0 })
    }

    /// The set that these parts make, once the last part has arrived.
    fn gather(
        quota: Quota,
        parts: Vec<v1::ReplaceWorkloadsRequest>,
    ) -> Result<Option<WorkloadSet>, String> {
        let mut gathered = Gathered::new(quota, "uid:7");
        let mut is_last = false;
        for part in parts {
            is_last = gathered.add(part).map_err(|refusal| refusal.to_string())?;
        }
        Ok(is_last.then_some(gathered.set))
    }

    #[test]
    fn parts_make_a_set_of_one_source() {
        let first = v1::ReplaceWorkloadsRequest { ttl: seconds(60), ..part("node", &["a"], false) };
        let mut second = part("", &["b", "c"], true);
        second.workloads[0].ttl = seconds(5);
        second.workloads[1].source = "node".to_owned();
        let set = gather(Quota::default(), vec![first.clone(), second]);
        let set = set.expect("they fit").expect("the last one has come");
        assert_eq!(set.source.as_deref(), Some("node"));
        let told: Vec<_> = set.specs.iter().map(|spec| (spec.id.id(), spec.ttl)).collect();
        let ttl = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(told, [("a", ttl(60)), ("b", ttl(5)), ("c", ttl(60))]);
        assert!(set.specs.iter().all(|spec| spec.source.as_deref() == Some("node")));
        assert_eq!(gather(Quota::default(), vec![first]), Ok(None));
        // An empty set needs a last part, too.
        let none = gather(Quota::default(), vec![part("node", &[], true)]);
        assert_eq!(none.expect("it fits").expect("it is the last").specs, []);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let quota = |workloads, bytes| Quota { workloads, bytes, ..Quota::default() };
        let any = Quota::default();
        let mut foreign = part("node", &["a", "b"], true);
        foreign.workloads[1].source = "other".to_owned();
        let late_ttl = v1::ReplaceWorkloadsRequest { ttl: seconds(60), ..part("", &[], true) };
        let late_check = v1::ReplaceWorkloadsRequest { validate_only: true, ..part("", &[], true) };
        let late_check = vec![part("x", &["a"], false), late_check];
        for (quota, parts, expected) in [
            (any, vec![part("x", &["a"], false), part("y", &[], true)], "source differs from"),
            (any, vec![part("", &["a"], false), part("y", &[], true)], "source differs from"),
            (any, vec![part("x", &["a"], false), late_ttl], "ttl differs from"),
            (any, late_check, "validate_only differs from"),
            (any, vec![foreign], "workloads[1].source differs from"),
            (
                any,
                vec![part("", &["a"], false), part("", &["b", "a"], true)],
                "workloads[1].name is",
            ),
            (any, vec![part("", &["a", "a b"], true)], "workloads[1].name must be"),
            (
                quota(2, 1 << 20),
                vec![part("", &["a", "b", "c"], false)],
                "quota used up: 2 workloads",
            ),
            (
                quota(9, 4096),
                vec![part("", &["a", "b", "c", "d"], false)],
                "quota used up: 4096 bytes",
            ),
        ] {
            let refused = gather(quota, parts).expect_err(expected);
            assert!(refused.starts_with(expected), "{refused}");
        }
        assert_eq!(ended_early().to_string(), "last is required");
    }
}
