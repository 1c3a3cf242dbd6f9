//! Asks containerd for its version, which is all that this program asks it.

use containerd::services::version::version_client::VersionClient;
use std::{error::Error, io, path::Path, time::Duration};
use tokio::{net::UnixStream, runtime::Builder, time::timeout};
use tonic::transport::Endpoint;

/// What was found at containerd's socket when it was asked for its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeAnswer {
    /// There is no socket, or no process listens at it.
    Absent,
    /// This process is not let in.
    Denied,
    /// Its version, such as `1.7.24` or `v2.1.9`.
    Version(String),
    /// It does not answer; why.
    Silent(String),
}

pub fn ask(socket: &Path, within: Duration) -> RuntimeAnswer {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return RuntimeAnswer::Silent(error.to_string()),
    };
    let asked = runtime.block_on(async { timeout(within, version(socket)).await });
    asked.unwrap_or_else(|_| {
        RuntimeAnswer::Silent(format!("no answer within {} s", within.as_secs()))
    })
}

async fn version(socket: &Path) -> RuntimeAnswer {
    // By itself, because its error says what it is; gRPC wraps it.
    match UnixStream::connect(socket).await {
        Ok(_) => {}
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => RuntimeAnswer::Absent,
                io::ErrorKind::PermissionDenied => RuntimeAnswer::Denied,
                _ => RuntimeAnswer::Silent(error.to_string()),
            };
        }
    }
    match asked(socket).await {
        Ok(version) => RuntimeAnswer::Version(version),
        Err(error) => RuntimeAnswer::Silent(error.to_string()),
    }
}

async fn asked(socket: &Path) -> Result<String, Box<dyn Error>> {
    let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))?.connect().await?;
    let answer = VersionClient::new(channel).version(()).await;
    let answer = answer.map_err(|status| status.message().to_owned())?;
    Ok(answer.into_inner().version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn what_is_not_there_or_does_not_answer_is_told_apart() {
        let folder = tempfile::tempdir().expect("a directory");
        let socket = folder.path().join("containerd.sock");
        assert_eq!(ask(&socket, SHORT), RuntimeAnswer::Absent);
        let listener = UnixListener::bind(&socket).expect("room");
        assert!(matches!(ask(&socket, SHORT), RuntimeAnswer::Silent(_)));
        drop(listener);
        assert_eq!(ask(&socket, SHORT), RuntimeAnswer::Absent);
    }
}
