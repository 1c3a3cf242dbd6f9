//! Calls of numaloc to containerd itself, at its own socket: its events, which pods and containers there are (the
//! Container Runtime Interface, which containerd serves there, too), and which version it is. It asks, and changes nothing.
//!
//! [`Event`] reads the messages of the events service, and [`Info`] containerd's data on a container beyond the
//! interface. The rest are the generated clients. A process that may connect to that socket is as powerful as root.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod event;
#[cfg(feature = "fake")]
pub mod fake;
mod info;
mod version;

pub use event::{Event, subscription};
pub use info::{Cpu, Info, Linux, Memory, Process, Resources, Spec};
pub use version::{WITH_MEMORY_POLICIES, version};

/// Where containerd listens, unless configured otherwise (`DefaultAddress` in defaults/defaults_unix.go).
pub const SOCKET: &str = "/run/containerd/containerd.sock";
/// Largest answer that is taken, as the kubelet does (`maxMsgSize` in k8s.io/cri-client, pkg/remote_runtime.go).
pub const ANSWER_MAX: usize = 16 << 20;

/// The Container Runtime Interface. Its documentation is in `proto/runtime/v1/api.proto`.
pub mod runtime {
    /// The only version of which there are runtimes.
    #[allow(missing_docs, clippy::all)]
    pub mod v1 {
        tonic::include_proto!("runtime.v1");
    }
}

/// The messages of events. Their documentation is in `proto/containerd/events/events.proto`.
#[allow(missing_docs, clippy::all)]
pub mod events {
    tonic::include_proto!("containerd.events");
}

/// containerd's own services. Their documentation is in `proto/containerd/services`.
pub mod services {
    /// The service that streams containerd's events.
    #[allow(missing_docs, clippy::all)]
    pub mod events {
        tonic::include_proto!("containerd.services.events.v1");
    }

    #[allow(missing_docs, clippy::all)]
    pub mod version {
        tonic::include_proto!("containerd.services.version.v1");
    }
}
