//! `run`: a run on demand.

use crate::{
    Answer,
    cluster::{Api, Failure},
    object::pods,
};
use numaloc_policy::RUN_KEY;
use serde_json::json;
use std::time::SystemTime;

/// Longest name of a run: that of a label's value in the API of the daemon.
const ID_MAX: usize = 256;

/// Annotates the pod; its agent sees that.
pub async fn run(
    cluster: &impl Api,
    namespace: &str,
    pod: &str,
    id: Option<&str>,
    now: SystemTime,
) -> Result<Answer, Failure> {
    let id = id.map_or_else(|| numaloc_api::timestamp(now).to_string(), str::to_owned);
    if id.is_empty() || id.len() > ID_MAX || id.chars().any(char::is_control) {
        return Err(Failure::Other(format!(
            "--id has to be text of 1 to {ID_MAX} bytes without control characters"
        )));
    }
    let patch = json!({"metadata": {"annotations": {RUN_KEY: id}}});
    cluster.patch(&format!("{}/{pod}", pods(namespace)), &patch).await?;
    Ok(format!(
        "pod/{pod} annotated: run {id}\nThe agent of its node runs its policies. The result: kubectl numaloc explain {pod} -n {namespace}\n"
    )
    .into())
}
