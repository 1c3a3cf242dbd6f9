//! Asks containerd for its version only, and runc for its features.

use containerd::{WITH_MEMORY_POLICIES, services::version::version_client::VersionClient};
use std::{
    error::Error,
    io,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{net::UnixStream, runtime::Builder, time::timeout};
use tonic::transport::Endpoint;

/// The answer at containerd's socket to a request for its version.
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
    // Separately, because its own error is precise; gRPC wraps it.
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

/// Whether runc sets the memory policies that this containerd passes on, by `runc features`. `None`: containerd passes
/// none on, or there is no runc in containerd's PATH, or one before 1.1, which does not report it.
pub fn sets_memory_policies(containerd: &RuntimeAnswer) -> Option<bool> {
    let RuntimeAnswer::Version(version) = containerd else { return None };
    containerd::version(version).filter(|version| *version >= WITH_MEMORY_POLICIES)?;
    let output = Command::new("runc").arg("features").stdin(Stdio::null()).output().ok()?;
    has_memory_policy(&output.stdout)
}

/// By the OCI's runtime-spec (features-linux.md, `memoryPolicy`).
fn has_memory_policy(features: &[u8]) -> Option<bool> {
    let features: serde_json::Value = serde_json::from_slice(features).ok()?;
    Some(features.get("linux")?.get("memoryPolicy").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runc_says_whether_it_has_memory_policies() {
        for (features, expected) in [
            (r#"{"linux":{"memoryPolicy":{"modes":["MPOL_LOCAL"]}}}"#, Some(true)),
            (r#"{"linux":{"namespaces":["cgroup"]}}"#, Some(false)),
            ("{}", None),
            ("No help topic for 'features'", None),
        ] {
            assert_eq!(has_memory_policy(features.as_bytes()), expected, "{features}");
        }
        for other in [RuntimeAnswer::Absent, RuntimeAnswer::Version("2.3.9".into())] {
            assert_eq!(sets_memory_policies(&other), None);
        }
    }

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
