//! Steps of advice: commands that a person or an agent runs.

use super::{
    action::{Action, Pinned},
    look::Who,
};
use crate::machine::ids::{CpuSet, NodeId, NodeSet};

/// One command of an advice, which is printed, or carried out by `numalocctl advise --apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant names what its fields set")]
pub enum AdviceStep {
    /// Sets the CPUs of a systemd unit, which has this cgroup.
    UnitCpus { unit: String, cgroup: String, cpus: CpuSet },
    /// Sets the CPUs of a cgroup.
    CgroupCpus { directory: String, cpus: CpuSet },
    /// Sets the CPUs of all threads of all processes of a cgroup.
    MembersCpus { directory: String, cpus: CpuSet },
    /// Sets the CPUs of all threads of a process.
    ProcessCpus { pid: i32, cpus: CpuSet },
    /// Sets the CPUs of one thread.
    ThreadCpus { tid: i32, cpus: CpuSet },
    /// Moves memory with `numalocctl migrate`.
    Migrate { who: Who, how: How },
    /// Sets the nodes of a systemd unit, which has this cgroup.
    UnitMems { unit: String, cgroup: String, nodes: NodeSet },
    /// Sets the nodes of a cgroup.
    CgroupMems { directory: String, nodes: NodeSet },
    /// Writes a setting of the kernel.
    Write { path: &'static str, value: String },
}

/// Options of a migration besides its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum How {
    /// Nothing: memory goes to the nodes of the CPUs.
    #[default]
    Home,
    /// Threads that hardly work have no say (`--home busy`).
    Busy,
    /// The devices that are open decide, and not the CPUs (`--home devices`).
    Devices,
    /// Against the application's own policy (`--include-bound`).
    Bound,
    /// Hugetlb pages that the target's pool lacks come from free memory (`--hugetlb fresh`).
    Fresh,
    /// From one node to another, until the other one has `ratio` percent of the memory on both.
    #[expect(missing_docs, reason = "the variant names all three")]
    Part { from: NodeId, to: NodeId, ratio: u8 },
}

impl AdviceStep {
    /// One line for a POSIX shell, to be run as root.
    pub fn shell(&self) -> String {
        self.action().shell()
    }

    /// The action that the line performs.
    pub fn action(&self) -> Action {
        let property = |(unit, cgroup): (&String, &String), name, value: String| Action::Property {
            unit: unit.clone(),
            cgroup: cgroup.clone(),
            name,
            value,
        };
        let file = |directory: &String, name: &str, value: String| Action::Write {
            path: format!("{directory}/{name}"),
            value,
        };
        let pin = |whom, cpus: &CpuSet| Action::Pin { whom, cpus: cpus.clone() };
        match self {
            Self::UnitCpus { unit, cgroup, cpus } => {
                property((unit, cgroup), "AllowedCPUs", cpus.to_string())
            }
            Self::UnitMems { unit, cgroup, nodes } => {
                property((unit, cgroup), "AllowedMemoryNodes", nodes.to_string())
            }
            Self::CgroupCpus { directory, cpus } => {
                file(directory, "cpuset.cpus", cpus.to_string())
            }
            Self::CgroupMems { directory, nodes } => {
                file(directory, "cpuset.mems", nodes.to_string())
            }
            Self::MembersCpus { directory, cpus } => pin(Pinned::Members(directory.clone()), cpus),
            Self::ProcessCpus { pid, cpus } => pin(Pinned::Process(*pid), cpus),
            Self::ThreadCpus { tid, cpus } => pin(Pinned::Thread(*tid), cpus),
            Self::Migrate { who, how } => Action::Migrate(migration(who, *how)),
            Self::Write { path, value } => {
                Action::Write { path: (*path).to_owned(), value: value.clone() }
            }
        }
    }
}

/// The command line of a migration.
pub fn migration(who: &Who, how: How) -> Vec<String> {
    let [option, value] = match who {
        Who::Cgroup(path) => ["--cgroup", path],
        Who::Process(identity) => ["--pid", &identity.pid.to_string()],
    };
    let words = ["numalocctl", "migrate", option, value].map(str::to_owned);
    words.into_iter().chain(how.options()).collect()
}

impl How {
    fn options(self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match self {
            Self::Home => Vec::new(),
            Self::Busy => words(&["--home", "busy"]),
            Self::Devices => words(&["--home", "devices"]),
            Self::Bound => words(&["--include-bound"]),
            Self::Fresh => words(&["--hugetlb", "fresh"]),
            Self::Part { from, to, ratio } => {
                let [from, to, ratio] = [from.to_string(), to.to_string(), ratio.to_string()];
                words(&["--from", &from, "--to", &to, "--target-ratio", &ratio])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::process::Identity;

    #[test]
    fn steps_are_lines_for_a_shell() {
        let cpus: CpuSet = "0-3,8".parse().unwrap();
        let nodes: NodeSet = "1".parse().unwrap();
        let process = || Who::Process(Identity { pid: 7, start_time: 1 });
        let migrate = |who, how| AdviceStep::Migrate { who, how }.shell();
        for (line, expected) in [
            (
                AdviceStep::UnitCpus {
                    unit: "a.service".into(),
                    cgroup: "/a.service".into(),
                    cpus: cpus.clone(),
                }
                .shell(),
                "systemctl set-property --runtime a.service AllowedCPUs=0-3,8",
            ),
            (
                AdviceStep::UnitMems {
                    unit: r"a\x2db.service".into(),
                    cgroup: "/a".into(),
                    nodes: nodes.clone(),
                }
                .shell(),
                r"systemctl set-property --runtime 'a\x2db.service' AllowedMemoryNodes=1",
            ),
            (
                AdviceStep::CgroupMems { directory: "/c/it's me".into(), nodes }.shell(),
                r"echo 1 > '/c/it'\''s me/cpuset.mems'",
            ),
            (
                AdviceStep::MembersCpus { directory: "/c/a".into(), cpus: cpus.clone() }.shell(),
                "for pid in $(cat /c/a/cgroup.procs); do taskset -acp 0-3,8 $pid; done",
            ),
            (AdviceStep::ThreadCpus { tid: 8, cpus }.shell(), "taskset -cp 0-3,8 8"),
            (migrate(process(), How::Busy), "numalocctl migrate --pid 7 --home busy"),
            (
                migrate(
                    Who::Cgroup("/a;reboot".into()),
                    How::Part { from: NodeId(0), to: NodeId(8), ratio: 50 },
                ),
                "numalocctl migrate --cgroup '/a;reboot' --from 0 --to 8 --target-ratio 50",
            ),
        ] {
            assert_eq!(line, expected);
        }
    }
}
