//! `drain-node` by the daemon: a job on all processes of the host.

use super::*;
use crate::{
    app::Layout,
    place::{away, home},
    truth::{Truth, on},
};
use numaloc_api::v1::locality_service_client::LocalityServiceClient;
use serde_json::Value;

#[test]
fn a_node_is_emptied_by_a_job_and_its_contents_are_told() {
    let services: Vec<_> = ["anon:32M", "shm:16M"]
        .into_iter()
        .map(|region| Layout::remote(&[region]).load("idle").start("drained"))
        .collect();
    let daemon = Daemon::start();
    let (from, to) = (away().to_string(), home().to_string());
    let output = daemon.ctl(&["drain-node", &from, "--to", &to, "-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    for service in &services {
        let all = Truth::of(service.pid()).without_files().all();
        assert!(on(&all, away()) < MIB, "{all:?}: {document}");
    }
    let name = document["jobs"][0]["name"].as_str().expect("a job");
    let job = daemon.client().job(name);
    let target = job.spec.as_ref().and_then(|spec| spec.target.as_ref()).expect("a target");
    assert_eq!(target.cgroups, ["/"], "{job:?}");
    assert_eq!(document["after"]["node_id"], away(), "{document}");
    // A node that does not exist.
    let client = daemon.client();
    let mut service = LocalityServiceClient::new(client.channel.clone());
    let request = v1::GetNodeContentsRequest { node_ids: vec![9] };
    let (code, reason) = reason(client.runtime.block_on(service.get_node_contents(request)));
    assert_eq!((code, &*reason), (Code::FailedPrecondition, "NO_TARGET_NODE"));
}
