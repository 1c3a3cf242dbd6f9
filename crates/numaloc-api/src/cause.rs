//! Messages of clients on connections that fail.

use std::error::Error;

/// The innermost cause of an error: the message of the kernel, or of the TLS library. gRPC and HTTP wrap it several times.
pub fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
