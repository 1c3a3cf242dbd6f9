//! `[[schedule]]`: schedules that the configuration declares. A table is the API's message Schedule as people write it.

use numaloc_api::{
    value::{ScheduleId, ScheduleSpec},
    written::{Problem, Tree, read_schedule},
};
use numaloc_config::Document;
use serde::Deserialize;

/// A schedule of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The name that the file gives it.
    pub id: ScheduleId,
    pub spec: ScheduleSpec,
    pub file: String,
}

/// A table as in the file.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct ScheduleTable(Tree);

/// The id that a name gives: `redis` or `schedules/redis`. Numbers are given by the daemon.
fn id(name: &str) -> Option<ScheduleId> {
    ScheduleId::named(name).filter(|id| id.number().is_none())
}

/// Checks schedules as a request that creates them is checked. `file` is the file of the schedule with this index.
pub(super) fn declared(
    tables: Vec<ScheduleTable>,
    document: &mut Document<'_>,
    file: impl Fn(usize) -> String,
) -> Vec<Declared> {
    let mut all: Vec<Declared> = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let key = format!("schedule[{index}]");
        let (name, spec) = match read_schedule(&table.0) {
            Ok(read) => read,
            Err(Problem { path, problem, hint }) => {
                let key = if path.is_empty() { key } else { format!("{key}.{path}") };
                let hint = if hint.is_empty() { hint } else { format!("; {hint}") };
                document.refuse(&key, format!("{problem}{hint}"));
                continue;
            }
        };
        let spec = match spec {
            Ok(spec) => spec,
            Err(violations) => {
                for violation in violations.iter() {
                    document.refuse(&format!("{key}.{}", violation.field), &violation.problem);
                }
                continue;
            }
        };
        let Some(id) = id(&name) else {
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
