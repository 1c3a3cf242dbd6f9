//! Values for a shell's completion. Unknown values are left out: an error would end up in the user's command line.

use super::{Surroundings, daemon_within};
use crate::{
    args::{Cli, ValueKind},
    columns::Column,
    exit::Code,
    output::CommandResult,
};
use numaloc_api::value::{JobFilter, ScheduleFilter, WorkloadFilter};
use numaloc_host::{NamedProcess, Roots, named_processes};
use std::{collections::BTreeSet, fs, time::Duration};

/// Longest wait for a connection, and for an answer of the daemon.
const PATIENCE: Duration = Duration::from_millis(500);
/// Most jobs to choose from: the newest.
const JOBS_MAX: u64 = 100;

/// Prints the values of a kind, a line each.
pub fn run(cli: &Cli, around: &Surroundings, kind: ValueKind) -> CommandResult {
    let values = match kind {
        ValueKind::Columns => {
            Column::ALL.iter().map(|column| column.name().to_lowercase()).collect()
        }
        ValueKind::Jobs | ValueKind::Schedules | ValueKind::Workloads | ValueKind::Containers => {
            of_daemon(cli, around, kind).unwrap_or_default()
        }
        _ => of_host(&around.roots, kind),
    };
    let values = values.into_iter().filter(|value| is_plain(value));
    CommandResult { text: values.map(|value| value + "\n").collect(), code: Code::Done }
}

/// Whether a value is the same in all shells: names of processes can contain any characters, and shells expand some.
fn is_plain(value: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+%".contains(c);
    !value.is_empty() && value.chars().all(is_plain) && !value.starts_with('-')
}

fn of_host(roots: &Roots, kind: ValueKind) -> Vec<String> {
    let processes = named_processes(roots);
    let pids = || processes.iter().map(|process| process.pid.to_string());
    let cgroups = processes.iter().filter_map(|process| process.cgroup.as_deref());
    match kind {
        ValueKind::Pids => pids().collect(),
        ValueKind::Processes => names(&processes).into_iter().chain(pids()).collect(),
        ValueKind::Cgroups => sorted(cgroups.map(str::to_owned)),
        ValueKind::Units => sorted(cgroups.filter_map(unit)),
        ValueKind::Nodes => nodes(roots),
        _ => Vec::new(),
    }
}

/// The numbers of the online nodes.
fn nodes(roots: &Roots) -> Vec<String> {
    let directory = fs::read_dir(roots.sys.join("devices/system/node"));
    let names = directory.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let ids = names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse::<u32>().ok());
    ids.collect::<BTreeSet<_>>().iter().map(u32::to_string).collect()
}

fn names(processes: &[NamedProcess]) -> Vec<String> {
    sorted(processes.iter().map(|process| process.comm.clone()))
}

/// The unit that a cgroup is of: the last component that names a service or scope.
fn unit(cgroup: &str) -> Option<String> {
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    cgroup.split('/').rfind(is_unit).map(str::to_owned)
}

fn sorted(values: impl Iterator<Item = String>) -> Vec<String> {
    values.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Names of the daemon's records; `None` for any error.
fn of_daemon(cli: &Cli, around: &Surroundings, kind: ValueKind) -> Option<Vec<String>> {
    let daemon = daemon_within(cli, around, PATIENCE)?;
    let id = |name: &String| name.split_once('/').map(|(_, id)| id.to_owned());
    Some(match kind {
        ValueKind::Jobs => {
            let jobs = daemon.list_jobs(&JobFilter::default(), Some(JOBS_MAX)).ok()?.jobs;
            jobs.iter().filter_map(|job| id(&job.name)).collect()
        }
        ValueKind::Schedules => {
            let schedules = daemon.list_schedules(&ScheduleFilter::default()).ok()?.schedules;
            schedules.iter().filter_map(|schedule| id(&schedule.name)).collect()
        }
        _ => {
            let workloads = daemon.list_workloads(&WorkloadFilter::default()).ok()?.workloads;
            match kind {
                ValueKind::Containers => {
                    sorted(workloads.into_iter().map(|each| each.container_id))
                }
                _ => workloads.iter().filter_map(|workload| id(&workload.name)).collect(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_expand_is_left_out() {
        for value in ["redis-server", "4711", "/system.slice/a.service", "user@1000.service", "n%l"]
        {
            assert!(is_plain(value), "{value}");
        }
        for value in ["", "$(reboot)", "a b", "`x`", "a;b", "-x", "a\nb", "é", "a*"] {
            assert!(!is_plain(value), "{value}");
        }
    }

    #[test]
    fn a_cgroup_is_of_its_innermost_unit() {
        assert_eq!(unit("/system.slice/redis.service").as_deref(), Some("redis.service"));
        let user = "/user.slice/user-0.slice/user@0.service/app.slice/x.scope/y";
        assert_eq!(unit(user).as_deref(), Some("x.scope"));
        assert_eq!(unit("/batch"), None);
    }
}
