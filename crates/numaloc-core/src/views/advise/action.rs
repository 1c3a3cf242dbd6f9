//! The action of a step, and its line for a shell. Both are made of the same value, so the printed line is what is
//! done.

use crate::machine::ids::CpuSet;

/// The action of a step of advice on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets a property of a systemd unit until the next boot (systemctl(1), set-property --runtime).
    Property {
        /// The unit's name, by which alone it can be set.
        unit: String,
        /// The path of the cgroup that is meant, below the mount point: that of the unit, or another one is set.
        cgroup: String,
        /// Name of the property as in systemd.resource-control(5).
        name: &'static str,
        /// Value as `systemctl set-property` takes it.
        value: String,
    },
    /// Writes a file of the kernel.
    #[expect(missing_docs, reason = "the variant names both")]
    Write { path: String, value: String },
    /// Sets the CPUs of threads (sched_setaffinity(2)).
    #[expect(missing_docs, reason = "the variant names both")]
    Pin { whom: Pinned, cpus: CpuSet },
    /// Runs `numalocctl migrate` with this command line, the name of the program included.
    Migrate(Vec<String>),
}

/// The threads that get other CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// All threads of the processes that this directory of a cgroup lists.
    Members(String),
    /// All threads of the process with this pid.
    Process(i32),
    /// The thread with this id.
    Thread(i32),
}

impl Action {
    /// One line for a POSIX shell, to be run as root.
    pub fn shell(&self) -> String {
        match self {
            Self::Property { unit, name, value, .. } => line(&set_property(unit, name, value)),
            Self::Write { path, value } => format!("echo {} > {}", quoted(value), quoted(path)),
            Self::Pin { whom: Pinned::Members(directory), cpus } => {
                let procs = quoted(&format!("{directory}/cgroup.procs"));
                format!("for pid in $(cat {procs}); do taskset -acp {cpus} $pid; done")
            }
            Self::Pin { whom: Pinned::Process(pid), cpus } => format!("taskset -acp {cpus} {pid}"),
            Self::Pin { whom: Pinned::Thread(tid), cpus } => format!("taskset -cp {cpus} {tid}"),
            Self::Migrate(words) => line(words),
        }
    }
}

/// The command line that sets a property of a unit.
pub fn set_property(unit: &str, name: &str, value: &str) -> Vec<String> {
    let words = ["systemctl", "set-property", "--runtime", unit].map(str::to_owned);
    words.into_iter().chain([format!("{name}={value}")]).collect()
}

fn line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it (POSIX.1-2017, Shell Command Language, 2.2.2). Only what cannot mean anything else stays bare.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@,+=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
