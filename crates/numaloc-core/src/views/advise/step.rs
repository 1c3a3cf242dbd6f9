//! Steps of advice: commands that a person or an agent runs.

use super::look::Who;
use crate::machine::ids::{CpuSet, NodeId, NodeSet};

/// One command of an advice. The daemon and the command line print it for their user; nothing here carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant names what its fields set")]
pub enum AdviceStep {
    /// Sets the CPUs of a systemd unit.
    UnitCpus { unit: String, cpus: CpuSet },
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
    /// Sets the nodes of a systemd unit.
    UnitMems { unit: String, nodes: NodeSet },
    /// Sets the nodes of a cgroup.
    CgroupMems { directory: String, nodes: NodeSet },
    /// Writes a setting of the kernel.
    Write { path: &'static str, value: String },
}

/// What a migration is asked for besides its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum How {
    /// Nothing: memory goes to the nodes of the CPUs.
    #[default]
    Home,
    /// Threads that hardly work have no say (`--home busy`).
    Busy,
    /// Against the application's own policy (`--include-bound`).
    Bound,
    /// Hugetlb pages that the target's pool lacks come from free memory (`--hugetlb fresh`).
    Fresh,
    /// From one node to another, until the other one has `ratio` percent of what both have.
    #[expect(missing_docs, reason = "the variant names all three")]
    Part { from: NodeId, to: NodeId, ratio: u8 },
}

impl AdviceStep {
    /// One line for a POSIX shell, to be run as root.
    pub fn shell(&self) -> String {
        match self {
            Self::UnitCpus { unit, cpus } => set_property(unit, "AllowedCPUs", &cpus.to_string()),
            Self::UnitMems { unit, nodes } => {
                set_property(unit, "AllowedMemoryNodes", &nodes.to_string())
            }
            Self::CgroupCpus { directory, cpus } => {
                write(&format!("{directory}/cpuset.cpus"), &cpus.to_string())
            }
            Self::CgroupMems { directory, nodes } => {
                write(&format!("{directory}/cpuset.mems"), &nodes.to_string())
            }
            Self::MembersCpus { directory, cpus } => {
                let procs = quoted(&format!("{directory}/cgroup.procs"));
                format!("for pid in $(cat {procs}); do taskset -acp {cpus} $pid; done")
            }
            Self::ProcessCpus { pid, cpus } => format!("taskset -acp {cpus} {pid}"),
            Self::ThreadCpus { tid, cpus } => format!("taskset -cp {cpus} {tid}"),
            Self::Migrate { who, how } => {
                let target = match who {
                    Who::Cgroup(path) => format!("--cgroup {}", quoted(path)),
                    Who::Process(identity) => format!("--pid {}", identity.pid),
                };
                format!("numalocctl migrate {target}{}", how.options())
            }
            Self::Write { path, value } => write(path, value),
        }
    }
}

impl How {
    fn options(self) -> String {
        match self {
            Self::Home => String::new(),
            Self::Busy => " --home busy".into(),
            Self::Bound => " --include-bound".into(),
            Self::Fresh => " --hugetlb fresh".into(),
            Self::Part { from, to, ratio } => {
                format!(" --from {from} --to {to} --target-ratio {ratio}")
            }
        }
    }
}

fn set_property(unit: &str, name: &str, value: &str) -> String {
    format!("systemctl set-property --runtime {} {name}={value}", quoted(unit))
}

fn write(path: &str, value: &str) -> String {
    format!("echo {value} > {}", quoted(path))
}

/// A word as a shell takes it (POSIX.1-2017, Shell Command Language, 2.2.2). Only what cannot mean anything else stays bare.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@,+=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
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
                AdviceStep::UnitCpus { unit: "a.service".into(), cpus: cpus.clone() }.shell(),
                "systemctl set-property --runtime a.service AllowedCPUs=0-3,8",
            ),
            (
                AdviceStep::UnitMems { unit: r"a\x2db.service".into(), nodes: nodes.clone() }
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
