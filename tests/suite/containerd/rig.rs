//! Starts containerd with the programs and images that `tests/tools/containerd` and `tests/containerd/images` have made.

use super::cri::{Container, Cri, Pod, Sandbox, v1::ContainerState};
use crate::app::until;
use std::{
    env, fs,
    future::Future,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};
use tokio::runtime::Runtime;
use tonic::Status;

/// A containerd with a directory, containers and NRI of its own. When it is dropped, its containers end with it.
#[derive(Debug)]
pub struct Containerd {
    child: Option<Child>,
    dir: PathBuf,
    setup: Setup,
    runtime: Runtime,
    cri: Cri,
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    has_nri: bool,
    /// systemd makes the containers' cgroups, and clients and plugins find the runtime at the usual places.
    is_systemd: bool,
}

/// A running container.
#[derive(Clone, Debug)]
pub struct Running {
    pub id: String,
    /// Its first process, as this machine numbers it.
    pub pid: i32,
}

impl Containerd {
    /// Starts it with both images, and waits until it makes containers.
    pub fn start() -> Self {
        Self::start_with(Setup { has_nri: true, is_systemd: false })
    }

    /// As [`Self::start`], with NRI switched off.
    pub fn without_nri() -> Self {
        Self::start_with(Setup { has_nri: false, is_systemd: false })
    }

    /// Listening for clients and plugins at the usual places, with the cgroup driver `systemd`.
    pub fn under_systemd() -> Self {
        Self::start_with(Setup { has_nri: true, is_systemd: true })
    }

    fn start_with(setup: Setup) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Short: the path of a UNIX socket has 107 bytes.
        let dir = PathBuf::from(format!("/run/containerd-{}-{number}", std::process::id()));
        let socket = socket(&dir, setup);
        for directory in [&*dir.join("tmp"), socket.parent().expect("a directory")] {
            fs::create_dir_all(directory).expect("a directory");
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let cri = {
            let _inside = runtime.enter();
            Cri::new(&socket)
        };
        let mut containerd = Self { child: None, dir, setup, runtime, cri };
        containerd.spawn();
        for name in ["busybox", "redis"] {
            containerd.import(name);
        }
        containerd
    }

    /// Starts it, or starts it again, and waits until it answers.
    pub fn spawn(&mut self) {
        let config = configuration(&self.dir, self.setup);
        fs::write(self.dir.join("config.toml"), config).expect("a configuration");
        let log = fs::File::options().create(true).append(true).open(self.dir.join("log"));
        let child = self
            .command("containerd")
            .arg("--config")
            .arg(self.dir.join("config.toml"))
            .args(["--log-level", "debug"])
            .stdin(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        self.child = Some(child.expect("containerd starts"));
        until("containerd answers", || {
            let ended = self.child.as_mut().map(Child::try_wait);
            assert!(matches!(ended, Some(Ok(None))), "{ended:?}: {}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.wait(self.cri.version()).is_ok()
        });
    }

    /// Kills it. Its containers continue: each pod has a shim that does not need it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Kills it and starts it again with NRI.
    pub fn enable_nri(&mut self) {
        self.spawn_with_nri(true);
    }

    /// Kills it and starts it again without NRI.
    pub fn disable_nri(&mut self) {
        self.spawn_with_nri(false);
    }

    fn spawn_with_nri(&mut self, has_nri: bool) {
        self.kill();
        self.setup.has_nri = has_nri;
        self.spawn();
    }

    pub fn has_nri(&self) -> bool {
        self.setup.has_nri
    }

    fn import(&self, name: &str) {
        let archive = Path::new(&variable("NUMALOC_IMAGES")).join(format!("{name}.tar"));
        self.import_from(&archive, &format!("numaloc.test/{name}:1"));
    }

    /// Imports the image of this name from an archive.
    pub fn import_from(&self, archive: &Path, image: &str) {
        let output = self.ctr().args(["images", "import"]).arg(archive).output();
        assert_success(image, &output.expect("ctr starts"));
        self.until_there(image);
    }

    /// Gives an image a second name.
    pub fn tag(&self, image: &str, name: &str) {
        let output = self.ctr().args(["images", "tag", image, name]).output();
        assert_success(name, &output.expect("ctr starts"));
        self.until_there(name);
    }

    fn until_there(&self, image: &str) {
        until(&format!("the CRI knows {image}"), || {
            matches!(self.wait(self.cri.has_image(image)), Ok(true))
        });
    }

    /// `ctr` in the namespace of the CRI.
    pub fn ctr(&self) -> Command {
        let mut command = self.command("ctr");
        command.arg("--address").arg(self.socket()).args(["-n", "k8s.io"]);
        command
    }

    fn command(&self, program: &str) -> Command {
        let programs = PathBuf::from(variable("NUMALOC_CONTAINERD"));
        let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap_or_default());
        let mut command = Command::new(programs.join(program));
        // containerd finds the shim, and the shim finds runc, in PATH.
        command.env("PATH", path).env("TMPDIR", self.dir.join("tmp"));
        command
    }

    pub fn socket(&self) -> PathBuf {
        socket(&self.dir, self.setup)
    }

    /// Where it finds the plugins that it launches when it starts.
    pub fn plugins(&self) -> PathBuf {
        self.dir.join("nri/plugins")
    }

    /// Where it listens for plugins.
    pub fn nri_socket(&self) -> PathBuf {
        nri_socket(&self.dir, self.setup)
    }

    /// The connection to it, for what is done in parallel.
    pub fn cri(&self) -> Cri {
        self.cri.clone()
    }

    /// Waits for calls of the CRI.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Starts a sandbox for a pod.
    pub fn pod(&self, pod: &Pod) -> Sandbox {
        self.expect("a sandbox", self.cri.run(pod))
    }

    /// Makes and starts a container.
    pub fn container(&self, sandbox: &Sandbox, container: &Container) -> Running {
        let id = self.expect("a container", self.cri.create(sandbox, container));
        self.expect("it starts", self.cri.start(&id));
        let (state, pid) = self.expect("its status", self.cri.status(&id));
        assert_eq!(state, ContainerState::ContainerRunning, "{container:?}: {}", self.log());
        assert!(pid > 0, "{container:?} has no pid");
        Running { id, pid }
    }

    /// A container of a pod that was made outside of this test, if it runs: the only one, or that of a name.
    pub fn running_in(&self, pod: &str, container: Option<&str>) -> Option<Running> {
        let containers = self.expect("a list", self.cri.containers());
        let running = |state| state == ContainerState::ContainerRunning;
        let mut ids = containers.into_iter().filter(|&(_, state)| running(state)).map(|(id, _)| id);
        let is_it = |id: &String| {
            let [its_pod, name] = self.expect("its names", self.cri.names_of(id));
            its_pod == pod && container.is_none_or(|container| container == name)
        };
        let id = ids.find(is_it)?;
        let (_, pid) = self.expect("its status", self.cri.status(&id));
        (pid > 0).then_some(Running { id, pid })
    }

    /// Waits for a call that must succeed.
    pub fn expect<T>(&self, what: &str, call: impl Future<Output = Result<T, Status>>) -> T {
        self.wait(call).unwrap_or_else(|status| {
            panic!("{what}: {:?}: {}: {}", status.code(), status.message(), self.log())
        })
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if self.child.is_none() {
            self.spawn(); // its shims would outlive it
        }
        let pods = self.wait(self.cri.pods()).unwrap_or_default();
        for pod in pods {
            if let Err(status) = self.wait(self.cri.remove_pod(&pod)) {
                eprintln!("pod {pod} stays: {status}");
            }
        }
        self.kill();
        if std::thread::panicking() {
            eprintln!("containerd's log:\n{}", self.log());
        }
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// The programs and images are where the scripts say that start these tests.
pub fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| {
        panic!("{name} is set by tests/containerd/run and tests/vm/suite --containerd")
    })
}

fn assert_success(what: &str, output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{what}: {}{}", text(&output.stdout), text(&output.stderr));
}

fn socket(dir: &Path, setup: Setup) -> PathBuf {
    if setup.is_systemd {
        PathBuf::from("/run/containerd/containerd.sock")
    } else {
        dir.join("containerd.sock")
    }
}

fn nri_socket(dir: &Path, setup: Setup) -> PathBuf {
    if setup.is_systemd { PathBuf::from("/var/run/nri/nri.sock") } else { dir.join("nri.sock") }
}

/// Version 2 of the configuration, which 1.7 and 2.x both read.
fn configuration(dir: &Path, setup: Setup) -> String {
    let Setup { has_nri, is_systemd } = setup;
    let no_nri = !has_nri;
    let (socket, nri_socket) = (socket(dir, setup), nri_socket(dir, setup));
    let (socket, nri_socket, dir) = (socket.display(), nri_socket.display(), dir.display());
    // A file system in memory that the kernel booted from cannot be the old root of pivot_root(2).
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let no_pivot = mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some("/") && line.contains(" - rootfs "));
    format!(
        r#"version = 2
root = "{dir}/root"
state = "{dir}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"
[plugins."io.containerd.nri.v1.nri"]
  disable = {no_nri}
  socket_path = "{nri_socket}"
  plugin_path = "{dir}/nri/plugins"
  plugin_config_path = "{dir}/nri/conf.d"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "numaloc.test/busybox:1"
  # This machine may itself be a container, which may not lower it.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{dir}/cni/bin"
  conf_dir = "{dir}/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  NoPivotRoot = {no_pivot}
  SystemdCgroup = {is_systemd}
"#
    )
}
