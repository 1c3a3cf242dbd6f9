//! Errors of a connection. Each error ends it; the plugin may connect again.

use std::io;

/// Why a connection has ended, or could not be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// Reading from the socket or writing to it failed.
    #[error("the connection to the runtime failed: {0}")]
    Io(#[from] io::Error),
    /// The runtime does not continue.
    #[error("the runtime has sent nothing for {seconds} s while {during}")]
    Silent { seconds: u64, during: &'static str },
    /// The connection ended within a message.
    #[error("the connection ended within a message")]
    Cut,
    /// A frame or message is longer than the protocol allows.
    #[error("{what} of {bytes} bytes is longer than the {most} that the protocol allows")]
    TooLong { what: &'static str, bytes: u64, most: usize },
    /// A frame for a connection that the interface does not have.
    #[error(
        "a frame names connection {id}: NRI has only {} and {}",
        crate::connection::PLUGIN,
        crate::connection::RUNTIME
    )]
    NoConnection { id: u32 },
    /// A message that does not belong there.
    #[error(
        "a message of type {kind} for stream {stream} of connection {connection} is not expected"
    )]
    Unexpected { connection: u32, stream: u32, kind: u8 },
    /// A message that is not protobuf of its kind.
    #[error("{what} cannot be read: {error}")]
    Message { what: String, error: prost::DecodeError },
    /// The runtime refuses the plugin.
    #[error("the runtime has refused {call}: {message} (code {code})")]
    Refused {
        call: &'static str,
        /// Its status, with the numbers of gRPC.
        code: i32,
        message: String,
    },
    /// The plugin does not take its configuration.
    #[error("the plugin refuses its configuration: {0}")]
    Configuration(String),
    /// The plugin's name or index is not valid.
    #[error(
        "plugin name {name:?} with index {index:?}: a name is letters, digits, '.', '_', '+' and '-', an index two digits"
    )]
    Identity { name: String, index: String },
    /// The variable with the number of the socket has no number.
    #[error("{variable} is {value:?}, which is not a file descriptor")]
    Socket { variable: &'static str, value: String },
}
