//! Turns errors of the engine, numaloc-host and numaloc-dma into refusals.

use super::{Refusal, Unfit};
use numaloc_engine::balancing::BalancingError;
use numaloc_host::{Error, ErrorKind};

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NoProcess { .. }
            | Error::NoContainer { .. }
            | Error::NotRunning { .. }
            | Error::OtherProcess { .. }
            | Error::NoCgroup { .. }
            | Error::CgroupOutside { .. }
            | Error::NoUnit { .. }
            | Error::NoFile { .. } => Self::TargetNotFound { message },
            Error::Ended { .. } | Error::KernelThread { .. } | Error::Empty { .. } => {
                Self::TargetEmpty { message }
            }
            Error::NoDamon { .. }
            | Error::BadTiers(_)
            | Error::KernelTiers { .. }
            | Error::NarrowPlacement { .. }
            | Error::FileRefused { .. }
            | Error::BadGoal(_)
            | Error::BadRelief(_)
            | Error::NoBandwidth { .. }
            | Error::NotCounted { .. }
            | Error::NodesForbidden { .. }
            | Error::SeveralCgroups { .. }
            | Error::ManyCgroups { .. }
            | Error::Overlaps { .. }
            | Error::NoMapping { .. }
            | Error::BadDevice { .. } => Self::HostCannot { message },
            Error::BadNode { node, .. } => {
                Self::NoTargetNode { message, node: Some(Unfit::Named(*node)) }
            }
            Error::OneNode { .. } => Self::NoTargetNode { message, node: Some(Unfit::Only) },
            Error::FileRights { path } => Self::DaemonLacksRights {
                message: format!(
                    "the page cache of {} takes the drop-in numalocd-files.conf (see /usr/share/doc/numaloc/daemon.md)",
                    path.display()
                ),
            },
            Error::Stopped => Self::Unavailable { message },
            Error::Systemd { .. } | Error::Silent { .. } => Self::HostUnavailable { message },
            error if error.kind() == ErrorKind::Permission => Self::DaemonLacksRights { message },
            _ => Self::Internal { message },
        }
    }
}

impl From<numaloc_dma::Refused> for Refusal {
    fn from(refused: numaloc_dma::Refused) -> Self {
        Self::HostCannot { message: refused.0 }
    }
}

impl From<numaloc_engine::Error> for Refusal {
    fn from(error: numaloc_engine::Error) -> Self {
        use numaloc_engine::Error;
        match error {
            Error::Host(error) => Self::from(&*error),
            Error::Balancing(error) => Self::from(&*error),
            Error::Offload(refused) => refused.into(),
            Error::NotFound { message } => Self::TargetNotFound { message },
            Error::NoTargetNode { message } => Self::NoTargetNode { message, node: None },
            Error::NotPermitted { message } => Self::NotPermitted { message },
            Error::Late { message } => Self::HostCannot { message },
        }
    }
}

impl From<BalancingError> for Refusal {
    fn from(error: BalancingError) -> Self {
        Self::from(&error)
    }
}

impl From<&BalancingError> for Refusal {
    fn from(error: &BalancingError) -> Self {
        match error {
            BalancingError::Host(error) => match Self::from(error) {
                Self::DaemonLacksRights { message } => Self::DaemonLacksRights {
                    message: format!(
                        "{message}; for numa_balancing: pause see \"NUMA balancing\" in /usr/share/doc/numaloc/daemon.md"
                    ),
                },
                refusal => refusal,
            },
            error @ (BalancingError::Journal(_) | BalancingError::InUse) => {
                Self::Unavailable { message: error.to_string() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn each_error_has_its_refusal_and_keeps_its_words() {
        let (pid, comm, path, root) = (7, "a".to_owned(), "/p".to_owned(), "/cg".into());
        let read = |kind: io::ErrorKind| Error::Read { path: "/f".into(), source: kind.into() };
        let cases = [
            (Error::NoProcess { pid }, "TargetNotFound"),
            (Error::OtherProcess { pid }, "TargetNotFound"),
            (Error::NoCgroup { path: path.clone(), root }, "TargetNotFound"),
            (Error::CgroupOutside { path, root: "/cg".into() }, "TargetNotFound"),
            (Error::NoUnit { unit: "u".into(), reason: "r".into() }, "TargetNotFound"),
            (Error::NoFile { path: "/f".into() }, "TargetNotFound"),
            (Error::FileRefused { path: "/f".into(), reason: "r".into() }, "HostCannot"),
            (Error::BadGoal(numaloc_core::BadGoal::NoNodes), "HostCannot"),
            (Error::BadTiers(numaloc_core::BadTiers::NoLowerTier), "HostCannot"),
            (Error::KernelTiers { settings: "s".into() }, "HostCannot"),
            (Error::Ended { pid, comm: comm.clone() }, "TargetEmpty"),
            (Error::KernelThread { pid, comm: comm.clone() }, "TargetEmpty"),
            (Error::Empty { target: "t".into() }, "TargetEmpty"),
            (Error::Silent { pid, comm: comm.clone() }, "HostUnavailable"),
            (Error::NoRights { pid, comm, what: "maps".into() }, "DaemonLacksRights"),
            (read(io::ErrorKind::PermissionDenied), "DaemonLacksRights"),
            (
                Error::Setting {
                    path: "/f".into(),
                    source: io::ErrorKind::PermissionDenied.into(),
                },
                "DaemonLacksRights",
            ),
            (
                Error::Setting {
                    path: "/f".into(),
                    source: io::ErrorKind::ReadOnlyFilesystem.into(),
                },
                "DaemonLacksRights",
            ),
            (Error::Setting { path: "/f".into(), source: io::ErrorKind::Other.into() }, "Internal"),
            (Error::NoBandwidth { nodes: "7".into() }, "HostCannot"),
            (Error::NotCounted { node: 7 }, "HostCannot"),
            (Error::BadNode { node: 7, reason: "r", available: "0".into() }, "NoTargetNode"),
            (Error::OneNode { node: "0".into() }, "NoTargetNode"),
            (Error::NarrowPlacement { placement: "p", nodes: "0".into() }, "HostCannot"),
            (
                Error::NodesForbidden {
                    pid,
                    comm: "a".into(),
                    nodes: "1".into(),
                    allowed: "0".into(),
                },
                "HostCannot",
            ),
            (Error::FramesHidden { placement: "p" }, "DaemonLacksRights"),
            (Error::NoContainer { id: "c".into(), root: "/cg".into() }, "TargetNotFound"),
            (
                Error::SeveralCgroups {
                    target: "c".into(),
                    cgroups: ["/a", "/b"].map(str::to_owned),
                },
                "HostCannot",
            ),
            (Error::ManyCgroups { root: "/cg".into(), most: 9 }, "HostCannot"),
            (Error::NoDamon { reason: "r".into() }, "HostCannot"),
            (Error::NoMapping { pattern: "p".into() }, "HostCannot"),
            (Error::BadDevice { device: "d".into(), reason: "r".into() }, "HostCannot"),
            (
                Error::Overlaps { pid, comm: "a".into(), name: "n".into(), mappings: 9 },
                "HostCannot",
            ),
            (Error::Stopped, "Unavailable"),
            (Error::Systemd { unit: "u".into(), reason: "r".into() }, "HostUnavailable"),
            (Error::Hwloc { reason: "r".into() }, "Internal"),
            (read(io::ErrorKind::Other), "Internal"),
            (Error::Parse { path: "/f".into(), reason: "r".into() }, "Internal"),
        ];
        for (error, expected) in cases {
            let words = error.to_string();
            let refusal = Refusal::from(error);
            assert!(format!("{refusal:?}").starts_with(expected), "{refusal:?}");
            assert!(refusal.to_string().ends_with(&words), "{refusal}");
        }
    }

    #[test]
    fn a_pause_without_rights_is_refused_with_what_to_do() {
        let source = io::ErrorKind::PermissionDenied.into();
        let error = BalancingError::Host(Error::Setting { path: "/f".into(), source });
        let refusal = Refusal::from(numaloc_engine::Error::from(error));
        assert!(matches!(refusal, Refusal::DaemonLacksRights { .. }), "{refusal:?}");
        assert!(refusal.to_string().contains("/usr/share/doc/numaloc/daemon.md"), "{refusal}");
        let kept = BalancingError::Journal(Error::Setting {
            path: "/f".into(),
            source: io::ErrorKind::Other.into(),
        });
        assert!(matches!(Refusal::from(kept), Refusal::Unavailable { .. }));
        assert!(matches!(Refusal::from(BalancingError::InUse), Refusal::Unavailable { .. }));
    }

    #[test]
    fn an_engine_that_is_required_and_missing_is_what_the_host_cannot() {
        let refusal = Refusal::from(numaloc_dma::Refused("no engine".to_owned()));
        assert!(matches!(refusal, Refusal::HostCannot { message } if message == "no engine"));
    }
}
