//! The place where a named container, pod or virtual machine was found.

use std::fmt;

/// The kind of thing that a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedKind {
    /// A container by its name with Docker, Podman, nerdctl, containerd, Kubernetes, LXC, Incus, LXD or systemd-machined, or by its id or
    /// at least 12 digits of it.
    Container,
    /// A Kubernetes pod by `NAMESPACE/NAME`, by its name or by its uid.
    Pod,
    /// A virtual machine by its name with libvirt or systemd-machined, or by its number with Proxmox.
    VirtualMachine,
}

impl fmt::Display for NamedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Container => "container",
            Self::Pod => "pod",
            Self::VirtualMachine => "virtual machine",
        })
    }
}

/// Where a name was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The processes that it means.
    pub at: Meant,
    /// The source that knew it, for people: `Docker 0a1b2c3d4e5f`.
    pub how: String,
}

/// The processes that a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// The processes of a cgroup and its children: a path below the mount point.
    Cgroup(String),
    /// One process, which shares its cgroup with others.
    Pid(i32),
}

impl Found {
    /// The cgroup whose processes are meant; `None`: one process is.
    pub fn cgroup(&self) -> Option<&str> {
        match &self.at {
            Meant::Cgroup(path) => Some(path),
            Meant::Pid(_) => None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Meant::Cgroup(path) => write!(f, "cgroup {path} ({})", self.how),
            Meant::Pid(pid) => write!(f, "process {pid} ({})", self.how),
        }
    }
}
