//! Objects of the cluster's API server, and the calls that read and write them.

pub mod api;
pub mod bearer;
pub mod objects;
pub mod watch;

use anyhow::Context;

/// The API server that the environment names: by a kubeconfig (KUBECONFIG), or that of the cluster that this process
/// runs in.
///
/// # Errors
/// The environment names none, or its keys cannot be read.
pub async fn from_env() -> anyhow::Result<kube::Config> {
    kube::Config::infer().await.context(
        "cannot find the API server: run in a pod with a service account, or set KUBECONFIG",
    )
}
