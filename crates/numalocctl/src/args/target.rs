//! Options that name the processes whose memory is meant.

use super::process::{Pids, Processes, parse_pids, parse_processes};
use crate::exit::Failure;
use clap::Args;
use numaloc_api::value::{self, Selector};
use numaloc_host::Roots;
use std::{collections::BTreeSet, fmt, path::Path};

/// What names a target. Whether one is required is decided where the command is carried out, because a message of ours names
/// the forms.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// Processes by pid or by name; a name stands for all processes that ps and pidof show by it.
    #[arg(value_name = "PROCESS", value_parser = parse_processes)]
    pub process: Vec<Processes>,
    /// Processes by pid; several with commas or white space, or by repeating the option.
    #[arg(long, value_name = "PID", value_parser = parse_pids, allow_hyphen_values = true)]
    pub pid: Vec<Pids>,
    /// All processes of a cgroup and its children: its path as in /proc/PID/cgroup, in which * and ? stand for other characters of a
    /// name, and all cgroups that match are meant (repeatable).
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// All processes of a systemd unit; several with commas, or by repeating the option.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub unit: Vec<String>,
    /// A container of Docker, Podman, nerdctl, containerd or Kubernetes by name or id, or one that is registered with the daemon by
    /// its id (repeatable). With Kubernetes the name is CONTAINER or NAMESPACE/POD/CONTAINER.
    #[arg(long, value_name = "NAME|ID")]
    pub container: Vec<String>,
    /// All containers that run and have a label of their own: with Docker a label, with the others an annotation (repeatable).
    #[arg(long, value_name = "KEY=VALUE")]
    pub container_label: Vec<String>,
    /// A Kubernetes pod by NAMESPACE/NAME, name or uid (repeatable).
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub pod: Vec<String>,
    /// A virtual machine by its name: of libvirt, systemd-machined, Proxmox (its number), QEMU (-name) or firecracker (--id)
    /// (repeatable).
    #[arg(long, value_name = "NAME")]
    pub vm: Vec<String>,
    /// A job of Slurm by its number: all of its steps on this host (repeatable).
    #[arg(long, value_name = "NUMBER")]
    pub slurm_job: Vec<u64>,
    /// Workloads registered with the daemon that have these labels, as Kubernetes writes it: app=redis,tier in (a,b),!old
    /// (repeatable: all have to hold).
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Vec<Selector>,
    /// Only workloads in this namespace; without --selector all of them.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Of containers, pods and labels only workloads registered by this client, such as uid:1000 or cert:node-agent
    /// (repeatable).
    #[arg(long, value_name = "CREATOR")]
    pub workloads_of: Vec<String>,
}

/// A selector with all conditions of `selectors`, and a namespace.
pub fn joined(selectors: &[Selector], namespace: Option<&String>) -> Selector {
    let requirements = selectors.iter().flat_map(|selector| &selector.requirements);
    Selector { namespace: namespace.cloned(), ..requirements.cloned().collect() }
}

/// Reads a label as `KEY=VALUE`.
pub fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is not a valid label: expected key=value")),
    }
}

/// A cgroup's path in the form that the API requires, from the forms that people write.
pub fn cgroup_path(path: &str) -> String {
    const MOUNT: &str = "/sys/fs/cgroup";
    let below = path.strip_prefix(MOUNT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let parts: Vec<_> = below.unwrap_or(path).split('/').filter(|part| !part.is_empty()).collect();
    match path.is_empty() {
        true => String::new(),
        false => format!("/{}", parts.join("/")),
    }
}

/// Whether this host has cgroup v2 alone, or v1.
fn is_unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// The cgroup of a job of Slurm (its documentation of the plugin cgroup/v2, and cgroup.conf(5)). Of several slurmd on a host, each has
/// its name in it.
fn slurm_job(job: u64, is_unified: bool) -> String {
    match is_unified {
        true => format!("/system.slice/*slurmstepd.scope/job_{job}"),
        false => format!("/slurm*/uid_*/job_{job}"),
    }
}

impl TargetArgs {
    /// One process.
    pub fn pid(pid: i32) -> Self {
        Self { pid: vec![Pids(vec![pid])], ..Self::default() }
    }
    /// Whether no member is named.
    pub fn is_empty(&self) -> bool {
        self.process.is_empty() && self.request().is_empty()
    }
    /// Whether processes are named by name, which takes a look at this host.
    pub fn has_names(&self) -> bool {
        self.process.iter().any(Processes::has_names)
    }
    /// Replaces the processes that are named without an option by their pids. `report` gets what was found for a name.
    ///
    /// # Errors
    /// No process has a name.
    pub fn find_processes(&mut self, roots: &Roots, report: &dyn Fn(&str)) -> Result<(), Failure> {
        for processes in self.process.drain(..) {
            self.pid.push(processes.pids(roots, report)?);
        }
        Ok(())
    }
    fn pids(&self) -> impl Iterator<Item = i32> {
        self.pid.iter().flat_map(|Pids(pids)| pids.iter().copied())
    }
    fn cgroups(&self) -> BTreeSet<String> {
        let named = self.cgroup.iter().map(|path| cgroup_path(path));
        named.chain(self.slurm_job.iter().map(|&job| slurm_job(job, is_unified()))).collect()
    }
    /// The target as a value of the API.
    pub fn request(&self) -> value::Target {
        value::Target {
            pids: self.pids().collect(),
            cgroups: self.cgroups(),
            units: self.unit.iter().cloned().collect(),
            containers: self.container.iter().cloned().collect(),
            pods: self.pod.iter().cloned().collect(),
            virtual_machines: self.vm.iter().cloned().collect(),
            container_labels: self.container_label.iter().cloned().collect(),
            labels: joined(&self.selector, self.namespace.as_ref()),
            workload_creators: self.workloads_of.iter().cloned().collect(),
            ..value::Target::default()
        }
    }
}

impl fmt::Display for TargetArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_told_in_one_form() {
        let cases = [
            ("/system.slice/a.service", "/system.slice/a.service"),
            ("system.slice/a.service/", "/system.slice/a.service"),
            ("/sys/fs/cgroup//a", "/a"),
            ("/sys/fs/cgroup", "/"),
            ("/sys/fs/cgroups/a", "/sys/fs/cgroups/a"),
            ("/a/../b", "/a/../b"),
            ("", ""),
        ];
        for (written, told) in cases {
            assert_eq!(cgroup_path(written), told, "{written}");
        }
    }

    #[test]
    fn a_job_of_slurm_is_its_cgroup() {
        assert_eq!(slurm_job(17, true), "/system.slice/*slurmstepd.scope/job_17");
        assert_eq!(slurm_job(17, false), "/slurm*/uid_*/job_17");
        let target = TargetArgs { slurm_job: vec![17], ..TargetArgs::default() };
        assert!(!target.is_empty() && target.request().cgroups.len() == 1);
    }

    #[test]
    fn labels_have_a_key() {
        assert_eq!(parse_label("app=a=b"), Ok(("app".into(), "a=b".into())));
        assert_eq!(parse_label("app="), Ok(("app".into(), String::new())));
        assert!(parse_label("=a").is_err() && parse_label("app").is_err());
    }
}
