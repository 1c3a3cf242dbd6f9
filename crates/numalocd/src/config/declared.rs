//! `[[schedule]]`: schedules that the configuration declares. A table is the API's message Schedule as people write it.

use numaloc_api::{
    value::{ScheduleId, ScheduleSpec},
    written::read_schedule,
};
use numaloc_config::{
    Document,
    written::{self, Problem, Problems, Tree},
};
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

/// Name and contents of a table.
fn contents(table: &Tree) -> Result<(ScheduleId, ScheduleSpec), Problems> {
    let expected =
        "expected letters, digits, '.', '_' or '-', and not only digits, for example \"redis\"";
    let (id, spec) = read_schedule(table, |name| id(name).ok_or_else(|| expected.to_owned()))?;
    if !spec.migration.target.pids.is_empty() {
        let problem = "a pid means another process after a while: name a unit, a cgroup, a container or workloads";
        return Err(Problem::new("spec.target.pids", problem, "").into());
    }
    Ok((id, spec))
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
        let (id, spec) = match written::all("", &table.0, contents) {
            Ok(read) => read,
            Err(problems) => {
                for Problem { path, problem, hint } in problems {
                    let dot = if path.is_empty() { "" } else { "." };
                    let separator = if hint.is_empty() { "" } else { "; " };
                    let message = format!("{problem}{separator}{hint}");
                    document.refuse(&format!("{key}{dot}{path}"), message);
                }
                continue;
            }
        };
        if let Some(other) = all.iter().find(|other| other.id == id) {
            let message =
                format!("{} declares {id} already: give this one another name", other.file);
            document.refuse(&format!("{key}.name"), message);
        }
        all.push(Declared { id, spec, file: file(index) });
    }
    all
}
