//! The resctrl group of the daemon, from its start to its end, on a file system that keeps the kernel's rules.

use super::{numalocd, operators::ConfiguredDaemon};
use nix::mount::{MsFlags, mount};
use numaloc_api::v1::{self, daemon_service_client::DaemonServiceClient};
use numaloc_sys::fixture::skipped;
use numaloc_tests::resctrl::{MOUNT_POINT, Machine, Resctrl, in_private_mounts, make_mount_point};
use std::{fs, path::Path};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Channel;

const LIMITED: &str = "[resctrl]\ngroup = \"movers\"\nmemory_bandwidth = \"20\"\nl3 = \"0=f\"\n";
const SET: &str = "    L3:0=f;1=7ff\n    MB:0=20;1=20\n";

/// A host with resctrl, and the place of a daemon.
struct Host {
    fs: Resctrl,
    directory: TempDir,
    runtime: Runtime,
}

impl Host {
    fn new() -> Self {
        make_mount_point();
        // Notes of other daemons are not this test's.
        let none = None::<&str>;
        mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("a tmpfs");
        let (fs, directory) = (Resctrl::new(Machine::intel()), tempfile::tempdir());
        fs.mount(Path::new(MOUNT_POINT)).expect("a file system");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { fs, directory: directory.expect("a directory"), runtime }
    }

    fn start(&self, config: &str) -> (ConfiguredDaemon, DaemonServiceClient<Channel>) {
        let directory = self.directory.path();
        fs::write(directory.join("numalocd.toml"), config).expect("room");
        self.runtime.block_on(ConfiguredDaemon::start(directory))
    }

    /// The problems that a daemon reports.
    fn problems(&self, client: &mut DaemonServiceClient<Channel>) -> Vec<String> {
        let asked = client.get_status(v1::GetStatusRequest {});
        let problems = self.runtime.block_on(asked).expect("an answer").into_inner().problems;
        problems.into_iter().filter(|problem| problem.contains("resctrl")).collect()
    }

    fn is_noted(&self) -> bool {
        fs::metadata("/run/numaloc/resctrl").is_ok_and(|note| note.len() > 0)
    }
}

fn on_a_host(test: impl FnOnce(&Host) + Send + 'static) {
    if !in_private_mounts(move || test(&Host::new())) {
        skipped("the file system of the test takes root, and a kernel with FUSE");
    }
}

#[test]
fn a_group_lasts_from_the_start_of_the_daemon_to_its_end() {
    on_a_host(|host| {
        let (daemon, mut client) = host.start(LIMITED);
        assert_eq!(host.problems(&mut client), [""; 0]);
        assert_eq!((host.fs.groups(), host.is_noted()), (vec!["movers".to_owned()], true));
        assert_eq!(host.fs.schemata("movers"), SET);
        // The settings of a running daemon stay.
        let restored = numalocd(&["--restore-settings"]);
        assert!(restored.status.success() && restored.stdout.is_empty(), "{restored:?}");
        assert_eq!(host.fs.groups(), ["movers"]);
        assert!(daemon.stop().success());
        assert_eq!((host.fs.groups().len(), host.is_noted()), (0, false));
        let (_daemon, mut client) = host.start("");
        assert_eq!(host.problems(&mut client), [""; 0]);
        assert_eq!(host.fs.groups().len(), 0, "it is off by default");
    });
}

#[test]
fn a_daemon_that_is_killed_leaves_a_group_that_is_removed_later() {
    on_a_host(|host| {
        let kill = || {
            let (daemon, mut client) = host.start(LIMITED);
            // It listens before it has started; then it answers.
            assert_eq!(host.problems(&mut client), [""; 0]);
            drop(daemon);
            assert_eq!((host.fs.groups(), host.is_noted()), (vec!["movers".to_owned()], true));
        };
        // By the next start, whatever its configuration says.
        kill();
        let (daemon, mut client) = host.start("");
        assert_eq!(host.problems(&mut client), [""; 0]);
        assert_eq!((host.fs.groups().len(), host.is_noted()), (0, false));
        drop(daemon);
        // A start that asks for it makes it again.
        kill();
        kill();
        // By what the unit runs when the daemon has ended.
        let restored = numalocd(&["--restore-settings"]);
        let told = String::from_utf8_lossy(&restored.stdout).into_owned();
        assert!(restored.status.success(), "{restored:?}");
        assert!(told.contains("the resctrl group movers is removed"), "{told}");
        assert_eq!((host.fs.groups().len(), host.is_noted()), (0, false));
    });
}

#[test]
fn a_daemon_without_its_group_works_and_reports_why() {
    on_a_host(|host| {
        let (daemon, mut client) = host.start(&LIMITED.replace("20", "25"));
        let problems = host.problems(&mut client);
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(problem.starts_with("memory is moved without the resctrl group: "), "{problem}");
        assert!(problem.contains("resctrl.memory_bandwidth '25'"), "{problem}");
        assert!(problem.contains("write 20 or 30"), "{problem}");
        assert_eq!((host.fs.groups().len(), host.is_noted()), (0, false));
        drop(daemon);
        // Another program's group stays, also over a kill.
        fs::create_dir(Path::new(MOUNT_POINT).join("movers")).expect("a group");
        let (daemon, mut client) = host.start(LIMITED);
        assert!(host.problems(&mut client)[0].contains("numalocd has not made it"));
        drop(daemon);
        let (daemon, mut client) = host.start("");
        assert_eq!(host.problems(&mut client), [""; 0]);
        assert!(daemon.stop().success());
        assert_eq!(host.fs.schemata("movers"), host.fs.schemata(""));
    });
}
