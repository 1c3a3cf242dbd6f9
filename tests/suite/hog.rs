//! A real-time thread that leaves no CPU time to others, so that calls which move pages do not return.

use crate::{app::until, settings::Setting};
use std::{
    env, fs,
    path::Path,
    process::{Child, Command},
};

/// The last CPU of the machine, on node 1. Tests and targets can do without it.
const CPU: u32 = 3;

/// A thread with SCHED_FIFO on one CPU, to which the kernel leaves all or 95 % of the time. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Hog {
    child: Child,
    settings: Vec<Setting>,
}

impl Hog {
    /// A hog that uses all of the time.
    pub fn unlimited() -> Self {
        // From Linux 6.12 on (kernel/sched/debug.c).
        let debug = "/sys/kernel/debug";
        if !Path::new(debug).join("sched").exists() {
            crate::app::run(&["mount", "-t", "debugfs", "debugfs", debug]);
        }
        let server = |name: &str| {
            let runtime = format!("{debug}/sched/{name}/cpu{CPU}/runtime");
            Setting::set_if_present(&runtime, "0")
        };
        let mut settings: Vec<Setting> =
            ["fair_server", "ext_server"].iter().filter_map(|name| server(name)).collect();
        if settings.is_empty() {
            settings.push(Setting::set("/proc/sys/kernel/sched_rt_runtime_us", "-1"));
        }
        Self::start(settings)
    }

    /// As the kernel limits it.
    pub fn limited() -> Self {
        Self::start(Vec::new())
    }

    fn start(settings: Vec<Setting>) -> Self {
        let target = env::var_os("NUMALOC_TARGET").unwrap_or_else(|| "numaloc-target".into());
        let child = Command::new(target).args(["--hog", &CPU.to_string()]).spawn();
        let hog = Self { child: child.expect("it starts"), settings };
        until("it has a real-time policy", || hog.policy().as_deref() == Some("1"));
        hog
    }

    /// Scheduling policy: field 41 of /proc/PID/stat.
    fn policy(&self) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let fields = text.rsplit_once(')')?.1;
        fields.split_whitespace().nth(41 - 3).map(str::to_owned)
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        let pid = self.child.id();
        format!(
            "CPU {CPU} runs thread {pid} (numaloc-target) of process {pid} at real-time priority 99"
        )
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        self.settings.clear();
    }
}

/// The processes that make calls, by their names.
pub fn companions() -> usize {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let is_one = |directory: &Path| {
        let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
        name.trim() == "numaloc-calls"
    };
    processes.filter(|entry| is_one(&entry.path())).count()
}
