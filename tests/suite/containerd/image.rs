//! The image of packaging/Containerfile, run by containerd as that file says: numalocd in a container, for hosts without packages. Needs
//! two nodes: `tests/vm/suite --containerd VERSION --image`.

use super::rig::Containerd;
use crate::{
    app::until,
    daemon::{Client, slow},
    scene::Scene,
    service::resuming,
};
use numaloc_api::v1;
use std::{fs, os::unix::net::UnixStream, path::Path, process::Output};

/// Where `tests/vm/suite --image` shows it.
pub const ARCHIVE: &str = "/mnt/image/numaloc.tar";
pub const IMAGE: &str = "numaloc.test/numaloc:1";
const NAME: &str = "numalocd";
/// The directories of the host that it has to itself: the socket's, and the store's.
const DIRECTORIES: [&str; 2] = ["/run/numaloc", "/var/lib/numaloc"];
const SOCKET: &str = "/run/numaloc/numalocd.sock";
const MIB: u64 = 1 << 20;

/// A daemon in a container. The container is removed when this value is dropped; what it has stored stays.
struct Contained<'c> {
    containerd: &'c Containerd,
}

impl<'c> Contained<'c> {
    /// Starts it, and waits until it listens.
    fn start(containerd: &'c Containerd) -> Self {
        let contained = Self { containerd };
        let mut arguments = vec!["run", "--detach", "--no-pivot", "--privileged"];
        // The daemon has to see the host's processes and cgroups.
        arguments.extend(["--with-ns", "pid:/proc/1/ns/pid"]);
        arguments.extend(["--with-ns", "cgroup:/proc/1/ns/cgroup"]);
        let mounts = DIRECTORIES
            .map(|directory| format!("type=bind,src={directory},dst={directory},options=rbind:rw"));
        mounts.iter().for_each(|mount| arguments.extend(["--mount", mount.as_str()]));
        arguments.extend([IMAGE, NAME]);
        contained.done(&arguments);
        until("it listens", || UnixStream::connect(SOCKET).is_ok());
        contained
    }

    fn ctr(&self, arguments: &[&str]) -> Output {
        self.containerd.ctr().args(arguments).output().expect("ctr starts")
    }

    /// Runs ctr, which has to succeed, and returns what it printed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.ctr(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}: {}", self.containerd.log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program of the image beside the daemon.
    fn runs(&self, program: &[&str]) -> String {
        let exec = ["task", "exec", "--exec-id", program[0], NAME];
        self.done(&[&exec[..], program].concat())
    }

    fn client(&self) -> Client {
        Client::new(&format!("unix://{SOCKET}"))
    }

    /// Stops it as a runtime does, and waits until it has ended.
    fn stop(&self) {
        self.done(&["task", "kill", "--signal", "SIGTERM", NAME]);
        until("it has ended", || self.done(&["task", "ls"]).contains("STOPPED"));
    }
}

impl Drop for Contained<'_> {
    fn drop(&mut self) {
        // No panic here: the test may be panicking already.
        self.ctr(&["task", "rm", "--force", NAME]);
        self.ctr(&["container", "rm", NAME]);
    }
}

#[test]
fn a_daemon_in_a_container_serves_the_host() {
    let containerd = Containerd::start();
    for directory in DIRECTORIES {
        fs::remove_dir_all(directory).ok();
        fs::create_dir_all(directory).expect("a directory");
    }
    let output = containerd.ctr().args(["images", "import", ARCHIVE]).output().expect("ctr starts");
    assert!(output.status.success(), "{output:?}");

    let first = Contained::start(&containerd);
    assert!(first.runs(&["numalocctl", "status"]).contains("uid:0"));
    first.runs(&["numaloc-nri", "--check-config"]);
    first.runs(&["numaloc-agent", "--check-config"]);
    // Processes of the host, by their pids there.
    let scene = Scene::remote(&["anon:32M", "shm:16M"]);
    let client = first.client();
    let name = client.create(scene.app.pid(), v1::Limits::default()).name;
    client.reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 32 * MIB);
    scene.assert_on("shm", 0, 16 * MIB);
    scene.finish();

    // Its end, and another one on the same store.
    let scene = Scene::remote(&["anon:64M"]);
    let resumed = resuming(&client, scene.app.pid());
    let other = Scene::remote(&["anon:4M"]);
    let queued = client.create(other.app.pid(), slow(4096)).name;
    first.stop();
    drop(first);
    assert!(!Path::new(SOCKET).exists(), "the socket is left behind");
    let second = Contained::start(&containerd);
    let client = second.client();
    assert!(client.job(&queued).end_time.is_none(), "it waits as before");
    client.cancel(&queued).expect("it is cancelled");
    client.reaches(&resumed, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    scene.finish();
    other.finish();
}
