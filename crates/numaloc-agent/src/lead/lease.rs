//! The Lease that one agent of the cluster holds (`coordination.k8s.io`). As client-go's leader election does it, its age
//! is measured by the own clock, from when it was first seen as it is.

use crate::cluster::{
    api::{Api, ApiError},
    objects::{LeaseObject, LeaseSpec},
};
use numaloc_policy::written_time;
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Time after which a Lease that was not renewed is another agent's to take.
pub const DURATION: Duration = Duration::from_secs(60);
/// Time between two renewals.
pub const RENEWAL: Duration = Duration::from_secs(20);
/// Its name. The ClusterRole of the agents is for this one.
pub const NAME: &str = "numaloc-agent";

/// The Lease, as this agent sees it.
#[derive(Debug)]
pub struct Lease {
    /// The path of the Leases of the namespace.
    path: String,
    namespace: String,
    /// The name of this node: a restarted agent holds what it held before.
    me: String,
    /// The version that was seen, and since when.
    seen: Option<(String, Instant)>,
}

impl Lease {
    /// The Lease of the agents of this namespace, of which this one is on the node `me`.
    pub fn new(namespace: &str, me: &str) -> Self {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        Self { path, namespace: namespace.to_owned(), me: me.to_owned(), seen: None }
    }

    /// Takes or renews it. Returns whether this agent holds it.
    ///
    /// # Errors
    /// The API server does not answer, or refuses it.
    pub async fn hold(&mut self, api: &Api) -> Result<bool, ApiError> {
        let path = format!("{}/{NAME}", self.path);
        let done = match api.get::<LeaseObject>(&path).await {
            Err(error) if error.refused() == Some(404) => {
                let mut lease = self.written(0, true);
                lease["apiVersion"] = "coordination.k8s.io/v1".into();
                lease["kind"] = "Lease".into();
                lease["metadata"] = json!({"name": NAME, "namespace": self.namespace});
                api.create(&self.path, &lease).await
            }
            Err(error) => return Err(error),
            Ok(LeaseObject { metadata, spec }) => {
                let LeaseSpec { holder_identity, lease_transitions } = spec;
                let version = metadata.resource_version;
                let is_ours = holder_identity == self.me;
                if self.seen.as_ref().is_none_or(|(seen, _)| *seen != version) {
                    self.seen = Some((version.clone(), Instant::now()));
                }
                let age = self.seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
                if !is_ours && !holder_identity.is_empty() && age < DURATION {
                    return Ok(false);
                }
                let mut lease = self.written(lease_transitions + u64::from(!is_ours), !is_ours);
                lease["metadata"] = json!({"resourceVersion": version});
                api.patch(&path, &lease).await
            }
        };
        match done {
            Ok(()) => Ok(true),
            // Another agent was faster.
            Err(error) if error.refused() == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn written(&self, transitions: u64, is_new: bool) -> serde_json::Value {
        let now = micro_time(crate::clock::now());
        let mut spec = json!({
            "holderIdentity": self.me, "leaseDurationSeconds": DURATION.as_secs(), "renewTime": now,
            "leaseTransitions": transitions,
        });
        if is_new {
            spec["acquireTime"] = now.into();
        }
        json!({"spec": spec})
    }
}

/// A time as `metav1.MicroTime` has it: always with six digits of a second.
fn micro_time(at: SystemTime) -> String {
    let micros = at.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_micros();
    format!("{}.{micros:06}Z", written_time(at).trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits_of_a_second() {
        let written = |micros| micro_time(UNIX_EPOCH + Duration::from_micros(micros));
        assert_eq!(written(1_000_000), "1970-01-01T00:00:01.000000Z");
        assert_eq!(written(1_999_999), "1970-01-01T00:00:01.999999Z");
    }
}
