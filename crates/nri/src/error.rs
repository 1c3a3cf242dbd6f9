//! What can go wrong with a connection. Each error ends it; the plugin may connect again.

use std::io;

/// Why a connection has ended, or could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket failed.
    #[error("the connection to the runtime failed: {0}")]
    Io(#[from] io::Error),
    /// The runtime does not continue.
    #[error("the runtime has sent nothing for {seconds} s while {during}")]
    Silent {
        /// How long.
        seconds: u64,
        /// What it had begun.
        during: &'static str,
    },
    /// The connection ended within a message.
    #[error("the connection ended within a message")]
    Cut,
    /// A frame or message is longer than the protocol allows.
    #[error("{what} of {bytes} bytes is longer than the {most} that the protocol allows")]
    TooLong {
        /// Frame or message.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The bound.
        most: usize,
    },
    /// A frame for a connection that the interface does not have.
    #[error(
        "a frame names connection {id}: NRI has only {} and {}",
        crate::connection::PLUGIN,
        crate::connection::RUNTIME
    )]
    NoConnection {
        /// The connection.
        id: u32,
    },
    /// A message that does not belong there.
    #[error(
        "a message of type {kind} for stream {stream} of connection {connection} is not expected"
    )]
    Unexpected {
        /// The connection.
        connection: u32,
        /// The stream.
        stream: u32,
        /// Its type.
        kind: u8,
    },
    /// A message that is not protobuf of its kind.
    #[error("{what} cannot be read: {error}")]
    Message {
        /// Which message.
        what: String,
        /// Why.
        error: prost::DecodeError,
    },
    /// The runtime refuses the plugin.
    #[error("the runtime has refused {call}: {message} (code {code})")]
    Refused {
        /// The call.
        call: &'static str,
        /// Its status, with the numbers of gRPC.
        code: i32,
        /// Its words.
        message: String,
    },
    /// The plugin does not take its configuration.
    #[error("the plugin refuses its configuration: {0}")]
    Configuration(String),
    /// The plugin's name or index is not valid.
    #[error(
        "plugin name {name:?} with index {index:?}: a name is letters, digits, '.', '_', '+' and '-', an index two digits"
    )]
    Identity {
        /// The name.
        name: String,
        /// The index.
        index: String,
    },
    /// The variable with the number of the socket has no number.
    #[error("{variable} is {value:?}, which is not a file descriptor")]
    Socket {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}
