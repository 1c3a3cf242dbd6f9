//! The plugin's side of the Node Resource Interface (NRI), by which containerd (1.7 and later) and CRI-O tell plugins about pods and
//! containers, and let them adjust new ones.
//!
//! A plugin implements [`Plugin`] and calls [`serve`] with a connection to the runtime: one that it has made itself (to
//! [`SOCKET`]), or the one with which the runtime has launched it ([`Launched`]). [`v1alpha1`] has the messages.
//!
//! The wire has three layers, and this crate has a file for each. `frame`: one socket carries two connections, one for the calls of
//! each side. `frame` also cuts the bytes of a connection into messages of ttrpc, the small relative of gRPC. `envelope`: what such
//! a message holds. `session`: which calls there are. Sources: `pkg/net/multiplex/mux.go` in github.com/containerd/nri, and
//! `channel.go` and `server.go` in github.com/containerd/ttrpc.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod connection;
mod envelope;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
pub mod frame;
mod identity;
mod session;

pub use error::Error;
pub use identity::{Identity, Launched, SOCKET};
pub use session::{Events, Notice, Plugin, serve};

/// The messages of the interface. Their documentation is in `proto/nri/pkg/api/v1alpha1/api.proto`.
#[allow(missing_docs, clippy::all)]
pub mod v1alpha1 {
    include!(concat!(env!("OUT_DIR"), "/nri.pkg.api.v1alpha1.rs"));
}
