//! Tests with a real containerd and real containers. `tests/containerd/run` runs the tests that need one node on this
//! machine, and `tests/vm/suite --containerd` runs the others on a machine with two.

mod agent;
mod control_plane;
mod creation;
mod cri;
mod events;
mod grpcurl;
mod image;
mod kubelet;
mod numa;
pub mod plugin;
mod redis;
mod registering;
mod rig;
mod runtime;
mod service;
