//! The other way to install a fleet: numalocd is a privileged pod beside the agent's, and nothing of it is on the host. Needs `--image`.

use super::*;

/// Where numalocd listens for the agent, by its grant.
const SOCKET: &str = "/run/numaloc/agent/numalocd.sock";

#[test]
fn in_pods_agent_and_daemon_bring_it_home() {
    comes_home_and_none_closes_it(|plane, containerd, kubelet| {
        let alone = variable("NUMALOC_MANIFEST");
        let both = Path::new(&alone).with_file_name("agent-and-daemon.yaml");
        plane.get(&["apply", "-f", both.to_str().expect("a path")]);
        containerd.import_from(Path::new(image::ARCHIVE), image::IMAGE);
        pod_of(plane, "numaloc-daemon", "daemon");
        kubelet.running("daemon");
        until("numalocd listens for the agent", || Path::new(SOCKET).exists());
        Agent::contained(plane, containerd, kubelet)
    });
}
