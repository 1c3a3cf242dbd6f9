//! The connections that share the socket.

/// The connection on which the runtime calls the plugin.
pub const PLUGIN: u32 = 1;
/// The connection on which the plugin calls the runtime.
pub const RUNTIME: u32 = 2;
