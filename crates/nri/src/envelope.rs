//! The content of messages of ttrpc (`request.proto` in github.com/containerd/ttrpc, `google/rpc/status.proto`).

/// A call as ttrpc sends it (`ttrpc.Request`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// Full name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Name of the method within the service.
    #[prost(string, tag = "2")]
    pub method: String,
    /// The request message of the method, in protobuf's wire format.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
}

/// The answer to a call as ttrpc sends it (`ttrpc.Response`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// The result. Unset: success.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// The response message of the method, in protobuf's wire format.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// Whether a call failed, and why (`google.rpc.Status`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// One of the codes of gRPC; 0: well.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Describes the failure for people; empty after a success.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The code for a call that the service does not have. A runtime then tells the same by StateChange (pkg/adaptation/plugin_type.go).
pub const UNIMPLEMENTED: i32 = 12;
