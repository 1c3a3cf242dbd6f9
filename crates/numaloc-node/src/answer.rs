//! Answers to calls of gRPC.

use std::{future::Future, time::Duration};
use tonic::{Response, Status};

/// The answer to a call, if it comes in time.
///
/// # Errors
/// The call's, or `DeadlineExceeded`.
pub async fn within<T>(
    longest: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(longest, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => {
            Err(Status::deadline_exceeded(format!("no answer within {} s", longest.as_secs())))
        }
    }
}
