//! `[[schedule]]`: schedules that the configuration declares. A table is the API's message Schedule in protobuf's JSON mapping.

use numaloc_api::{
    Violations, read_schedule,
    value::{ScheduleId, ScheduleSpec},
};
use numaloc_config::Document;
use serde::{Deserialize, Deserializer};

/// A schedule of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The name that the file gives it.
    pub id: ScheduleId,
    /// What it does, and when.
    pub spec: ScheduleSpec,
    /// The file that declares it.
    pub file: String,
}

/// A table as it is written.
#[derive(Debug)]
pub(super) struct ScheduleTable {
    name: String,
    spec: Result<ScheduleSpec, Violations>,
}

impl<'de> Deserialize<'de> for ScheduleTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_schedule(from).map(|(name, spec)| Self { name, spec })
    }
}

impl ScheduleTable {
    /// The id that `name` gives: `redis` or `schedules/redis`. Numbers are given by the daemon.
    fn id(&self) -> Option<ScheduleId> {
        ScheduleId::named(&self.name).filter(|id| id.number().is_none())
    }
}

/// Checks schedules as a request that creates them is checked. `file` is where the schedule with this index stands.
pub(super) fn declared(
    tables: Vec<ScheduleTable>,
    document: &mut Document<'_>,
    file: impl Fn(usize) -> String,
) -> Vec<Declared> {
    // A table that is no schedule at all has been removed, and then the indexes of the file are not those of the list.
    if document.has(&format!("schedule[{}]", tables.len())) {
        return Vec::new();
    }
    let mut all: Vec<Declared> = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let key = format!("schedule[{index}]");
        let id = table.id();
        let spec = match table.spec {
            Ok(spec) => spec,
            Err(violations) => {
                for violation in violations.iter() {
                    document.refuse(&format!("{key}.{}", violation.field), &violation.problem);
                }
                continue;
            }
        };
        let Some(id) = id else {
            document.refuse(
                &format!("{key}.name"),
                "expected letters, digits, '.', '_' or '-', and not only digits, for example \"redis\"",
            );
            continue;
        };
        if let Some(other) = all.iter().find(|other| other.id == id) {
            let message =
                format!("{} declares {id} already: give this one another name", other.file);
            document.refuse(&format!("{key}.name"), message);
        }
        if !spec.migration.target.pids.is_empty() {
            document.refuse(
                &format!("{key}.spec.target.pids"),
                "a pid means another process after a while: name a unit, a cgroup, a container or workloads",
            );
        }
        all.push(Declared { id, spec, file: file(index) });
    }
    all
}
