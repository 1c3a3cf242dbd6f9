//! The mark of one client's records, and the state that a schedule was made of.

use numaloc_api::{
    Fnv, LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, v1,
    value::{ScheduleSpec, WorkloadId},
};
use prost::Message;
use std::{collections::BTreeMap, hash::Hasher};

/// The label of a schedule that names the source that it is of: [`Mark::source`].
pub const MANAGED: &str = "numaloc.io/managed-by";
/// The state that a schedule was made of. If it differs from the wanted one, the target is judged again.
pub const STATE: &str = "numaloc.io/state";
/// The id of a run that a user has requested now. Each id has one run.
pub const RUN: &str = "numaloc.io/run-now";

/// The source of numaloc-agent, which decides about policies wherever it has a workload registered.
pub const AGENT_SOURCE: &str = "agent";
/// The label of a workload of numaloc-nri that leaves policies to the source that is its value, once that is there.
pub const YIELDS_TO: &str = "numaloc.io/yields-to";

/// The namespace of the pod that a schedule is for, its name, and the name of the container.
pub const NAMESPACE: &str = "numaloc.io/namespace";
/// See [`NAMESPACE`].
pub const POD: &str = "numaloc.io/pod";
/// See [`NAMESPACE`].
pub const CONTAINER: &str = "numaloc.io/container";

/// The mark of one client's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The source of its workloads, and the value of [`MANAGED`] of its schedules.
    pub source: &'static str,
    /// The label that distinguishes the schedules of this source. Their jobs have it, too.
    pub key: &'static str,
}

/// A number that differs when the schedule or one of `more` differs. It is stored, so it is the same in each version,
/// and for each text of one policy: it is that of the schedule with all of its defaults.
pub fn state(schedule: &v1::Schedule, more: &[&str]) -> String {
    let mut hash = Fnv::default();
    let whole = ScheduleSpec::try_from(schedule.clone()).map_or_else(
        |_| schedule.clone(),
        |spec| v1::Schedule { name: schedule.name.clone(), ..(&spec).into() },
    );
    hash.write(&whole.encode_to_vec());
    more.iter().for_each(|text| write_text(&mut hash, text));
    hex(hash)
}

/// A number that differs when one of the texts differs, the same in each version: 16 hexadecimal digits.
pub fn hash(texts: &[&str]) -> String {
    let mut hash = Fnv::default();
    texts.iter().for_each(|text| write_text(&mut hash, text));
    hex(hash)
}

fn write_text(hash: &mut Fnv, text: &str) {
    hash.write(text.as_bytes());
    hash.write(&[0]);
}

fn hex(hash: Fnv) -> String {
    format!("{:016x}", hash.finish())
}

/// The labels that the API accepts. The first of a key counts.
pub fn fitting(labels: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    let mut fitting = BTreeMap::new();
    for (key, value) in labels {
        let fits = (1..=LABEL_KEY_MAX).contains(&key.len()) && value.len() <= LABEL_VALUE_MAX;
        if fits && is_plain(&key) && is_plain(&value) && fitting.len() < LABELS_MAX {
            fitting.entry(key).or_insert(value);
        }
    }
    fitting
}

/// A pod's uid or namespace, if the API takes it.
pub fn token(text: &str) -> Option<String> {
    // The bounds are those of an id.
    WorkloadId::new(text).map(|_| text.to_owned())
}
