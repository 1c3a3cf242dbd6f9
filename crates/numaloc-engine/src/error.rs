//! Reasons why a request about a target cannot be carried out.

use crate::balancing::BalancingError;
use numaloc_dma::Refused;
use std::sync::Arc;

/// The reason why a target cannot be scanned or moved. It is cloned, because each member of a target may have one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The host cannot be read, or has no such target.
    #[error(transparent)]
    Host(Arc<numaloc_host::Error>),
    /// Nothing of the target exists or is registered.
    #[error("{message}")]
    NotFound {
        /// The reason of its first member.
        message: String,
    },
    /// No process of the target has a node that its memory could move to.
    #[error("{message}")]
    NoTargetNode {
        /// The first process, its CPUs, and what to do.
        message: String,
    },
    /// The caller's authority does not extend to a process.
    #[error("{message}")]
    NotPermitted {
        /// The process, its owner, and what to ask for.
        message: String,
    },
    /// A look was ended because it took too long.
    #[error("{message}")]
    Late {
        /// The time it took, and what to do.
        message: String,
    },
    /// The kernel's NUMA balancing cannot be paused.
    #[error(transparent)]
    Balancing(Arc<BalancingError>),
    /// An offload that the request requires is not available.
    #[error("{}", .0.0)]
    Offload(Refused),
}

impl Error {
    /// The error of the host, if it is one.
    pub fn of_host(&self) -> Option<&numaloc_host::Error> {
        match self {
            Self::Host(error) => Some(error),
            _ => None,
        }
    }

    /// Whether a look was ended because its `stop` returned true.
    pub fn is_stopped(&self) -> bool {
        matches!(self.of_host(), Some(numaloc_host::Error::Stopped))
    }

    /// Whether the target, or a member, does not exist or has no process.
    pub fn is_missing(&self) -> bool {
        use numaloc_host::Error;
        match self {
            Self::NotFound { .. } => true,
            Self::Host(error) => {
                error.is_missing()
                    || matches!(
                        **error,
                        Error::NoContainer { .. }
                            | Error::NoFile { .. }
                            | Error::CgroupOutside { .. }
                            | Error::KernelThread { .. }
                    )
            }
            _ => false,
        }
    }
}

impl From<numaloc_host::Error> for Error {
    fn from(error: numaloc_host::Error) -> Self {
        Self::Host(Arc::new(error))
    }
}

impl From<BalancingError> for Error {
    fn from(error: BalancingError) -> Self {
        Self::Balancing(Arc::new(error))
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Offload(refused)
    }
}
