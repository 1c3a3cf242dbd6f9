//! What messages of ttrpc hold (`request.proto` in github.com/containerd/ttrpc, `google/rpc/status.proto`).

/// A call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// Full name of the service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// Name of the call.
    #[prost(string, tag = "2")]
    pub method: String,
    /// What is asked, encoded.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
}

/// An answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// How it went. Unset: well.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// What is answered, encoded.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// How a call went.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// One of the codes of gRPC; 0: well.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Words for people.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The code for a call that the service does not have. A runtime then tells the same by StateChange (pkg/adaptation/plugin_type.go).
pub const UNIMPLEMENTED: i32 = 12;
